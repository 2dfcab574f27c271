"""The endpoint queues of this replica, the bounds that they share, and the events that wake the loops of delivery.

Claims that this replica does not use are released, so that any replica may claim these deliveries.
"""

import asyncio
import heapq
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from hookwright_operator.delivery.endpoint_queue import EndpointQueue
from hookwright_operator.delivery.owned_shards import OwnedShards
from hookwright_operator.delivery.scheduler import Scheduler
from hookwright_operator.delivery.shares import BodyMemory, Bounds
from hookwright_operator.delivery.tasks import Tasks
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Claimed
from hookwright_operator.store.retry import persist
from hookwright_operator.store.shard_sharing import shard_of
from hookwright_operator.store.store import Store
from hookwright_runtime.bounds import CLAIMS
from hookwright_runtime.places import Places

_LONGEST: Final = 60.0
"""Seconds after which the clock is read again, because it may have been set."""


class EndpointQueues:
    """All endpoint queues, with the bounds and events that they share.

    `AttemptRunner.run` waits for `to_start`, and `Claimer.run` waits for `to_claim`.

    Args:
        bounds: of the deliveries in memory.
        clock_ms: the time.
        shared: whether other replicas deliver too.

    Attributes:
        by_uid: the queues of known endpoints.
        memory: the bytes of the bodies in memory.
        scheduler: decides which queue starts an attempt.
        owned_shards: the shards of this replica.
        to_claim_for: the queues of the next claim.
        lapses: how often the claim lease has expired.
        closing: whether nothing new starts, because this process ends.
    """

    def __init__(self, bounds: Bounds, clock_ms: Callable[[], int], *, shared: bool) -> None:
        self._window, self._clock_ms = bounds.window, clock_ms
        self.by_uid: dict[str, EndpointQueue] = {}
        self.memory, self.scheduler = BodyMemory(bounds), Scheduler(bounds.in_flight)
        self.owned_shards = OwnedShards(shared=shared)
        self.to_claim_for: list[EndpointQueue] = []
        # A place in the next claim; the others wait.
        self._claims, self._hungry = Places(CLAIMS), set[EndpointQueue]()
        self.to_start, self.to_claim = asyncio.Event(), asyncio.Event()
        self.lapses, self.closing = 0, False
        self._leaving: dict[str, EndpointQueue] = {}
        self._due: list[tuple[int, str]] = []
        self._due_of_unknown: dict[str, int] = {}

    def put(self, endpoint: Endpoint) -> EndpointQueue:
        """Return the endpoint's queue, which uses this snapshot from now on."""
        queue = self.by_uid.get(endpoint.uid)
        if queue is None:
            return self._add(endpoint)
        is_resumed = endpoint.sendable and not queue.endpoint.sendable
        queue.change(endpoint)
        if is_resumed:
            queue.overflowed()
        return queue

    def _add(self, endpoint: Endpoint) -> EndpointQueue:
        queue = self.by_uid[endpoint.uid] = EndpointQueue(endpoint, shard_of(endpoint.uid))
        self.scheduler.add(queue)
        self.memory.join(endpoint.namespace)
        queue.own(since=self.owned_shards.since(queue.shard))
        due_ms = self._due_of_unknown.pop(endpoint.uid, None)
        if due_ms is not None:
            self.later(queue, due_ms)
        return queue

    def remove(self, queue: EndpointQueue) -> None:
        """Remove the queue of a deleted endpoint, which has no ready deliveries; its attempts continue."""
        uid = queue.endpoint.uid
        del self.by_uid[uid]
        queue.end()
        self.scheduler.remove(queue)
        self.memory.leave(queue.endpoint.namespace)
        if uid in self._leaving:
            queue.reserved += self._leaving[uid].reserved
        if queue.reserved:
            self._leaving[uid] = queue
        self.wake(queue)

    def reserve(self, uid: str, size: int) -> bool:
        """Reserve a place for a delivery that is about to be accepted; return False if there is none."""
        queue = self.by_uid.get(uid)
        if queue is None:
            return False
        fits = size <= self.memory.left_or_guaranteed(queue.endpoint.namespace)
        if self.closing or not fits or not queue.can_take(self._window):
            queue.overflowed()
            return False
        queue.reserved += 1
        self.memory.take(queue.endpoint.namespace, size)
        return True

    def take_reserved(self, uid: str) -> EndpointQueue:
        """Return the queue that reserved a place, and count one reservation less; the endpoint may be deleted."""
        queue = self._leaving.get(uid) or self.by_uid[uid]
        queue.reserved -= 1
        if queue.gone and not queue.reserved:
            del self._leaving[uid]
        return queue

    def wake(self, queue: EndpointQueue) -> None:
        """Let the loops start attempts of a queue and of those that wait, and claim for the queue if it has room."""
        if self.ask(queue):
            self.to_start.set()

    def ask(self, queue: EndpointQueue) -> bool:
        """Ask for attempts of a queue, and for deliveries if it has room; return whether any queue asks or waits."""
        if self.closing:
            return False
        if queue.can_start:
            self.scheduler.ask(queue)
        if queue.wants(self._window):
            self.claim_for(queue)
        return self.scheduler.waiting

    def claim_for(self, queue: EndpointQueue) -> None:
        """Claim for a queue soon."""
        if queue not in self._hungry:
            self._hungry.add(queue)
            self._claims.enqueue(queue.endpoint.namespace, lambda: self.to_claim_for.append(queue))
        self.to_claim.set()

    def next_claim(self) -> list[EndpointQueue]:
        """Remove and return the queues of the next claim; others get their places in the claim after it."""
        queues, self.to_claim_for = self.to_claim_for, []
        self._hungry.difference_update(queues)
        for queue in queues:
            self._claims.end(queue.endpoint.namespace)
        return queues

    # ---- deliveries in the store

    def waiting(self, uid: str) -> None:
        """Note that the store has a due delivery of an endpoint."""
        queue = self.by_uid.get(uid)
        if queue is not None:
            self._overflow(queue)

    def due(self, uid: str, due_ms: int) -> None:
        """Note when the next delivery of an endpoint that is only in the store is due."""
        queue = self.by_uid.get(uid)
        if queue is not None:
            self.later(queue, due_ms)

    def later(self, queue: EndpointQueue, due_ms: int) -> None:
        """Note when the next delivery of a queue that is only in the store is due."""
        if due_ms <= self._clock_ms():
            self._overflow(queue)
        elif queue.owned and (queue.due_ms is None or due_ms < queue.due_ms):
            queue.due_ms = due_ms
            heapq.heappush(self._due, (due_ms, queue.endpoint.uid))
            if self._due[0] == (due_ms, queue.endpoint.uid):
                self.to_claim.set()

    def set_due_times(self, due_times: Mapping[str, int]) -> None:
        """Note the due times of all deliveries that are only in the store; those of unknown endpoints are kept."""
        self._due_of_unknown = dict(due_times)
        for uid in [uid for uid in due_times if uid in self.by_uid]:
            self.later(self.by_uid[uid], self._due_of_unknown.pop(uid))

    def claim_due(self) -> float | None:
        """Claim for the queues whose due time has come; return the seconds until the next one, None without one."""
        now_ms = self._clock_ms()
        while self._due and self._due[0][0] <= now_ms:
            due_ms, uid = heapq.heappop(self._due)
            queue = self.by_uid.get(uid)
            if queue is not None and queue.due_ms == due_ms:
                queue.due_ms = None
                self._overflow(queue)
        return min((self._due[0][0] - now_ms) / 1000, _LONGEST) if self._due else None

    def _overflow(self, queue: EndpointQueue) -> None:
        queue.overflowed()
        self.wake(queue)


