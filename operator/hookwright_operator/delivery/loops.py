"""Claims, sends and settles: the loops of all endpoints, each with a bound of its own.

A delivery reaches memory in one of two ways: fresh from its acceptance, where its lane has room, or by a
claim of what waits in the store. Either way it is this process's alone until it is settled or the lease ends.
"""

import asyncio
import heapq
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Final

import structlog

from hookwright_operator import metrics
from hookwright_operator.delivery.lanes import Lane
from hookwright_operator.delivery.schedule import RetrySchedule
from hookwright_operator.delivery.seams import Bounds, Observer, Sends, Store
from hookwright_operator.delivery.verdict import judge
from hookwright_operator.errors import StoreError
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.model import Claimed, Settlement, State

log = structlog.get_logger(__name__)

_LANES_PER_CLAIM: Final = 64
_FIRST_BACKOFF: Final = 0.1
_LONGEST_BACKOFF: Final = 5.0


class Dispatcher:
    """The lanes of all endpoints, and the loops that feed them.

    Args:
        observer: told of every result that is stored.
        sweep: seconds between two looks for deliveries that nobody was told of, such as those whose
            holder died.
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
    ) -> None:
        self._store, self._sender, self._schedule, self._bounds = store, sender, schedule, bounds
        self._clock_ms, self._observer, self._sweep = clock_ms, observer, sweep
        self._lanes: dict[str, Lane] = {}
        self._waiting: dict[str, int] = {}
        self._hungry: OrderedDict[Lane, None] = OrderedDict()
        self._paced: set[Lane] = set()
        self._due: list[tuple[int, str]] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._bytes = 0
        self._lease_until_ms = 0
        self._closing = False

    # ---- what reconciling tells (registry.Listener)

    def endpoint_changed(self, endpoint: Endpoint) -> None:
        """Send by the new snapshot from now on; hold what is in memory where nothing may be sent."""
        lane = self._lanes.get(endpoint.uid)
        if lane is None:
            lane = self._lanes[endpoint.uid] = Lane(endpoint)
            due_ms = self._waiting.pop(endpoint.uid, None)
            if due_ms is not None:
                self._schedule_due(lane, due_ms)
        else:
            resumed = endpoint.sendable and not lane.endpoint.sendable
            lane.change(endpoint)
            if resumed:
                lane.overflowed()
        if not endpoint.sendable:
            self._give_back(lane)
        self._pump(lane)

    def endpoint_gone(self, uid: str) -> None:
        """Start nothing more for an endpoint; attempts under way end by themselves."""
        lane = self._lanes.pop(uid, None)
        if lane is not None:
            lane.gone = True
            self._give_back(lane)

    # ---- what intake tells

    def reserve(self, uid: str, size: int) -> bool:
        """Promise a place in memory for a delivery that is about to be accepted, if there is one."""
        lane = self._lanes.get(uid)
        if lane is None:
            return False
        fits = self._bytes + size <= self._bounds.memory
        if self._closing or not fits or not lane.can_take(self._bounds.window):
            lane.overflowed()
            return False
        lane.reserved += 1
        self._bytes += size
        return True

    def cancel(self, uid: str, size: int) -> None:
        """Take a promised place back: the event was a repetition, or was not accepted."""
        self._bytes -= size
        lane = self._lanes.get(uid)
        if lane is not None:
            lane.reserved -= 1

    def accepted(self, claimed: Iterable[Claimed]) -> None:
        """Take deliveries that were accepted into their promised places."""
        for delivery in claimed:
            lane = self._lanes.get(delivery.endpoint_uid)
            if lane is None:
                self._bytes -= len(delivery.body)
                self._release([delivery])
                continue
            lane.reserved -= 1
            lane.ready.append(delivery)
            if self._closing or not lane.endpoint.sendable:
                self._give_back(lane)
            self._pump(lane)

    def waiting(self, uid: str) -> None:
        """Take note that a delivery was accepted into the store only."""
        lane = self._lanes.get(uid)
        if lane is not None:
            lane.overflowed()
            self._pump(lane)

    def due(self, uid: str, due_ms: int) -> None:
        """Take note that a delivery in the store becomes due."""
        lane = self._lanes.get(uid)
        if lane is not None:
            self._schedule_due(lane, due_ms)

    # ---- life

    async def recover(self) -> None:
        """Learn what waits in the store and nobody living holds; lanes take it up, those to come as they appear."""
        self._waiting = dict(await self._store.next_due())
        for uid in [uid for uid in self._waiting if uid in self._lanes]:
            self._schedule_due(self._lanes[uid], self._waiting.pop(uid))

    def renewed(self, lease_until_ms: int) -> None:
        """Hold everything until a new time; where the lease had lapsed meanwhile, hold nothing and claim anew."""
        if self._lease_until_ms and self._clock_ms() >= self._lease_until_ms:
            log.warning("the lease had lapsed; what was held is claimed anew")
            for lane in self._lanes.values():
                self._give_back(lane)
        self._lease_until_ms = lease_until_ms
        metrics.LEASE_UNTIL.set(lease_until_ms / 1000)
        for lane in tuple(self._lanes.values()):
            self._pump(lane)

    async def run(self) -> None:
        """Claim what lanes ask for and look for what nobody was told of, until cancelled."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._claim_on_demand())
            loops.create_task(self._recover_again_and_again())

    async def _recover_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(self._sweep)
            try:
                await self.recover()
            except StoreError as error:
                log.warning("the store does not tell what waits right now", error=str(error))

    async def _claim_on_demand(self) -> None:
        backoff = _FIRST_BACKOFF
        while True:
            await self._wake.wait()
            try:
                await self._claim_for_hungry()
                backoff = _FIRST_BACKOFF
            except StoreError as error:
                log.warning("the store gives no deliveries right now", error=str(error))
                await asyncio.sleep(backoff)
                backoff = min(backoff * 2, _LONGEST_BACKOFF)

    async def drain(self, grace: float) -> None:
        """Start nothing new, let attempts under way end, give back the rest; at most ``grace`` seconds."""
        self._closing = True
        for lane in self._lanes.values():
            self._give_back(lane)
        deadline = asyncio.get_running_loop().time() + grace
        while self._tasks and (left := deadline - asyncio.get_running_loop().time()) > 0:
            await asyncio.wait(tuple(self._tasks), timeout=left)
        if self._tasks:
            log.warning("attempts were cut short at the end of the grace period", attempts=len(self._tasks))
        for task in self._tasks:
            task.cancel()

    @property
    def in_flight(self) -> int:
        """How many attempts are under way."""
        return sum(lane.in_flight for lane in self._lanes.values())

    # ---- claiming

    async def _claim_for_hungry(self) -> None:
        lanes = [self._hungry.popitem(last=False)[0] for _ in range(min(_LANES_PER_CLAIM, len(self._hungry)))]
        if not self._hungry:
            self._wake.clear()
        wants = [(lane, self._affordable(lane), lane.backlog_seen) for lane in lanes]
        wants = [(lane, want, seen) for lane, want, seen in wants if want]
        if not wants:
            return
        for lane, _, _ in wants:
            lane.claiming = True
        try:
            claimed = await self._store.claim([(lane.endpoint.uid, want) for lane, want, _ in wants])
            short = self._take_in(wants, claimed)
            dues = await self._store.next_due([lane.endpoint.uid for lane in short]) if short else {}
        except StoreError:
            self._hungry.update((lane, None) for lane, _, _ in wants)
            self._wake.set()
            raise
        finally:
            for lane, _, _ in wants:
                lane.claiming = False
        for lane in short:
            if (due_ms := dues.get(lane.endpoint.uid)) is not None:
                self._schedule_due(lane, due_ms)
        for lane, _, _ in wants:
            self._pump(lane)

    def _affordable(self, lane: Lane) -> int:
        want = lane.wants(self._bounds.window)
        if self._bytes < self._bounds.memory:
            return want
        return min(want, max(0, lane.endpoint.max_in_flight - lane.held))

    def _take_in(self, wants: Sequence[tuple[Lane, int, int]], claimed: Sequence[Claimed]) -> list[Lane]:
        """Put claimed deliveries into their lanes; return those lanes that got less than they wanted."""
        got: dict[str, int] = {}
        strays: list[Claimed] = []
        for delivery in claimed:
            uid = delivery.endpoint_uid
            got[uid] = got.get(uid, 0) + 1
            lane = self._lanes.get(uid)
            if lane is None or self._closing or not lane.endpoint.sendable:
                strays.append(delivery)
                continue
            lane.ready.append(delivery)
            self._bytes += len(delivery.body)
        self._release(strays)
        short = []
        for lane, want, seen in wants:
            if got.get(lane.endpoint.uid, 0) < want:
                short.append(lane)
                if lane.backlog_seen == seen:
                    lane.backlog = False
        return short

    def _schedule_due(self, lane: Lane, due_ms: int) -> None:
        if due_ms <= self._clock_ms():
            lane.overflowed()
            self._pump(lane)
        elif lane.due_ms is None or due_ms < lane.due_ms:
            lane.due_ms = due_ms
            heapq.heappush(self._due, (due_ms, lane.endpoint.uid))
            self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._due and not self._closing:
            delay = max(0, self._due[0][0] - self._clock_ms()) / 1000
            self._alarm = asyncio.get_running_loop().call_later(min(delay, 60.0), self._ring)

    def _ring(self) -> None:
        now_ms = self._clock_ms()
        while self._due and self._due[0][0] <= now_ms:
            due_ms, uid = heapq.heappop(self._due)
            lane = self._lanes.get(uid)
            if lane is not None and lane.due_ms == due_ms:
                lane.due_ms = None
                lane.overflowed()
                self._pump(lane)
        self._set_alarm()

    # ---- sending

    def _pump(self, lane: Lane) -> None:
        """Start what may start, and ask for more where there is room."""
        if self._closing:
            return
        now = asyncio.get_running_loop().time()
        while lane.can_start and self._lease_covers(lane.endpoint):
            if (pause := lane.pause(now)) > 0:
                self._pump_later(lane, pause)
                break
            delivery = lane.ready.popleft()
            lane.in_flight += 1
            lane.started(now)
            self._spawn(self._attempt(lane, delivery))
        if lane.wants(self._bounds.window):
            self._hungry.setdefault(lane)
            self._wake.set()

    def _pump_later(self, lane: Lane, delay: float) -> None:
        if lane not in self._paced:
            self._paced.add(lane)
            asyncio.get_running_loop().call_later(delay, self._pump_paced, lane)

    def _pump_paced(self, lane: Lane) -> None:
        self._paced.discard(lane)
        self._pump(lane)

    def _lease_covers(self, endpoint: Endpoint) -> bool:
        return self._clock_ms() + endpoint.timeout * 1000 < self._lease_until_ms

    async def _attempt(self, lane: Lane, delivery: Claimed) -> None:
        endpoint = lane.endpoint
        metrics.IN_FLIGHT.inc()
        try:
            outcome = await self._sender.send(
                endpoint, message_id=delivery.event_id, body=delivery.body, now=self._now_seconds
            )
        finally:
            metrics.IN_FLIGHT.dec()
            lane.in_flight -= 1
            self._bytes -= len(delivery.body)
        if delivery.attempts == 0:
            metrics.LATENCY.observe((outcome.started_ms + outcome.duration_ms - delivery.accepted_ms) / 1000)
        lane.settling += 1
        self._pump(lane)
        try:
            await self._settle(lane, endpoint, judge(delivery, outcome, self._schedule))
        finally:
            lane.settling -= 1
            self._pump(lane)

    async def _settle(self, lane: Lane, endpoint: Endpoint, settlement: Settlement) -> None:
        try:
            await self._store.settle((settlement,))
        except StoreError:
            lane.refused += 1
            try:
                await self._persist(lambda: self._store.settle((settlement,)), "a result waits to be stored")
            finally:
                lane.refused -= 1
        if settlement.state is State.PENDING:
            self.due(settlement.endpoint_uid, settlement.due_ms)
        else:
            metrics.DELIVERIES.labels(settlement.state.value).inc()
        self._observer.attempted(endpoint, settlement)

    async def _persist(self, write: Callable[[], Awaitable[None]], waits: str) -> None:
        """Write, however long the store is away: what is held here nobody else can take while we live."""
        backoff = _FIRST_BACKOFF
        while True:
            try:
                await write()
            except StoreError as error:
                log.warning(waits, error=str(error))
                await asyncio.sleep(backoff)
                backoff = min(backoff * 2, _LONGEST_BACKOFF)
            else:
                return

    # ---- giving back

    def _give_back(self, lane: Lane) -> None:
        if lane.ready:
            self._bytes -= sum(len(delivery.body) for delivery in lane.ready)
            self._release(tuple(lane.ready))
            lane.ready.clear()

    def _release(self, deliveries: Sequence[Claimed]) -> None:
        if deliveries:
            ids = [delivery.id for delivery in deliveries]
            self._spawn(self._release_until_done(ids, {delivery.endpoint_uid for delivery in deliveries}))

    async def _release_until_done(self, ids: Sequence[str], uids: Iterable[str]) -> None:
        await self._persist(lambda: self._store.release(ids), "deliveries wait to be given back")
        for uid in uids:
            self.waiting(uid)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an attempt ended unexpectedly", error=type(error).__name__, exc_info=error)

    def _now_seconds(self) -> float:
        return self._clock_ms() / 1000
