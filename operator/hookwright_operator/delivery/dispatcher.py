"""Loops of delivery: they claim, send and settle, with separate bounds for each endpoint.

A delivery reaches memory in one of two ways. If its endpoint queue has room, it comes directly from its acceptance.
Otherwise a claim loads it from the store. Either way only this replica sends it, until it is settled or its claim
lease expires.
"""

import asyncio
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Final

import structlog

from hookwright_operator import metrics
from hookwright_operator.delivery.attempt import judge
from hookwright_operator.delivery.body_memory import BodyMemory
from hookwright_operator.delivery.claim_releaser import ClaimReleaser
from hookwright_operator.delivery.claimer import Claimer
from hookwright_operator.delivery.due_timer import DueTimer
from hookwright_operator.delivery.endpoint_queue import EndpointQueue
from hookwright_operator.delivery.own_faults import OwnFaults
from hookwright_operator.delivery.owned_shards import OwnedShards
from hookwright_operator.delivery.protocols import Bounds, DeliveryStore, Observer, Sends
from hookwright_operator.delivery.result_writer import Result, ResultWriter
from hookwright_operator.delivery.retry_schedule import RetrySchedule
from hookwright_operator.delivery.scheduler import Scheduler
from hookwright_operator.delivery.tasks import Runners, Tasks
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Claimed, State
from hookwright_operator.store.sql.shards import shard_of
from hookwright_operator.tracing import exemplar_of
from hookwright_runtime.errors import StoreError

log = structlog.get_logger(__name__)

_BACKOFF: Final = 5.0
_ENDED: Final = {state: metrics.DELIVERIES.labels(state.value) for state in (State.DELIVERED, State.FAILED)}