class ClaimReleaser:
    """Releases claims in the background, and retries for as long as the store fails.

    The shards of these deliveries count as busy until their claims are released.
    """

    def __init__(self, store: Store, queues: EndpointQueues, tasks: Tasks) -> None:
        self._store, self._queues, self._tasks = store, queues, tasks

    def release_ready(self, queue: EndpointQueue) -> None:
        """Release the claims on a queue's deliveries that wait for their attempt."""
        if queue.ready:
            size = sum(delivery.size for delivery in queue.ready)
            self._queues.memory.give(queue.endpoint.namespace, size)
            self.release(tuple(queue.ready))
            queue.ready.clear()

    def release(self, deliveries: Sequence[Claimed]) -> None:
        """Release the claims on deliveries soon."""
        if deliveries:
            ids = [delivery.id for delivery in deliveries]
            uids = {delivery.endpoint_uid for delivery in deliveries}
            for uid in uids:
                self._queues.owned_shards.begin(shard_of(uid))
            self._tasks.spawn(self._release_until_done(ids, uids))

    async def _release_until_done(self, ids: Sequence[str], uids: Collection[str]) -> None:
        try:
            await persist(lambda: self._store.release(ids), "claims not released, retrying")
        finally:
            for uid in uids:
                self._queues.owned_shards.end(shard_of(uid))
        for uid in uids:
            self._queues.waiting(uid)
