"""Replicas that deliver from one database, without a network: their senders call the receivers directly."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from support.dispatcher import Watcher
from support.polling import PATIENCE
from support.store_factories import Clock

from hookwright_operator.delivery.attempt import Outcome, RetrySchedule
from hookwright_operator.delivery.dispatcher import Dispatcher
from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.delivery.shard_owner import ShardOwner
from hookwright_operator.delivery.shares import Bounds
from hookwright_operator.delivery.status_reporter import StatusReporter
from hookwright_operator.registry import Endpoint, Registry
from hookwright_operator.services.events import Events, IncomingEvent
from hookwright_operator.store.records import Claimed, Settlement, Wants
from hookwright_operator.store.shard_sharing import ShardOwnership, ShardSharing
from hookwright_operator.store.store import CLAIM_ROOM, Store
from hookwright_operator.supervisor import Supervisor

T = TypeVar("T")

LEASE_MS = 10_000
TIMEOUT = 4
"""Seconds that an attempt may take."""
MAX_IN_FLIGHT = 2
TOGETHER = 5
"""Attempts of one replica under way at once: all endpoints are in one namespace, which gets half of the bound."""


@dataclass(slots=True, eq=False)
class Sent:
    """One attempt, as the receivers see it: it is under way until it ends or its timeout expires."""

    replica: str
    uid: str
    body: bytes
    until_ms: int
    status: "asyncio.Future[int]"


@dataclass(slots=True)
class Receivers:
    """All endpoints' receivers, which see the attempts of all replicas."""

    clock: Clock
    under_way: list[Sent] = field(default_factory=list)
    delivered: set[tuple[str, bytes]] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    at_once: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    times: list[float] = field(default_factory=list)
    answer_at_once: bool = False

    def begin(self, replica: str, uid: str, body: bytes) -> Sent:
        """Receive an attempt, and record violations."""
        attempt = Sent(replica, uid, body, self.clock() + TIMEOUT * 1000, asyncio.get_running_loop().create_future())
        self.under_way.append(attempt)
        together = [one for one in self.under_way if one.uid == uid and one.until_ms > self.clock()]
        if len({one.replica for one in together}) > 1:
            self.wrong.append(f"{uid} is sent to by {[one.replica for one in together]}")
        if len(together) > MAX_IN_FLIGHT:
            self.wrong.append(f"{uid} has {len(together)} attempts under way")
        count = sum(one.replica == replica for one in self.under_way)
        self.at_once[replica] = max(self.at_once[replica], count)
        self.times.append(asyncio.get_running_loop().time())
        if self.answer_at_once:
            self.answer(attempt, 200)
        return attempt

    @property
    def begun(self) -> int:
        """Return how many attempts there were."""
        return len(self.times)

    def answer(self, sent: Sent, status: int) -> None:
        """End an attempt; a status of 0 is a timeout."""
        self.under_way.remove(sent)
        if not sent.status.done():
            sent.status.set_result(status)
        if status == 200:
            self.delivered.add((sent.uid, sent.body))

    def time_out(self) -> None:
        """End the attempts whose timeout has expired."""
        for attempt in [one for one in self.under_way if one.until_ms <= self.clock()]:
            self.answer(attempt, 0)


@dataclass(slots=True)
class Gate:
    """Connection of a replica to store and receivers. While it is shut, no answer arrives, as in a stopped process."""

    open: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0

    async def through(self, answer: Awaitable[T]) -> T:
        """Wait for an answer, and until the gate is open."""
        reply = await answer
        self.waiting += 1
        try:
            await self.open.wait()
        finally:
            self.waiting -= 1
        return reply


class GatedStore(Store):
    """A store of one replica behind a gate."""

    gate: Gate

    async def claim(self, wants: Wants, *, room: int = CLAIM_ROOM) -> list[Claimed]:
        """Claim."""
        return await self.gate.through(super().claim(wants, room=room))

    async def settle(self, settlements: Sequence[Settlement], *, again: bool = False) -> None:
        """Settle."""
        await self.gate.through(super().settle(settlements, again=again))

    async def release(self, delivery_ids: Sequence[str]) -> None:
        """Release."""
        await self.gate.through(super().release(delivery_ids))

    async def next_due(self, endpoint_uids: Sequence[str] | None = None) -> dict[str, int]:
        """Return due times."""
        return await self.gate.through(super().next_due(endpoint_uids))


@dataclass
class GatedSharing(ShardSharing):
    """The share of one replica behind a gate."""

    gate: Gate

    async def balance(self, *, after_lapse: bool = False) -> ShardOwnership:
        """Take shards."""
        return await self.gate.through(super().balance(after_lapse=after_lapse))

    async def free(self, numbers: Iterable[int]) -> None:
        """Free shards."""
        await self.gate.through(super().free(numbers))

    async def withdraw(self) -> None:
        """Withdraw."""
        await self.gate.through(super().withdraw())


