"""Pure: the replays that advance in a round.

A namespace with many replays delays those of another by a limited number of steps.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from hookwright_operator.store.records import Replay


class ReplayTurns:
    """The turns of the replays of each namespace.

    Args:
        each: replays of a namespace that advance in one round.
    """

    def __init__(self, each: int) -> None:
        self._each = each
        self._last: dict[str, str] = {}

    def choose(self, running: Iterable[Replay], namespace: Callable[[Replay], str]) -> Mapping[str, Sequence[Replay]]:
        """Return the replays of the next round by namespace.

        A namespace with more replays than one round takes begins after the last one of its previous round.
        """
        of_namespace: dict[str, list[Replay]] = {}
        for replay in sorted(running, key=lambda one: one.id):
            of_namespace.setdefault(namespace(replay), []).append(replay)
        chosen = {}
        for name, replays in of_namespace.items():
            last = self._last.get(name, "")
            replays.sort(key=lambda one: one.id <= last)
            chosen[name] = replays[: self._each]
        self._last = {name: replays[-1].id for name, replays in chosen.items()}
        return chosen
