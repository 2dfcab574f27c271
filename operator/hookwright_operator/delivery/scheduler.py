"""Pure: which endpoint queue starts its next attempt."""

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from itertools import count

from hookwright_operator.delivery.endpoint_queue import EndpointQueue
from hookwright_operator.delivery.shares import Shares
from hookwright_runtime.ranking import Ranking


class Scheduler:
    """The attempts under way, and the endpoint queues that may start further ones.

    A queue that asks starts attempts until one of its conditions stops it: its limit, the claim lease, its rate
    limit, or a pause after a timeout or a fault of this process. Then it must ask again; only after a pause it asks by
    itself. A queue that finds no place waits.

    Namespaces share the places by `Shares`. Among namespaces that wait, the one with the fewest attempts under way
    is next. Among its endpoint queues that wait, the one with the fewest is next. Equal ones take turns.

    The same threshold holds for an endpoint within its namespace: the endpoint starts an attempt only while it has
    fewer under way than its namespace may still start. So one endpoint never takes the last places that
    its namespace has, unless it has nothing under way. A queue that the threshold stops still waits, and it starts
    as soon as its namespace has room: when attempts of any namespace end, or when endpoints are deleted.

    Each call costs O(1), except that `start` compares the ranks of waiting namespaces. Such a rank consists of
    the attempts of the namespace and the fewest attempts of a waiting queue. At most 113 ranks fit into 1,024 places.

    Args:
        bound: attempts under way at once, of all namespaces.

    Attributes:
        lease_until_ms: no attempt starts whose timeout exceeds this end of the claim lease; 0 before the first lease.
    """

    def __init__(self, bound: int) -> None:
        self.lease_until_ms = 0
        self._places = Shares(bound)
        self._asking: OrderedDict[EndpointQueue, None] = OrderedDict()
        self._waiting: dict[str, Ranking[EndpointQueue, int]] = {}
        self._namespaces: Ranking[str, tuple[int, int]] = Ranking()
        self._pauses: list[tuple[float, int, EndpointQueue]] = []
        self._pausing: set[EndpointQueue] = set()
        self._numbers = count()

    @property
    def in_flight(self) -> int:
        """How many attempts are under way."""
        return self._places.used

    @property
    def largest_use(self) -> float:
        """The largest part that a namespace uses of the places that it may use now, from 0 to 1."""
        return self._places.largest_use()

    @property
    def waiting(self) -> bool:
        """Whether an endpoint queue asks, or waits for a place."""
        return bool(self._asking or self._waiting)

    @property
    def resume_at(self) -> float | None:
        """When the earliest pause ends, in seconds of the event loop's clock; None without a pause."""
        return self._pauses[0][0] if self._pauses else None

    def add(self, queue: EndpointQueue) -> None:
        """Add an endpoint."""
        self._places.join(queue.endpoint.namespace)

    def remove(self, queue: EndpointQueue) -> None:
        """Remove an endpoint: it waits no more; its attempts under way count until they end."""
        self._asking.pop(queue, None)
        self._stop_waiting(queue)
        self._places.leave(queue.endpoint.namespace)

    def ask(self, queue: EndpointQueue) -> None:
        """Let a queue start the attempts that it may start."""
        self._asking[queue] = None

    def start(self, now: float, now_ms: int) -> Iterator[EndpointQueue]:
        """Count and yield each attempt that may start now, as its queue; the caller takes the delivery from the queue.

        Args:
            now: in seconds of the event loop's clock.
            now_ms: in milliseconds since the epoch.
        """
        self._end_pauses(now)
        while self._asking:
            queue, _ = self._asking.popitem(last=False)
            while self._may_start(queue, now, now_ms):
                if not self._has_place(queue):
                    self._wait(queue)
                    break
                self._count(queue, now)
                yield queue
        while self._waiting and (next_queue := self._next_waiting()) is not None:
            if self._may_start(next_queue, now, now_ms):
                self._count(next_queue, now)
                yield next_queue
                self._wait(next_queue)

    def end(self, queue: EndpointQueue) -> None:
        """Count an attempt that ended."""
        queue.in_flight -= 1
        self._places.give(queue.endpoint.namespace)
        self._recount(queue)

    def _may_start(self, queue: EndpointQueue, now: float, now_ms: int) -> bool:
        if not queue.can_start or now_ms + queue.endpoint.timeout * 1000 >= self.lease_until_ms:
            return False
        pause = queue.pause(now)
        if pause > 0 and queue not in self._pausing:
            self._pausing.add(queue)
            heapq.heappush(self._pauses, (now + pause, next(self._numbers), queue))
        return pause <= 0

    def _end_pauses(self, now: float) -> None:
        while self._pauses and self._pauses[0][0] <= now:
            _, _, queue = heapq.heappop(self._pauses)
            self._pausing.discard(queue)
            self._asking[queue] = None

    def _has_place(self, queue: EndpointQueue) -> bool:
        """Return whether an attempt may start now without a turn: no endpoint queue waits, and the bounds allow it."""
        return not self._waiting and queue.in_flight < self._places.left(queue.endpoint.namespace)

    def _count(self, queue: EndpointQueue, now: float) -> None:
        queue.in_flight += 1
        queue.started(now)
        self._places.take(queue.endpoint.namespace)
        self._recount(queue)

    def _wait(self, queue: EndpointQueue) -> None:
        """Let a queue wait for a place, behind those with as few attempts; a queue that waits keeps its turn."""
        namespace = queue.endpoint.namespace
        self._waiting.setdefault(namespace, Ranking()).put(queue, queue.in_flight)
        self._rank(namespace)

    def _next_waiting(self) -> EndpointQueue | None:
        """Return the queue that is next if there is a place for it; it waits no more."""
        for rank in self._namespaces.ranks():
            namespace = self._namespaces.first(rank)
            room = self._places.left(namespace)
            if room < 1:
                return None
            _, fewest = rank
            if fewest < room:
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
