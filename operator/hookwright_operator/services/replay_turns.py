"""Pure: the replays that advance in a round.

A namespace with many replays delays those of another by a limited number of steps. A replay whose endpoint gets no
deliveries takes no turns.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from hookwright_operator.store.records import Replay

STEP_SECONDS: Final = 0.1
"""Pause after a round with progress."""
POLL_SECONDS: Final = 1.0
"""Longest pause between two rounds."""


def next_pause(last: float, *, progress: bool) -> float:
    """Return the seconds until the next round.

    After a round without progress the pause is twice the last one. An endpoint that delivers fast needs its next step
    before the longest pause ends.

    Args:
        last: the pause before this round.
        progress: whether a replay made deliveries pending or searched in this round.
    """
    return STEP_SECONDS if progress else min(2 * last, POLL_SECONDS)


class ReplayTurns:
    """The turns of the replays of each namespace.

    Args:
        each: replays of a namespace that advance in one round.
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
