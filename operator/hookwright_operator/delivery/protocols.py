"""Pure: protocols of the objects that the delivery loops use, and the loops' bounds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from hookwright_operator.delivery.attempt import Outcome
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Claimed, Settlement, Wants

CLAIMS_IN_MEMORY: Final = 8
"""A claim takes at most this part of the memory limit, so that it ends soon and new events find room meanwhile."""


class DeliveryStore(Protocol):
    """The part of the store that the delivery loops use."""

    async def claim(self, wants: Wants, *, room: int) -> list[Claimed]: ...  # noqa: D102
    async def settle(self, settlements: Sequence[Settlement], *, again: bool = False) -> None: ...  # noqa: D102
    async def release(self, delivery_ids: Sequence[str]) -> None: ...  # noqa: D102
    async def next_due(self, endpoint_uids: Sequence[str] | None = None) -> Mapping[str, int]: ...  # noqa: D102


class Sends(Protocol):
    """An object that makes one attempt."""

    async def send(  # noqa: D102
        self,
        endpoint: Endpoint,
        *,
        message_id: str,
        body: bytes,
        now: Callable[[], float],
        delivery: Claimed | None = None,
    ) -> Outcome: ...


class Observer(Protocol):
    """An object that is called with the result of each attempt."""

    def attempted(self, endpoint: Endpoint, settlement: Settlement, *, limited_to: int | None = None) -> None:
        """Record an attempt whose result is stored.

        Args:
            endpoint: the snapshot with which the attempt began.
            settlement: the result.
            limited_to: how many attempts at once the endpoint gets while its attempts time out, None otherwise.
        """


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of the deliveries in memory.

    Attributes:
        window: deliveries of one endpoint.
        memory: bytes of bodies of all endpoints; beyond it a queue gets one delivery at a time.
        in_flight: attempts under way at once, of all endpoints.
    """

    window: int
    memory: int
    in_flight: int = 1024
