"""The renewals of the claim lease."""

from functools import partial

from support.polling import until

from hookwright_operator.delivery.dispatcher import Dispatcher
from hookwright_operator.store.store import Store
from hookwright_operator.supervisor import Supervisor
from hookwright_runtime.errors import StoreUnavailable


class Leases(Store):
    """A store whose first renewals of the lease fail."""

    def __init__(self, failing: int) -> None:
        self.failing = failing

    async def heartbeat(self) -> int:
        """Return the end of the lease."""
        if self.failing:
            self.failing -= 1
            raise StoreUnavailable("connection refused")
        return 1_000


class Renewals(Dispatcher):
    """Records the ends of the leases."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.ends: list[int] = []

    def lease_renewed(self, lease_until_ms: int) -> None:
        """Record the end of a lease."""
        self.ends.append(lease_until_ms)


async def test_a_lease_is_renewed_as_soon_as_the_database_returns() -> None:
    """No attempt starts without a lease, so the loop does not wait a sixth of the lease once more."""
    renewals, loops = Renewals(Leases(failing=1)), Supervisor()
    hour = 3600.0
    loops.start("heartbeat", partial(renewals.keep_lease, hour))
    try:
        await until(lambda: bool(renewals.ends), within=30)
    finally:
        await loops.stop()
    assert renewals.ends == [1_000]
