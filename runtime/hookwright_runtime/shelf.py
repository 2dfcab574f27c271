"""Pure: a bounded cache whose values count for holders, such as namespaces; the largest holder loses a value first."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Shelf(Generic[V]):
    """Values by key, of which each counts for a holder.

    Args:
        size: the most values. Beyond it a holder with more than an even share loses its least recently used one for a
            new one; for a value of another holder, the holder with the most loses one.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        # In the order in which they were kept. To remove the first one of a plain dict again and again is slow.
        self._values: OrderedDict[Hashable, tuple[V, str]] = OrderedDict()
        # The keys of each holder, the least recently used first.
        self._keys: dict[str, OrderedDict[Hashable, None]] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def earliest(self) -> tuple[Hashable, V] | None:
        """Return the key and value that were kept first; None if there is none."""
        item = next(iter(self._values.items()), None)
        return None if item is None else (item[0], item[1][0])

    def find(self, key: Hashable) -> V | None:
        """Return a value and mark it as used; None if there is none."""
        entry = self._values.get(key)
        if entry is None:
            return None
        value, holder = entry
        self._keys[holder].move_to_end(key)
        return value

    def keep(self, key: Hashable, value: V, holder: str) -> None:
        """Add or replace a value, and mark it as used."""
        self.discard(key)
        if len(self._values) >= self._size:
            keys = self._keys.get(holder)
            # A holder with many values must not cost a look at all holders each time.
            if keys is None or len(keys) * len(self._keys) <= self._size:
                keys = max(self._keys.values(), key=len)
            self.discard(next(iter(keys)))
        self._values[key] = value, holder
        self._keys.setdefault(holder, OrderedDict())[key] = None

    def discard(self, key: Hashable) -> None:
        """Remove a value, if there is one."""
        entry = self._values.pop(key, None)
        if entry is None:
            return
        keys = self._keys[entry[1]]
        del keys[key]
        if not keys:
            del self._keys[entry[1]]
