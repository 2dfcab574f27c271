"""Pure: the order of name look-ups, so that no namespace can take all places.

A look-up that hangs cannot be cancelled and keeps its place until the resolver's timeout. So a namespace has few places
at once, and half of all places serve only namespaces that have none.
"""

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class LookupTurns(Generic[T]):
    """Places for look-ups, and the look-ups that wait for one, by namespace.

    Args:
        places: look-ups at once.
        per_namespace: look-ups of one namespace at once.
        waiting: look-ups of one namespace that may wait.
    """

    def __init__(self, places: int, per_namespace: int, waiting: int) -> None:
        self._free, self._reserved = places, places // 2
        self._per_namespace, self._may_wait = per_namespace, waiting
        self._running: dict[str, int] = {}
        self._waiting: dict[str, deque[T]] = {}
        # Namespaces that wait and may begin: those without a running look-up, and the others.
        self._first: OrderedDict[str, None] = OrderedDict()
        self._further: OrderedDict[str, None] = OrderedDict()

    def add(self, namespace: str, lookup: T) -> bool:
        """Add a look-up to the queue; return False if too many look-ups of the namespace wait already."""
        waiting = self._waiting.setdefault(namespace, deque())
        if len(waiting) >= self._may_wait:
            return False
        waiting.append(lookup)
        self._line_up(namespace)
        return True

    def begin(self) -> T | None:
        """Assign a place to the next look-up and return it; None if none may begin."""
        line, reserved = (self._first, 0) if self._first else (self._further, self._reserved)
        if not line or self._free <= reserved:
            return None
        namespace, _ = line.popitem(last=False)
        lookup = self._waiting[namespace].popleft()
        if not self._waiting[namespace]:
            del self._waiting[namespace]
        self._free -= 1
        self._running[namespace] = self._running.get(namespace, 0) + 1
        self._line_up(namespace)
        return lookup

    def end(self, namespace: str) -> None:
        """Free the place of a look-up that ended."""
        self._free += 1
        self._running[namespace] -= 1
        if not self._running[namespace]:
            del self._running[namespace]
        self._line_up(namespace)

    def share_used(self, namespace: str) -> bool:
        """Return whether the namespace uses all the places that one namespace may have."""
        return self._running.get(namespace, 0) >= self._per_namespace

    def _line_up(self, namespace: str) -> None:
        """Put a namespace at the end of its queue, unless it is in it already."""
        running = self._running.get(namespace, 0)
        line, other = (self._further, self._first) if running else (self._first, self._further)
        other.pop(namespace, None)
        if namespace in self._waiting and running < self._per_namespace:
            line.setdefault(namespace)
        else:
            line.pop(namespace, None)
