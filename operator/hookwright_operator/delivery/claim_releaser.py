"""Release of claims that this replica does not use, so that any replica may claim these deliveries."""

from collections.abc import Callable, Iterable, Sequence

from hookwright_operator.delivery.owned_shards import OwnedShards
from hookwright_operator.delivery.protocols import DeliveryStore
from hookwright_operator.delivery.tasks import Tasks
from hookwright_operator.store.records import Claimed
from hookwright_operator.store.retry import persist
from hookwright_operator.store.sql.shards import shard_of


class ClaimReleaser:
    """Releases claims in the background, and retries for as long as the store fails.

    Args:
        store: has the claims.
        tasks: in which claims are released.
        owned_shards: counts the shards of these deliveries as busy until their claims are released.
        released: called with the uid of each endpoint that has deliveries to claim again.
    """

    def __init__(
        self, store: DeliveryStore, tasks: Tasks, owned_shards: OwnedShards, released: Callable[[str], None]
    ) -> None:
        self._store, self._tasks, self._owned_shards, self._released = store, tasks, owned_shards, released

    def release(self, deliveries: Sequence[Claimed]) -> None:
        """Release the claims on deliveries soon."""
        if deliveries:
            ids = [delivery.id for delivery in deliveries]
            uids = {delivery.endpoint_uid for delivery in deliveries}
            for uid in uids:
                self._owned_shards.begin(shard_of(uid))
            self._tasks.spawn(self._release_until_done(ids, uids))

    async def _release_until_done(self, ids: Sequence[str], uids: Iterable[str]) -> None:
        try:
            await persist(lambda: self._store.release(ids), "claims not released, retrying")
        finally:
            for uid in uids:
                self._owned_shards.end(shard_of(uid))
        for uid in uids:
            self._released(uid)