class Dispatcher:
    """The endpoint queues, and the loops that fill them.

    Args:
        observer: called with every stored result.
        sweep: seconds between two searches for deliveries without a notification, such as those whose replica died.
        shared: whether other replicas deliver too. Then attempts begin only for the shards that `set_owned_shards`
            names, and none begins after the claim lease expired.
        jitter: returns a random number from 0 to 1; it spreads the attempts of endpoints that time out.

    Attributes:
        owned_shards: the shards of this replica.
        lapses: how often the claim lease has expired.
    """

    def __init__(
        self,
        store: DeliveryStore,
        sender: Sends,
        schedule: RetrySchedule,
        bounds: Bounds,
        *,
        clock_ms: Callable[[], int],
        observer: Observer,
        sweep: float = 15.0,
        shared: bool = False,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._store, self._sender, self._schedule, self._bounds = store, sender, schedule, bounds
        self._clock_ms, self._observer, self._sweep = clock_ms, observer, sweep
        self._jitter = jitter
        self._queues: dict[str, EndpointQueue] = {}
        self._leaving: dict[str, EndpointQueue] = {}
        self._scheduler, self._memory = Scheduler(bounds.in_flight), BodyMemory(bounds)
        self._waiting: dict[str, int] = {}
        self._claims = Claimer(store, self._memory, self)
        self._paced: set[EndpointQueue] = set()
        self._due_timer = DueTimer(self._queues, clock_ms, self._fill)
        self.owned_shards = OwnedShards(shared=shared)
        metrics.SHARDS_OWNED.set(len(self.owned_shards))
        metrics.IN_FLIGHT.set_function(lambda: self.in_flight)
        self.lapses = 0
        self._gained = asyncio.Event()
        self._tasks = Tasks()
        self._runners = Runners(self._tasks, self._attempt)
        self._releaser = ClaimReleaser(store, self._tasks, self.owned_shards, self.waiting)
        self._results = ResultWriter(store, self._tasks, stored=self._stored, over=self._attempts_finished)
        self._own_faults = OwnFaults()
        self._lease_until_ms = 0
        self._closing = False

    # ---- calls by reconciling (registry.Listener)

    def endpoint_changed(self, endpoint: Endpoint) -> None:
        """Use the new snapshot from now on; release the queue's claims if nothing may be sent."""
        queue = self._queues.get(endpoint.uid)
        if queue is None:
            queue = self._queues[endpoint.uid] = EndpointQueue(endpoint, shard_of(endpoint.uid))
            self._scheduler.add(queue)
            self._memory.join(endpoint.namespace)
            queue.own(since=self.owned_shards.since(queue.shard))
            due_ms = self._waiting.pop(endpoint.uid, None)
            if due_ms is not None:
                self.later(queue, due_ms)
        else:
            resumed = endpoint.sendable and not queue.endpoint.sendable
            queue.change(endpoint)
            if resumed:
                queue.overflowed()
        if not queue.active:
            self._give_back(queue)
        self.pump(queue)
        self._take_turns()

    def endpoint_gone(self, uid: str) -> None:
        """Start nothing more for an endpoint; attempts under way end by themselves."""
        queue = self._queues.pop(uid, None)
        if queue is not None:
            queue.end()
            self._give_back(queue)
            self._scheduler.remove(queue)
            self._memory.leave(queue.endpoint.namespace)
            if uid in self._leaving:
                queue.reserved += self._leaving[uid].reserved
            if queue.reserved:
                self._leaving[uid] = queue
            self._take_turns()

    # ---- calls by intake

    def reserve(self, uid: str, size: int) -> bool:
        """Reserve a place in memory for a delivery that is about to be accepted; return False if there is none."""
        queue = self._queues.get(uid)
        if queue is None:
            return False
        fits = size <= self._memory.left_or_guaranteed(queue.endpoint.namespace)
        if self._closing or not fits or not queue.can_take(self._bounds.window):
            queue.overflowed()
            return False
        queue.reserved += 1
        self._memory.take(queue.endpoint.namespace, size)
        return True

    def cancel(self, uid: str, size: int) -> None:
        """Release a reserved place: the event was a duplicate, or was not accepted."""
        self._memory.give(self._promised(uid).endpoint.namespace, size)

    def accepted(self, claimed: Iterable[Claimed]) -> None:
        """Put accepted deliveries into their reserved places."""
        for delivery in claimed:
            queue = self._promised(delivery.endpoint_uid)
            queue.ready.append(delivery)
            if self._closing or not queue.active:
                self._give_back(queue)
            self.pump(queue)

    def _promised(self, uid: str) -> EndpointQueue:
        """Return the queue that reserved a place, and count one reservation less; the endpoint may be deleted."""
        queue = self._leaving.get(uid) or self._queues[uid]
        queue.reserved -= 1
        if queue.gone and not queue.reserved:
            del self._leaving[uid]
        return queue

    def waiting(self, uid: str) -> None:
        """Note that a delivery was accepted into the store only."""
        queue = self._queues.get(uid)
        if queue is not None:
            self._fill(queue)

    def due(self, uid: str, due_ms: int) -> None:
        """Note that a delivery in the store becomes due."""
        queue = self._queues.get(uid)
        if queue is not None:
            self.later(queue, due_ms)

    # ---- lifecycle

    def set_owned_shards(self, shards: Collection[int]) -> None:
        """Deliver for these shards only; release the claims of other shards, and start nothing for them."""
        now = asyncio.get_running_loop().time()
        gained, lost = self.owned_shards.become(shards, now)
        metrics.SHARDS_OWNED.set(len(self.owned_shards))
        for queue in self._queues.values():
            if queue.shard in gained:
                queue.own(since=now)
            elif queue.shard in lost:
                queue.own(since=None)
                self._give_back(queue)
        if gained:
            self._gained.set()

    async def reload_due_times(self) -> None:
        """Load due times of unclaimed pending deliveries from the store, also for endpoints that are not known yet."""
        self._waiting = dict(await self._store.next_due())
        for uid in [uid for uid in self._waiting if uid in self._queues]:
            self.later(self._queues[uid], self._waiting.pop(uid))

    def lease_renewed(self, lease_until_ms: int) -> None:
        """Set the end of the claim lease; if the lease expired before, release all claims."""
        if self._lease_until_ms and self._clock_ms() >= self._lease_until_ms:
            log.warning("claim lease expired, releasing held deliveries")
            self.lapses += 1
            for queue in self._queues.values():
                self._give_back(queue)
            if self.owned_shards.shared:
                self.set_owned_shards(())
                self.owned_shards.quiet()
        self._lease_until_ms = lease_until_ms
        metrics.LEASE_UNTIL.set(lease_until_ms / 1000)
        for queue in tuple(self._queues.values()):
            self.pump(queue)

    async def run(self) -> None:
        """Claim for the queues that ask, and search for deliveries without a notification, until cancelled."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._claims.run())
            loops.create_task(self._reload_due_times_forever())

    async def _reload_due_times_forever(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._sweep):
                    await self._gained.wait()
            self._gained.clear()
            try:
                await self.reload_due_times()
            except StoreError as error:
                log.warning("due times not read, retrying", error=str(error))
                await asyncio.sleep(_BACKOFF)
                self._gained.set()

    async def drain(self, grace: float) -> None:
        """Start nothing new, let attempts under way end, and release the other claims; at most ``grace`` seconds."""
        self._closing = True
        self._due_timer.close()
        for queue in self._queues.values():
            self._give_back(queue)
        self._runners.close()
        await self._tasks.finish(grace)

    @property
    def in_flight(self) -> int:
        """How many attempts are under way."""
        return self._scheduler.in_flight

    # ---- claiming

    def enqueue_claimed(self, claimed: Sequence[Claimed], *, lapses: int) -> None:
        """Put claimed deliveries into their queues; ``lapses`` counts the claim lease expiries before the claim."""
        strays: list[Claimed] = []
        for delivery in claimed:
            queue = self._queues.get(delivery.endpoint_uid)
            if queue is None or self._closing or not queue.active or lapses != self.lapses:
                strays.append(delivery)
                continue
            queue.ready.append(delivery)
            self._memory.take(queue.endpoint.namespace, len(delivery.body))
        self._releaser.release(strays)

    def later(self, queue: EndpointQueue, due_ms: int) -> None:
        """Note when the next delivery of a queue that is only in the store is due."""
        if due_ms <= self._clock_ms():
            self._fill(queue)
        elif queue.owned:
            self._due_timer.add(queue, due_ms)

    def _fill(self, queue: EndpointQueue) -> None:
        queue.overflowed()
        self.pump(queue)

    # ---- sending

    def pump(self, queue: EndpointQueue) -> None:
        """Start the attempts that may start, and claim more if there is room."""
        if self._closing or not (queue.ready or queue.backlog):
            return
        now = asyncio.get_running_loop().time()
        while self._may_start(queue, now):
            if not self._scheduler.has_place(queue):
                self._scheduler.wait(queue)
                self._take_turns()
                break
            self._start(queue, now)
        if queue.wants(self._bounds.window):
            self._claims.ask(queue)

    def _may_start(self, queue: EndpointQueue, now: float) -> bool:
        if not (queue.can_start and self._lease_covers(queue.endpoint)):
            return False
        if (pause := queue.pause(now)) > 0:
            self._pump_later(queue, pause)
            return False
        return True

    def _start(self, queue: EndpointQueue, now: float) -> None:
        delivery = queue.ready.popleft()
        self._scheduler.start(queue)
        self.owned_shards.begin(queue.shard)
        queue.started(now)
        self._runners.start(queue, delivery)

    def _take_turns(self) -> None:
        """Start attempts of the queues that wait for a place, as many as the bounds allow."""
        if not self._scheduler.waiting:
            return
        now = asyncio.get_running_loop().time()
        while not self._closing and (queue := self._scheduler.next()) is not None:
            if self._may_start(queue, now):
                self._start(queue, now)
                self._scheduler.wait(queue)

    def _pump_later(self, queue: EndpointQueue, delay: float) -> None:
        if queue not in self._paced:
            self._paced.add(queue)
            asyncio.get_running_loop().call_later(delay, self._pump_paced, queue)

    def _pump_paced(self, queue: EndpointQueue) -> None:
        self._paced.discard(queue)
        self.pump(queue)

    def _lease_covers(self, endpoint: Endpoint) -> bool:
        return self._clock_ms() + endpoint.timeout * 1000 < self._lease_until_ms

    async def _attempt(self, queue: EndpointQueue, delivery: Claimed) -> None:
        endpoint, lapses = queue.endpoint, self.lapses
        try:
            outcome = await self._sender.send(
                endpoint,
                message_id=delivery.event_id,
                body=delivery.body,
                now=lambda: self._clock_ms() / 1000,
                delivery=delivery,
            )
            settlement = judge(delivery, outcome, self._schedule)
        except BaseException:
            self.owned_shards.end(queue.shard)
            raise
        finally:
            self._scheduler.end(queue)
            self._memory.give(endpoint.namespace, len(delivery.body))
        if outcome.own_fault:
            self._postpone(queue, delivery, outcome.own_fault, keep=lapses == self.lapses)
        else:
            queue.postponed = 0
            queue.ended(
                delivered=outcome.delivered,
                timed_out=outcome.timed_out,
                now=asyncio.get_running_loop().time(),
                jitter=self._jitter(),
            )
            if delivery.attempts == 0:
                seconds = (outcome.started_ms + outcome.duration_ms - delivery.accepted_ms) / 1000
                metrics.LATENCY.observe(seconds, exemplar_of(delivery.trace) if delivery.trace else None)
            queue.settling += 1
            self._results.add(Result(queue, endpoint, settlement))
        self.pump(queue)
        self._take_turns()

    def _postpone(self, queue: EndpointQueue, delivery: Claimed, reason: str, *, keep: bool) -> None:
        now = asyncio.get_running_loop().time()
        self._own_faults.note(reason, now)
        if keep and queue.active and not self._closing:
            queue.postpone(delivery, now)
            self._memory.take(queue.endpoint.namespace, len(delivery.body))
        else:
            self._releaser.release([delivery])
        self.owned_shards.end(queue.shard)

    # ---- settling

    def _stored(self, results: Iterable[Result]) -> None:
        for queue, endpoint, settlement in results:
            if settlement.state is State.PENDING:
                self.due(settlement.endpoint_uid, settlement.due_ms)
            else:
                _ENDED[settlement.state].inc()
            self._observer.attempted(endpoint, settlement, limited_to=queue.limited_to)

    def _attempts_finished(self, results: Iterable[Result]) -> None:
        for queue, _, _ in results:
            queue.settling -= 1
            self.owned_shards.end(queue.shard)
        for queue in dict.fromkeys([result.queue for result in results]):
            self.pump(queue)

    # ---- releasing

    def _give_back(self, queue: EndpointQueue) -> None:
        if queue.ready:
            size = sum(len(delivery.body) for delivery in queue.ready)
            self._memory.give(queue.endpoint.namespace, size)
            self._releaser.release(tuple(queue.ready))
            queue.ready.clear()
