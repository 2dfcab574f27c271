"""Replays, which make an endpoint's failed deliveries of a time range pending again."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hookwright_operator import metrics
from hookwright_operator.delivery.dispatcher import Dispatcher
from hookwright_operator.ids import replay_id
from hookwright_operator.registry import Registry
from hookwright_operator.store.records import Replay
from hookwright_operator.store.store import Store

REPLAYED_AT_ONCE: Final = 200
"""Deliveries of one endpoint that a replay makes due at once; a new event waits behind them."""
_STEP_SECONDS: Final = 0.1
_POLL_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Replays:
    """The replays of all endpoints; `run` executes those of this replica's endpoints.

    Attributes:
        clock_ms: milliseconds since the epoch, by the store's clock.
    """

    registry: Registry
    dispatcher: Dispatcher
    store: Store
    clock_ms: Callable[[], int]

    async def begin(self, endpoint_uid: str, *, since_ms: int, until_ms: int | None) -> tuple[Replay, bool]:
        """Begin a replay of deliveries that ended from ``since_ms`` to ``until_ms``, both included; None: until now.

        Returns:
            The replay, and whether it is new. If the endpoint has a running replay, that one is returned.
        """
        wanted = replay_id()
        replay = await self.store.begin_replay(wanted, endpoint_uid, since_ms=since_ms, until_ms=until_ms)
        if self.registry.get(endpoint_uid) is None:
            metrics.DELIVERIES.labels("discarded").inc(await self.store.discard(endpoint_uid, "endpoint deleted"))
        return replay, replay.id == wanted

    async def find(self, wanted: str) -> Replay | None:
        """Return a replay by its id."""
        return await self.store.replay(wanted)

    async def run(self) -> None:
        """Advance every running replay of this replica's endpoints by one step, repeatedly, until cancelled."""
        while True:
            running = await self.store.running_replays()
            own = [replay for replay in running if self.dispatcher.owned_shards.owns(replay.endpoint_uid)]
            steps = [self.store.advance_replay(replay.id, limit=REPLAYED_AT_ONCE) for replay in own]
            for replay, replayed in zip(own, await asyncio.gather(*steps), strict=True):
                if replayed:
                    self.dispatcher.waiting(replay.endpoint_uid)
            await asyncio.sleep(_STEP_SECONDS if own else _POLL_SECONDS)
