"""Pure: which endpoint queue starts its next attempt, and how namespaces share a bound.

No decision depends on the time: the rate limit of an endpoint and the claim lease are checked by the caller.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from hookwright_operator.delivery.endpoint_queue import EndpointQueue

T = TypeVar("T")
R = TypeVar("R", int, tuple[int, int])


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


class _Ranking(Generic[T, R]):
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


class Scheduler:
    """The attempts under way and the endpoint queues that wait for a place.

    Namespaces share the places by `Shares`. Among namespaces that wait, the one with the fewest attempts under way
    is next. Among its endpoint queues that wait, the one with the fewest is next. Equal ones take turns.

    The same threshold holds for an endpoint within its namespace: the endpoint starts an attempt only while it has
    fewer under way than its namespace may still start. So one endpoint never takes the last places that
    its namespace has, unless it has nothing under way. A queue that the threshold stops still waits, and it starts
    as soon as its namespace has room: when attempts of any namespace end, or when endpoints are deleted.

    Each call costs O(1), except that `next` compares the ranks of waiting namespaces. Such a rank consists of the
    attempts of the namespace and the fewest attempts of a waiting queue. At most 113 ranks fit into 1,024 places.

    Args:
        bound: attempts under way at once, of all namespaces.
    """

    def __init__(self, bound: int) -> None:
        self._places = Shares(bound)
        self._waiting: dict[str, _Ranking[EndpointQueue, int]] = {}
        self._namespaces: _Ranking[str, tuple[int, int]] = _Ranking()

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
        self._stop_waiting(queue)
        self._places.leave(queue.endpoint.namespace)

    def has_place(self, queue: EndpointQueue) -> bool:
        """Return whether an attempt may start now without a turn: no endpoint queue waits, and the bounds allow it."""
        return not self._waiting and queue.in_flight < self._places.left(queue.endpoint.namespace)

    def start(self, queue: EndpointQueue) -> None:
        """Count an attempt that starts."""
        queue.in_flight += 1
        self._places.take(queue.endpoint.namespace)
        self._recount(queue)

    def end(self, queue: EndpointQueue) -> None:
        """Count an attempt that ended."""
        queue.in_flight -= 1
        self._places.give(queue.endpoint.namespace)
        self._recount(queue)

    def wait(self, queue: EndpointQueue) -> None:
        """Let a queue wait for a place, behind those with as few attempts; a queue that waits keeps its turn."""
        namespace = queue.endpoint.namespace
        self._waiting.setdefault(namespace, _Ranking()).put(queue, queue.in_flight)
        self._rank(namespace)

    def next(self) -> EndpointQueue | None:
        """Return the endpoint queue that may start an attempt now, None if there is no place for those that wait.

        The queue waits no more.
        """
        for rank in self._namespaces.ranks():
            namespace = self._namespaces.first(rank)
            left = self._places.left(namespace)
            if left < 1:
                return None
            _, fewest = rank
            if fewest < left:
                queue = self._waiting[namespace].first(fewest)
                self._stop_waiting(queue)
                return queue
        return None

    def _stop_waiting(self, queue: EndpointQueue) -> None:
        namespace = queue.endpoint.namespace
        if (queues := self._waiting.get(namespace)) is not None:
            queues.discard(queue)
            if not queues:
                del self._waiting[namespace]
            self._rank(namespace)

    def _recount(self, queue: EndpointQueue) -> None:
        """Update the ranks of a queue and its namespace if they wait."""
        namespace = queue.endpoint.namespace
        if (queues := self._waiting.get(namespace)) is not None:
            if queue in queues:
                queues.put(queue, queue.in_flight)
            self._rank(namespace)

    def _rank(self, namespace: str) -> None:
        if (queues := self._waiting.get(namespace)) is not None:
            self._namespaces.put(namespace, (self._places.used_by(namespace), queues.lowest()))
        else:
            self._namespaces.discard(namespace)