class DirectSender(Sender):
    """A sender of one replica that calls the receivers; they decide when an attempt ends."""

    def __init__(self, name: str, receivers: Receivers, gate: Gate, clock: Callable[[], int]) -> None:
        super().__init__(Guard(), user_agent="Hookwright/test", allow_http=True)
        self._name, self._receivers, self._gate, self._clock = name, receivers, gate, clock

    async def send(self, endpoint: Endpoint, delivery: Claimed, **_: object) -> Outcome:
        """Make an attempt."""
        started_ms = self._clock()
        status = await self._gate.through(self._receivers.begin(self._name, endpoint.uid, delivery.body).status)
        return Outcome(status, "" if status == 200 else "refused", "", duration_ms=1, started_ms=started_ms)


@dataclass(slots=True)
class Replica:
    """One replica: its store and its loops."""

    name: str
    store: Store
    receivers: Receivers
    gate: Gate
    observed: list[str]
    clock: Callable[[], int]
    registry: Registry = field(default_factory=Registry)
    loops: Supervisor = field(default_factory=Supervisor)
    dispatcher: Dispatcher = field(init=False)
    shard_owner: ShardOwner = field(init=False)
    ended: bool = False
    events: Events = field(init=False)

    @classmethod
    async def start(
        cls,
        url: str,
        name: str,
        receivers: Receivers,
        *,
        endpoints: Iterable[Endpoint],
        sweep: float = 0.05,
        ahead_ms: int = 0,
    ) -> "Replica":
        """Start a replica whose clock is ahead of the receivers'. Another replica with the same name must be dead."""
        observed: list[str] = []

        def clock() -> int:
            return receivers.clock() + ahead_ms

        store = await GatedStore.open(
            url,
            instance=name,
            name=name,
            lease_ms=LEASE_MS,
            clock=clock,
            observe=lambda operation, _: observed.append(operation),
        )
        store.gate = gate = Gate()
        gate.open.set()
        share = store.sharing
        store.sharing = GatedSharing(share.transactions, share.member, gate)
        replica = cls(name, store, receivers, gate, observed, clock)
        replica.dispatcher = Dispatcher(
            store,
            DirectSender(name, receivers, gate, clock),
            RetrySchedule.parse("100ms,100ms,100ms,100ms,100ms,100ms,100ms,100ms"),
            Bounds(window=8, memory=1 << 20, in_flight=2 * TOGETHER),
            clock_ms=clock,
            observer=Watcher(),
            sweep=sweep,
            shared=True,
        )
        replica.shard_owner = ShardOwner(store.sharing, replica.dispatcher, tick=0.02)
        reporter = StatusReporter(store, replica.registry, lambda *_: None, interval=30, clock=time.monotonic)
        replica.events = Events(replica.registry, replica.dispatcher, store, reporter)
        store.listen(replica.hears, replica.shard_owner.look_soon)
        replica.registry.listen(replica.dispatcher)
        replica.registry.put_project("acme", "billing")
        for endpoint in endpoints:
            replica.registry.put(endpoint)
        replica.dispatcher.lease_renewed(await store.heartbeat())
        for loop, run in replica.dispatcher.loops.items():
            replica.loops.start(loop, run)
        replica.loops.start("shards", replica.shard_owner.run)
        replica.loops.start("heartbeat", replica.beat)
        return replica

    @property
    def paused(self) -> bool:
        """Whether the replica is paused."""
        return not self.gate.open.is_set()

    def hears(self, uid: str) -> None:
        """Pass on a notification of a new delivery, unless the replica is paused."""
        if not self.paused:
            self.dispatcher.waiting(uid)

    async def beat(self) -> None:
        """Renew the claim lease repeatedly."""
        while True:
            self.dispatcher.lease_renewed(await self.gate.through(self.store.heartbeat()))
            await asyncio.sleep(0.01)

    async def post(self, number: int) -> None:
        """Accept one event for every endpoint."""
        event = IncomingEvent(None, "delivered", "m-1", str(number).encode())
        await self.events.accept("acme", "billing", [event])

    async def stop(self) -> None:
        """Stop as the operator does at SIGTERM."""
        self.ended = True
        self.gate.open.set()
        await self.loops.stop("claim", "sweep", "shards")
        await self.shard_owner.drain(PATIENCE)
        await self.loops.stop()
        await self.store.close()

    async def kill(self) -> None:
        """Stop without releasing anything."""
        if self.ended:
            return
        self.ended = True
        self.gate.open.clear()
        # A dead replica begins nothing: without this, a task that is cancelled while it settles would start attempts.
        self.dispatcher.queues.closing = True
        await self.loops.stop()
        for task in tuple(self.dispatcher._tasks):
            task.cancel()
        self.receivers.under_way = [attempt for attempt in self.receivers.under_way if attempt.replica != self.name]
        await self.store.close()
