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
from hookwright_operator.delivery.body_memory import BodyMemory
from hookwright_operator.delivery.claim_releaser import ClaimReleaser
from hookwright_operator.delivery.claims import Claims
from hookwright_operator.delivery.dues import Dues
from hookwright_operator.delivery.ground import Ground
from hookwright_operator.delivery.lanes import Lane
from hookwright_operator.delivery.own_faults import OwnFaults
from hookwright_operator.delivery.results import Result, Results
from hookwright_operator.delivery.schedule import RetrySchedule
from hookwright_operator.delivery.scheduler import Scheduler
from hookwright_operator.delivery.seams import Bounds, Observer, Sends, Store
from hookwright_operator.delivery.tasks import Runners, Tasks
from hookwright_operator.delivery.verdict import judge
from hookwright_operator.errors import StoreError
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.model import Claimed, State
from hookwright_operator.store.shards import shard_of
from hookwright_operator.tracing import exemplar_of

log = structlog.get_logger(__name__)

_BACKOFF: Final = 5.0
_ENDED: Final = {state: metrics.DELIVERIES.labels(state.value) for state in (State.DELIVERED, State.FAILED)}


class Dispatcher:
    """The endpoint queues, and the loops that fill them.

    Args:
        observer: called with every stored result.
        sweep: seconds between two searches for deliveries without a notification, such as those whose replica died.
        shared: whether other replicas deliver too. Then attempts begin only for the shards that `own` names, and none
            begins after the claim lease expired.
        jitter: returns a random number from 0 to 1; it spreads the attempts of endpoints that time out.

    Attributes:
        ground: the shards of this replica.
        lapses: how often the claim lease has expired.
    """

    def __init__(
        self,
        store: Store,
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
        self._lanes: dict[str, Lane] = {}
        self._leaving: dict[str, Lane] = {}
        self._scheduler, self._memory = Scheduler(bounds.in_flight), BodyMemory(bounds)
        self._waiting: dict[str, int] = {}
        self._claims = Claims(store, self._memory, self)
        self._paced: set[Lane] = set()
        self._dues = Dues(self._lanes, clock_ms, self._fill)
        self.ground = Ground(shared=shared)
        metrics.SHARDS_OWNED.set(len(self.ground))
        metrics.IN_FLIGHT.set_function(lambda: self.in_flight)
        self.lapses = 0
        self._gained = asyncio.Event()
        self._tasks = Tasks()
        self._runners = Runners(self._tasks, self._attempt)
        self._releaser = ClaimReleaser(store, self._tasks, self.ground, self.waiting)
        self._results = Results(store, self._tasks, stored=self._stored, over=self._over)
        self._own_faults = OwnFaults()
        self._lease_until_ms = 0
        self._closing = False

    # ---- calls by reconciling (registry.Listener)

    def endpoint_changed(self, endpoint: Endpoint) -> None:
        """Use the new snapshot from now on; release the queue's claims if nothing may be sent."""
        lane = self._lanes.get(endpoint.uid)
        if lane is None:
            lane = self._lanes[endpoint.uid] = Lane(endpoint, shard_of(endpoint.uid))
            self._scheduler.add(lane)
            self._memory.join(endpoint.namespace)
            lane.own(since=self.ground.since(lane.shard))
            due_ms = self._waiting.pop(endpoint.uid, None)
            if due_ms is not None:
                self.later(lane, due_ms)
        else:
            resumed = endpoint.sendable and not lane.endpoint.sendable
            lane.change(endpoint)
            if resumed:
                lane.overflowed()
        if not lane.active:
            self._give_back(lane)
        self.pump(lane)
        self._take_turns()

    def endpoint_gone(self, uid: str) -> None:
        """Start nothing more for an endpoint; attempts under way end by themselves."""
        lane = self._lanes.pop(uid, None)
        if lane is not None:
            lane.end()
            self._give_back(lane)
            self._scheduler.remove(lane)
            self._memory.leave(lane.endpoint.namespace)
            if uid in self._leaving:
                lane.reserved += self._leaving[uid].reserved
            if lane.reserved:
                self._leaving[uid] = lane
            self._take_turns()

    # ---- calls by intake

    def reserve(self, uid: str, size: int) -> bool:
        """Reserve a place in memory for a delivery that is about to be accepted; return False if there is none."""
        lane = self._lanes.get(uid)
        if lane is None:
            return False
        fits = size <= self._memory.left_or_guaranteed(lane.endpoint.namespace)
        if self._closing or not fits or not lane.can_take(self._bounds.window):
            lane.overflowed()
            return False
        lane.reserved += 1
        self._memory.take(lane.endpoint.namespace, size)
        return True

    def cancel(self, uid: str, size: int) -> None:
        """Release a reserved place: the event was a duplicate, or was not accepted."""
        self._memory.give(self._promised(uid).endpoint.namespace, size)

    def accepted(self, claimed: Iterable[Claimed]) -> None:
        """Put accepted deliveries into their reserved places."""
        for delivery in claimed:
            lane = self._promised(delivery.endpoint_uid)
            lane.ready.append(delivery)
            if self._closing or not lane.active:
                self._give_back(lane)
            self.pump(lane)

    def _promised(self, uid: str) -> Lane:
        """Return the queue that reserved a place, and count one reservation less; the endpoint may be deleted."""
        lane = self._leaving.get(uid) or self._lanes[uid]
        lane.reserved -= 1
        if lane.gone and not lane.reserved:
            del self._leaving[uid]
        return lane

    def waiting(self, uid: str) -> None:
        """Note that a delivery was accepted into the store only."""
        lane = self._lanes.get(uid)
        if lane is not None:
            self._fill(lane)

    def due(self, uid: str, due_ms: int) -> None:
        """Note that a delivery in the store becomes due."""
        lane = self._lanes.get(uid)
        if lane is not None:
            self.later(lane, due_ms)

    # ---- lifecycle

    def own(self, shards: Collection[int]) -> None:
        """Deliver for these shards only; release the claims of other shards, and start nothing for them."""
        now = asyncio.get_running_loop().time()
        gained, lost = self.ground.become(shards, now)
        metrics.SHARDS_OWNED.set(len(self.ground))
        for lane in self._lanes.values():
            if lane.shard in gained:
                lane.own(since=now)
            elif lane.shard in lost:
                lane.own(since=None)
                self._give_back(lane)
        if gained:
            self._gained.set()

    async def recover(self) -> None:
        """Load due times of unclaimed pending deliveries from the store, also for endpoints that are not known yet."""
        self._waiting = dict(await self._store.next_due())
        for uid in [uid for uid in self._waiting if uid in self._lanes]:
            self.later(self._lanes[uid], self._waiting.pop(uid))

    def renewed(self, lease_until_ms: int) -> None:
        """Set the end of the claim lease; if the lease expired before, release all claims."""
        if self._lease_until_ms and self._clock_ms() >= self._lease_until_ms:
            log.warning("claim lease expired, releasing held deliveries")
            self.lapses += 1
            for lane in self._lanes.values():
                self._give_back(lane)
            if self.ground.shared:
                self.own(())
                self.ground.quiet()
        self._lease_until_ms = lease_until_ms
        metrics.LEASE_UNTIL.set(lease_until_ms / 1000)
        for lane in tuple(self._lanes.values()):
            self.pump(lane)

    async def run(self) -> None:
        """Claim for the queues that ask, and search for deliveries without a notification, until cancelled."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._claims.run())
            loops.create_task(self._recover_again_and_again())

    async def _recover_again_and_again(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._sweep):
                    await self._gained.wait()
            self._gained.clear()
            try:
                await self.recover()
            except StoreError as error:
                log.warning("due times not read, retrying", error=str(error))
                await asyncio.sleep(_BACKOFF)
                self._gained.set()

    async def drain(self, grace: float) -> None:
        """Start nothing new, let attempts under way end, and release the other claims; at most ``grace`` seconds."""
        self._closing = True
        self._dues.close()
        for lane in self._lanes.values():
            self._give_back(lane)
        self._runners.close()
        await self._tasks.finish(grace)

    @property
    def in_flight(self) -> int:
        """How many attempts are under way."""
        return self._scheduler.in_flight

    # ---- claiming

    def take_in(self, claimed: Sequence[Claimed], *, lapses: int) -> None:
        """Put claimed deliveries into their queues; ``lapses`` counts the claim lease expiries before the claim."""
        strays: list[Claimed] = []
        for delivery in claimed:
            lane = self._lanes.get(delivery.endpoint_uid)
            if lane is None or self._closing or not lane.active or lapses != self.lapses:
                strays.append(delivery)
                continue
            lane.ready.append(delivery)
            self._memory.take(lane.endpoint.namespace, len(delivery.body))
        self._releaser.release(strays)

    def later(self, lane: Lane, due_ms: int) -> None:
        """Note when the next delivery of a queue that is only in the store is due."""
        if due_ms <= self._clock_ms():
            self._fill(lane)
        elif lane.owned:
            self._dues.add(lane, due_ms)

    def _fill(self, lane: Lane) -> None:
        lane.overflowed()
        self.pump(lane)

    # ---- sending

    def pump(self, lane: Lane) -> None:
        """Start the attempts that may start, and claim more if there is room."""
        if self._closing or not (lane.ready or lane.backlog):
            return
        now = asyncio.get_running_loop().time()
        while self._may_start(lane, now):
            if not self._scheduler.has_place(lane):
                self._scheduler.wait(lane)
                self._take_turns()
                break
            self._start(lane, now)
        if lane.wants(self._bounds.window):
            self._claims.ask(lane)

    def _may_start(self, lane: Lane, now: float) -> bool:
        if not (lane.can_start and self._lease_covers(lane.endpoint)):
            return False
        if (pause := lane.pause(now)) > 0:
            self._pump_later(lane, pause)
            return False
        return True

    def _start(self, lane: Lane, now: float) -> None:
        delivery = lane.ready.popleft()
        self._scheduler.start(lane)
        self.ground.begin(lane.shard)
        lane.started(now)
        self._runners.start(lane, delivery)

    def _take_turns(self) -> None:
        """Start attempts of the queues that wait for a place, as many as the bounds allow."""
        if not self._scheduler.waiting:
            return
        now = asyncio.get_running_loop().time()
        while not self._closing and (lane := self._scheduler.next()) is not None:
            if self._may_start(lane, now):
                self._start(lane, now)
                self._scheduler.wait(lane)

    def _pump_later(self, lane: Lane, delay: float) -> None:
        if lane not in self._paced:
            self._paced.add(lane)
            asyncio.get_running_loop().call_later(delay, self._pump_paced, lane)

    def _pump_paced(self, lane: Lane) -> None:
        self._paced.discard(lane)
        self.pump(lane)

    def _lease_covers(self, endpoint: Endpoint) -> bool:
        return self._clock_ms() + endpoint.timeout * 1000 < self._lease_until_ms

    async def _attempt(self, lane: Lane, delivery: Claimed) -> None:
        endpoint, lapses = lane.endpoint, self.lapses
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
            self.ground.end(lane.shard)
            raise
        finally:
            self._scheduler.end(lane)
            self._memory.give(endpoint.namespace, len(delivery.body))
        if outcome.own_fault:
            self._postpone(lane, delivery, outcome.own_fault, keep=lapses == self.lapses)
        else:
            lane.postponed = 0
            lane.ended(
                delivered=outcome.delivered,
                timed_out=outcome.timed_out,
                now=asyncio.get_running_loop().time(),
                jitter=self._jitter(),
            )
            if delivery.attempts == 0:
                seconds = (outcome.started_ms + outcome.duration_ms - delivery.accepted_ms) / 1000
                metrics.LATENCY.observe(seconds, exemplar_of(delivery.trace) if delivery.trace else None)
            lane.settling += 1
            self._results.add(Result(lane, endpoint, settlement))
        self.pump(lane)
        self._take_turns()

    def _postpone(self, lane: Lane, delivery: Claimed, reason: str, *, keep: bool) -> None:
        now = asyncio.get_running_loop().time()
        self._own_faults.note(reason, now)
        if keep and lane.active and not self._closing:
            lane.postpone(delivery, now)
            self._memory.take(lane.endpoint.namespace, len(delivery.body))
        else:
            self._releaser.release([delivery])
        self.ground.end(lane.shard)

    # ---- settling

    def _stored(self, results: Iterable[Result]) -> None:
        for lane, endpoint, settlement in results:
            if settlement.state is State.PENDING:
                self.due(settlement.endpoint_uid, settlement.due_ms)
            else:
                _ENDED[settlement.state].inc()
            self._observer.attempted(endpoint, settlement, limited_to=lane.limited_to)

    def _over(self, results: Iterable[Result]) -> None:
        for lane, _, _ in results:
            lane.settling -= 1
            self.ground.end(lane.shard)
        for lane in dict.fromkeys([result.lane for result in results]):
            self.pump(lane)

    # ---- releasing

    def _give_back(self, lane: Lane) -> None:
        if lane.ready:
            size = sum(len(delivery.body) for delivery in lane.ready)
            self._memory.give(lane.endpoint.namespace, size)
            self._releaser.release(tuple(lane.ready))
            lane.ready.clear()
