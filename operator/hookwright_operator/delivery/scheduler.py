"""Pure: which endpoint queue starts its next attempt, and how namespaces share a bound.

No decision depends on the time: the rate limit of an endpoint and the claim lease are checked by the caller.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hookwright_operator.delivery.endpoint_queue import EndpointQueue


@dataclass(slots=True)
class _Share:
    """How much of the bound one namespace uses, and how many endpoints it has."""

    used: int = 0
    endpoints: int = 0


class Shares:
    """A bound, in places or in bytes, that namespaces share.

    Two rules decide how much a namespace may take:

    * **A guaranteed part.** Up to half of the bound is divided evenly among the namespaces that have endpoints.
      The number of namespaces is rounded up to a power of two, so that the parts rarely change. No other
      namespace can take such a part, so its owner never waits for it.
    * **A dynamic threshold** for the rest (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory
      packet switches", IEEE/ACM Transactions on Networking 6(2), 1998, with alpha = 1). A namespace may use at
      most as much as it leaves free. Guaranteed parts of others do not count as free.

    So one namespace uses at most half of the bound. If k namespaces want as much as possible, each uses at most
    1/(k + 1) of the rest. Some of the bound always stays free for a new namespace. This reserve is the cost of the
    rule: with one namespace, half of the bound.

    The threshold alone is not enough, because a place becomes free only when an attempt ends. Namespaces that fill up
    one after the other halve the free part each time, so the tenth one leaves 1 of 1,024 places for up to 30 s.
    Guaranteed parts alone are not enough, because then the first namespace takes all of the rest. A fixed cap of
    half for each namespace is not enough, because two namespaces at their cap leave nothing.

    A namespace that is created while the bound is used up gets its part as attempts of others end. If the rounded
    number of namespaces exceeds half of the bound, the guaranteed part is 0 and only the threshold remains.

    Args:
        bound: places or bytes in all.

    Attributes:
        used: how much of the bound all namespaces use; more than the bound if `take` was called although `left` was 0.
    """

    def __init__(self, bound: int) -> None:
        self.used = 0
        self._bound = bound
        self._guaranteed = 0
        # Free, and in no guaranteed part.
        self._spare = bound
        self._set_aside = 0
        self._shares: dict[str, _Share] = {}

    def join(self, namespace: str) -> None:
        """Add an endpoint of a namespace."""
        share = self._shares.get(namespace)
        if share is None:
            share = self._shares[namespace] = _Share()
            self._spare -= self._guaranteed
            self._divide()
        share.endpoints += 1

    def leave(self, namespace: str) -> None:
        """Remove an endpoint of a namespace."""
        share = self._shares[namespace]
        share.endpoints -= 1
        self._forget_unused(namespace, share)

    def left(self, namespace: str) -> int:
        """Return how much a namespace may take now if no other namespace takes anything meanwhile; at least 0."""
        used, guaranteed = self._shares[namespace].used, self._guaranteed
        left = 0
        if used < guaranteed:
            left, used = guaranteed - used, guaranteed
        if self._spare > used:
            left += (self._spare - used + 1) // 2
        free = self._bound - self.used
        return left if left <= free else max(0, free)

    def used_by(self, namespace: str) -> int:
        """Return how much a namespace uses."""
        return self._shares[namespace].used

    def take(self, namespace: str, amount: int = 1) -> None:
        """Count an amount as used; the caller checks `left` before."""
        share = self._shares[namespace]
        share.used += amount
        self.used += amount
        beyond = share.used - self._guaranteed
        if beyond > 0:
            self._spare -= min(beyond, amount)

    def give(self, namespace: str, amount: int = 1) -> None:
        """Count an amount as free again."""
        share = self._shares[namespace]
        beyond = share.used - self._guaranteed
        if beyond > 0:
            self._spare += min(beyond, amount)
        share.used -= amount
        self.used -= amount
        if not share.endpoints:
            self._forget_unused(namespace, share)

    def left_or_guaranteed(self, namespace: str) -> int:
        """Return `left`, or what remains of the guaranteed part also if others exceed the bound."""
        return max(self.left(namespace), self._guaranteed - self._shares[namespace].used)

    @contextmanager
    def set_aside(self, amount: int) -> Iterator[None]:
        """Count an amount as used, by no namespace, until the block ends."""
        self._count_aside(amount)
        try:
            yield
        finally:
            self._count_aside(-amount)

    def _count_aside(self, amount: int) -> None:
        self.used += amount
        self._spare -= amount
        self._set_aside += amount

    def _forget_unused(self, namespace: str, share: _Share) -> None:
        if not share.used and not share.endpoints:
            del self._shares[namespace]
            self._spare += self._guaranteed
            self._divide()

    def _divide(self) -> None:
        """Set the guaranteed part by the number of namespaces, and add up all namespaces only if it changes."""
        number = len(self._shares)
        guaranteed = self._bound >> ((number - 1).bit_length() + 1) if number else 0
        if guaranteed != self._guaranteed:
            self._guaranteed = guaranteed
            taken = sum(max(guaranteed, share.used) for share in self._shares.values())
            self._spare = self._bound - self._set_aside - taken


class Turns:
    """Endpoint queues that wait for the same thing: namespaces take turns, and so do the queues of one namespace."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, OrderedDict[EndpointQueue, None]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, queue: EndpointQueue) -> None:
        """Add a queue behind the others of its namespace; one that waits already keeps its turn."""
        self._waiting.setdefault(queue.endpoint.namespace, OrderedDict()).setdefault(queue)

    def take(self, limit: int) -> list[EndpointQueue]:
        """Remove and return the next queues, at most so many."""
        taken: list[EndpointQueue] = []
        while self._waiting and len(taken) < limit:
            namespace, queues = self._waiting.popitem(last=False)
            taken.append(queues.popitem(last=False)[0])
            if queues:
                self._waiting[namespace] = queues
        return taken


class Scheduler:
    """The attempts under way and the endpoint queues that wait for a place.

    Namespaces share the places by `Shares`. Among namespaces that wait, the one with the fewest attempts under way
    is next; namespaces with equally many take turns. Endpoints of one namespace take turns, one attempt each.

    The same threshold holds for an endpoint within its namespace: the endpoint starts an attempt only while it has
    fewer under way than its namespace may still start. So one endpoint never takes the last places that
    its namespace has, unless it has nothing under way.

    Each call costs O(1), except that a search for the next namespace compares the counts that occur among waiting
    namespaces. At most 45 different counts fit into 1,024 places.

    Args:
        bound: attempts under way at once, of all namespaces.
    """

    def __init__(self, bound: int) -> None:
        self._places = Shares(bound)
        self._waiting: dict[str, OrderedDict[EndpointQueue, None]] = {}
        self._by_used: dict[int, OrderedDict[str, None]] = {}

    @property
    def in_flight(self) -> int:
        """How many attempts are under way."""
        return self._places.used

    @property
    def waiting(self) -> bool:
        """Whether an endpoint queue waits for a place."""
        return bool(self._waiting)

    def add(self, queue: EndpointQueue) -> None:
        """Add an endpoint."""
        self._places.join(queue.endpoint.namespace)

    def remove(self, queue: EndpointQueue) -> None:
        """Remove an endpoint: it waits no more; its attempts under way count until they end."""
        namespace = queue.endpoint.namespace
        queues = self._waiting.get(namespace)
        if queues is not None and queue in queues:
            del queues[queue]
            if not queues:
                self._stop_waiting(namespace)
        self._places.leave(namespace)

    def has_place(self, queue: EndpointQueue) -> bool:
        """Return whether an attempt may start now without a turn: no endpoint queue waits, and the bounds allow it."""
        return not self._waiting and queue.in_flight < self._places.left(queue.endpoint.namespace)

    def start(self, queue: EndpointQueue) -> None:
        """Count an attempt that starts."""
        queue.in_flight += 1
        namespace = queue.endpoint.namespace
        self._places.take(namespace)
        if namespace in self._waiting:
            self._recount(namespace, +1)

    def end(self, queue: EndpointQueue) -> None:
        """Count an attempt that ended."""
        queue.in_flight -= 1
        namespace = queue.endpoint.namespace
        self._places.give(namespace)
        if namespace in self._waiting:
            self._recount(namespace, -1)

    def wait(self, queue: EndpointQueue) -> None:
        """Queue an endpoint for a place, behind the others of its namespace; one that waits keeps its turn."""
        namespace = queue.endpoint.namespace
        queues = self._waiting.get(namespace)
        if queues is None:
            queues = self._waiting[namespace] = OrderedDict()
            self._by_used.setdefault(self._places.used_by(namespace), OrderedDict())[namespace] = None
        queues.setdefault(queue)

    def next(self) -> EndpointQueue | None:
        """Return the endpoint queue that may start an attempt now, None if there is no place for those that wait.

        The queue waits no more. A queue that has as many attempts under way as its namespace may still start is
        dropped, and waits again after one of its attempts ended.
        """
        while self._by_used:
            namespace = next(iter(self._by_used[min(self._by_used)]))
            left = self._places.left(namespace)
            if left < 1:
                return None
            queues = self._waiting[namespace]
            queue, _ = queues.popitem(last=False)
            if not queues:
                self._stop_waiting(namespace)
            if queue.in_flight < left:
                return queue
        return None

    def _recount(self, namespace: str, change: int) -> None:
        """Move a waiting namespace to those with its number of attempts under way."""
        used = self._places.used_by(namespace)
        self._discard(namespace, used - change)
        self._by_used.setdefault(used, OrderedDict())[namespace] = None

    def _stop_waiting(self, namespace: str) -> None:
        del self._waiting[namespace]
        self._discard(namespace, self._places.used_by(namespace))

    def _discard(self, namespace: str, used: int) -> None:
        namespaces = self._by_used[used]
        del namespaces[namespace]
        if not namespaces:
            del self._by_used[used]
