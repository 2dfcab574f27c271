"""Replays, which make an endpoint's deliveries of a time range pending again."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hookwright_operator.delivery.dispatcher import Dispatcher
from hookwright_operator.ids import replay_id
from hookwright_operator.registry import Registry
from hookwright_operator.store.chosen_replays import Wanted
from hookwright_operator.store.records import DELETED_REASON, Replay
from hookwright_operator.store.store import Store

REPLAYED_AT_ONCE: Final = 200
"""Deliveries of one endpoint that a replay makes due at once; a new event waits behind them."""
_NAMESPACES_AT_ONCE: Final = 4
"""Namespaces whose replays search at the same time, one replay of each; other reads of the log wait behind them."""
_OF_NAMESPACE: Final = 8
"""Replays of a namespace that advance in one round; with more, they take turns."""
STEP_SECONDS: Final = 0.1
"""Pause after a round with progress."""
POLL_SECONDS: Final = 1.0
"""Longest pause between two rounds; pauses grow to it, because a fast endpoint needs its next step earlier."""


class ReplayTurns:
    """The turns of the replays of each namespace.

    A namespace with many replays delays those of another by a limited number of steps. A replay whose endpoint gets no
    deliveries takes no turns.

    Args:
        limit: replays of a namespace that advance in one round.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._last: dict[str, str] = {}
        self._left_out: set[str] = set()

    def leave_out(self, replay_id: str) -> None:
        """Give a replay no turn until its endpoint is sendable."""
        self._left_out.add(replay_id)

    def choose(
        self,
        running: Sequence[Replay],
        namespace: Callable[[Replay], str],
        sendable: Callable[[Replay], bool] = lambda _: True,
    ) -> Mapping[str, Sequence[Replay]]:
        """Return the replays of the next round by namespace.

        A namespace with more replays than one round takes begins after the last one of its previous round.

        Args:
            running: all replays that this replica advances.
            namespace: returns the namespace of a replay.
            sendable: returns whether deliveries may be sent to the endpoint of a replay.
        """
        self._left_out = {replay.id for replay in running if replay.id in self._left_out and not sendable(replay)}
        of_namespace: dict[str, list[Replay]] = {}
        for replay in sorted(running, key=lambda replay: replay.id):
            if replay.id not in self._left_out:
                of_namespace.setdefault(namespace(replay), []).append(replay)
        groups = {}
        for name, replays in of_namespace.items():
            last = self._last.get(name, "")
            replays.sort(key=lambda replay: replay.id <= last)
            groups[name] = replays[: self._limit]
        self._last = {name: replays[-1].id for name, replays in groups.items()}
        return groups


@dataclass(frozen=True, slots=True)
class Replays:
    """The replays of all endpoints; `run` executes those of this replica's endpoints.

    Attributes:
        clock_ms: milliseconds since the epoch, by the store's clock.
        sleep: waits for a number of seconds between two rounds.
    """

    registry: Registry
    dispatcher: Dispatcher
    store: Store
    clock_ms: Callable[[], int]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def begin(self, selection: Wanted) -> tuple[Replay, bool]:
        """Begin a replay.

        Returns:
            The replay, and whether it is new. If the endpoint has a running replay, that one is returned.
        """
        new_id = replay_id()
        replay = await self.store.chosen_replays.begin(new_id, selection)
        if self.registry.get(selection.endpoint_uid) is None:
            await self.store.discard(selection.endpoint_uid, DELETED_REASON)
        return replay, replay.id == new_id

    async def run(self) -> None:
        """Advance the running replays of this replica's endpoints by one step each, repeatedly, until cancelled."""
        turns, pause = ReplayTurns(_OF_NAMESPACE), POLL_SECONDS
        while True:
            running = await self.store.running_replays()
            replays = [replay for replay in running if self.dispatcher.owned_shards.owns(replay.endpoint_uid)]
            places = asyncio.Semaphore(_NAMESPACES_AT_ONCE)
            groups = turns.choose(replays, self._namespace, self._sendable).values()
            progress = await asyncio.gather(*[self._advance_each(turns, group, places) for group in groups])
            pause = STEP_SECONDS if any(progress) else min(2 * pause, POLL_SECONDS)
            await self.sleep(pause)

    def _namespace(self, replay: Replay) -> str:
        endpoint = self.registry.get(replay.endpoint_uid)
        return "" if endpoint is None else endpoint.namespace

    def _sendable(self, replay: Replay) -> bool:
        # The replay of a deleted endpoint keeps its turns until the endpoint's deliveries are discarded.
        endpoint = self.registry.get(replay.endpoint_uid)
        return endpoint is None or endpoint.sendable

    async def _advance_each(self, turns: ReplayTurns, replays: Sequence[Replay], places: asyncio.Semaphore) -> bool:
        progress = False
        for replay in replays:
            async with places:
                has_advanced = await self._advance(replay)
            if not has_advanced and not self._sendable(replay):
                turns.leave_out(replay.id)
            progress |= has_advanced
        return progress

    async def _advance(self, replay: Replay) -> bool:
        """Execute one step of a replay; return whether it made progress. A search without a hit is progress, too."""
        endpoint = self.registry.get(replay.endpoint_uid)
        if endpoint is None:
            return False
        project = (endpoint.namespace, endpoint.project)
        number = await self.store.chosen_replays.advance(replay.id, limit=REPLAYED_AT_ONCE, project=project)
        if number:
            self.dispatcher.waiting(replay.endpoint_uid)
        return number is not None
