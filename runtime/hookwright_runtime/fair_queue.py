"""Pure: a queue for a few places whose holders take turns (round robin), so that none delays the others for long."""

from collections import OrderedDict, deque
from typing import Generic, TypeVar

from hookwright_runtime.quotas import Full, Quotas

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items that have a place, and items that wait for one; no two of them are equal.

    The first waiting item of a holder waits for at most one item of each other holder.

    Args:
        places: items at once.
        each: items of one holder that may wait or have a place.
        total: items of all holders that may wait or have a place.
    """

    def __init__(self, *, places: int, each: int, total: int) -> None:
        self._free = places
        self._items = Quotas(total=total, each=each)
        # In the order of turns: the first holder is next.
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()

    def add(self, holder: str, item: T) -> Full | None:
        """Let an item wait; return None, or the bound that does not allow it."""
        full = self._items.take(holder)
        if full is None:
            self._waiting.setdefault(holder, deque()).append(item)
        return full

    def begin(self) -> T | None:
        """Give a free place to the item whose turn it is, and return the item; None if none may begin."""
        if not self._free or not self._waiting:
            return None
        holder, items = self._waiting.popitem(last=False)
        item = items.popleft()
        if items:
            self._waiting[holder] = items
        self._free -= 1
        return item

    def leave(self, holder: str, item: T) -> None:
        """Remove an item that was added: it waits no longer, or its place becomes free."""
        self._items.release(holder)
        items = self._waiting.get(holder)
        if items is None or item not in items:
            self._free += 1
            return
        items.remove(item)
        if not items:
            del self._waiting[holder]
