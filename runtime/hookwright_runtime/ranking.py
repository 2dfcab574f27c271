"""Pure: items that wait for their turn, ordered by rank."""

from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R", int, tuple[int, int])


class Ranking(Generic[T, R]):
    """Items that wait, each with a rank. The lowest rank is next, and items of one rank take turns."""

    def __init__(self) -> None:
        self._ranks: dict[T, R] = {}
        self._by_rank: dict[R, OrderedDict[T, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._ranks)

    def __contains__(self, item: T) -> bool:
        return item in self._ranks

    def put(self, item: T, rank: R) -> None:
        """Add an item behind the others of a rank, or move it there; an item that has this rank keeps its turn."""
        if self._ranks.get(item) == rank:
            return
        self.discard(item)
        self._ranks[item] = rank
        items = self._by_rank.get(rank)
        if items is None:
            items = self._by_rank[rank] = OrderedDict()
        items[item] = None

    def discard(self, item: T) -> None:
        """Remove an item if it waits."""
        rank = self._ranks.pop(item, None)
        if rank is not None:
            items = self._by_rank[rank]
            del items[item]
            if not items:
                del self._by_rank[rank]

    def ranks(self) -> list[R]:
        """Return the ranks that occur, the lowest first."""
        return sorted(self._by_rank)

    def lowest(self) -> R:
        """Return the lowest rank; at least one item must wait."""
        return min(self._by_rank)

    def first(self, rank: R) -> T:
        """Return the next item of a rank."""
        return next(iter(self._by_rank[rank]))
