"""Several processes on one PostgreSQL database: whatever happens to them, an endpoint is sent to by one at a time."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import TypeVar

import pytest
from delivery.engine import Watcher, eventually, subscriber, until
from store.making import EMPTY, Clock, migrated

from hookwright_dev.postgres import FAST, PostgresServer, programs
from hookwright_operator.delivery.loops import Dispatcher
from hookwright_operator.delivery.outcome import Outcome
from hookwright_operator.delivery.schedule import RetrySchedule
from hookwright_operator.delivery.seams import Bounds
from hookwright_operator.delivery.shards import Ownership
from hookwright_operator.intake.parsing import IncomingEvent
from hookwright_operator.ports import EventAccepter, Recoveries
from hookwright_operator.registry import Endpoint, Registry
from hookwright_operator.store.model import Claimed, Holding, RecoveryState, Settlement
from hookwright_operator.store.shards import CLOCKS_DIFFER_MS, SHARDS, shard_of
from hookwright_operator.store.store import Store
from hookwright_operator.supervise import Supervisor

T = TypeVar("T")

LEASE_MS = 10_000
TIMEOUT = 4
"""Seconds that an attempt may take."""
MAX_IN_FLIGHT = 2
TOGETHER = 5
"""Attempts of one process under way at once."""
UIDS = [f"endpoint-{number}" for number in range(8)]


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A server of this module's own."""
    programs()
    server = PostgresServer(FAST)
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def database_url(postgres: PostgresServer) -> str:
    """A database with the schema."""
    url = postgres.new_database("shards")
    asyncio.run(migrated(url))
    return url


@pytest.fixture
def url(postgres: PostgresServer, database_url: str) -> str:
    """The database, emptied."""
    postgres.execute(EMPTY, database="shards")
    return database_url


@dataclass(slots=True, eq=False)
class Sent:
    """One attempt, as the receivers see it: it is under way until it ends or its time is over."""

    replica: str
    uid: str
    body: bytes
    until_ms: int
    status: "asyncio.Future[int]"


@dataclass(slots=True)
class Receivers:
    """What all endpoints see of all processes."""

    clock: Clock
    under_way: list[Sent] = field(default_factory=list)
    delivered: set[tuple[str, bytes]] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    at_once: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    times: list[float] = field(default_factory=list)
    answer_at_once: bool = False

    def begin(self, replica: str, uid: str, body: bytes) -> Sent:
        """Take an attempt, and note what is wrong with it."""
        sent = Sent(replica, uid, body, self.clock() + TIMEOUT * 1000, asyncio.get_running_loop().create_future())
        self.under_way.append(sent)
        together = [one for one in self.under_way if one.uid == uid and one.until_ms > self.clock()]
        if len({one.replica for one in together}) > 1:
            self.wrong.append(f"{uid} is sent to by {[one.replica for one in together]}")
        if len(together) > MAX_IN_FLIGHT:
            self.wrong.append(f"{uid} has {len(together)} attempts under way")
        own = sum(one.replica == replica for one in self.under_way)
        self.at_once[replica] = max(self.at_once[replica], own)
        self.times.append(asyncio.get_running_loop().time())
        if self.answer_at_once:
            self.answer(sent, 200)
        return sent

    @property
    def begun(self) -> int:
        """How many attempts there were."""
        return len(self.times)

    def answer(self, sent: Sent, status: int) -> None:
        """End an attempt; a status of 0 is a timeout."""
        self.under_way.remove(sent)
        if not sent.status.done():
            sent.status.set_result(status)
        if status == 200:
            self.delivered.add((sent.uid, sent.body))

    def time_out(self) -> None:
        """End what has had its time."""
        for sent in [one for one in self.under_way if one.until_ms <= self.clock()]:
            self.answer(sent, 0)


@dataclass(slots=True)
class Gate:
    """A process's way out and in: while it is shut, as when the process is stopped, no answer comes to it."""

    open: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0

    async def through(self, answer: Awaitable[T]) -> T:
        """Wait for an answer, and until the gate is open."""
        answered = await answer
        self.waiting += 1
        try:
            await self.open.wait()
        finally:
            self.waiting -= 1
        return answered


@dataclass(slots=True)
class Gated:
    """A store behind a gate, and its share of the endpoints."""

    store: Store
    gate: Gate

    async def claim(self, wants: Sequence[tuple[str, int]]) -> list[Claimed]:
        """Claim."""
        return await self.gate.through(self.store.claim(wants))

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        """Settle."""
        await self.gate.through(self.store.settle(settlements))

    async def release(self, delivery_ids: Sequence[str]) -> None:
        """Release."""
        await self.gate.through(self.store.release(delivery_ids))

    async def next_due(self, endpoint_uids: Sequence[str] | None = None) -> Mapping[str, int]:
        """Tell what is due."""
        return await self.gate.through(self.store.next_due(endpoint_uids))

    async def balance(self) -> Holding:
        """Take shards."""
        return await self.gate.through(self.store.sharing.balance())

    async def free(self, numbers: Iterable[int]) -> None:
        """Free shards."""
        await self.gate.through(self.store.sharing.free(numbers))

    async def withdraw(self) -> None:
        """Withdraw."""
        await self.gate.through(self.store.sharing.withdraw())

    def changed(self) -> None:
        """Tell the others."""
        self.store.sharing.changed()


@dataclass(slots=True)
class Replica:
    """One process: its store, its loops, and a sender that only tells the receivers."""

    name: str
    store: Store
    receivers: Receivers
    gate: Gate
    observed: list[str]
    registry: Registry = field(default_factory=Registry)
    loops: Supervisor = field(default_factory=Supervisor)
    dispatcher: Dispatcher = field(init=False)
    ownership: Ownership = field(init=False)
    ended: bool = False
    accepter: EventAccepter = field(init=False)

    @classmethod
    async def start(
        cls, url: str, name: str, receivers: Receivers, *, endpoints: Iterable[Endpoint], sweep: float = 0.05
    ) -> "Replica":
        """Start a process; one of the same name is dead."""
        observed: list[str] = []
        store = await Store.open(
            url,
            instance=name,
            name=name,
            lease_ms=LEASE_MS,
            clock=receivers.clock,
            observe=lambda operation, _: observed.append(operation),
        )
        replica = cls(name, store, receivers, Gate(), observed)
        replica.gate.open.set()
        gated = Gated(store, replica.gate)
        replica.dispatcher = Dispatcher(
            gated,
            replica,
            RetrySchedule.parse("100ms,100ms,100ms,100ms,100ms,100ms,100ms,100ms"),
            Bounds(window=8, memory=1 << 20, in_flight=TOGETHER),
            clock_ms=receivers.clock,
            observer=Watcher(),
            sweep=sweep,
            shared=True,
        )
        replica.ownership = Ownership(gated, replica.dispatcher, tick=0.02)
        replica.accepter = EventAccepter(replica.registry, replica.dispatcher, store, lambda _: None)
        store.listen(replica.hears, replica.ownership.look_soon)
        replica.registry.listen(replica.dispatcher)
        replica.registry.put_project("acme", "billing")
        for endpoint in endpoints:
            replica.registry.put(endpoint)
        replica.dispatcher.renewed(await store.heartbeat())
        for loop, run in (
            ("claim", replica.dispatcher.run),
            ("shards", replica.ownership.run),
            ("heartbeat", replica.beat),
        ):
            replica.loops.start(loop, run)
        return replica

    @property
    def paused(self) -> bool:
        """Whether it is stopped."""
        return not self.gate.open.is_set()

    def hears(self, uid: str) -> None:
        """Hear what waits, unless it is stopped."""
        if not self.paused:
            self.dispatcher.waiting(uid)

    async def send(self, endpoint: Endpoint, *, body: bytes, **_: object) -> Outcome:
        """Make an attempt, which ends when the receivers say so."""
        started_ms = self.receivers.clock()
        status = await self.gate.through(self.receivers.begin(self.name, endpoint.uid, body).status)
        return Outcome(status, "" if status == 200 else "refused", "", duration_ms=1, started_ms=started_ms)

    async def beat(self) -> None:
        """Renew the lease again and again."""
        while True:
            self.dispatcher.renewed(await self.gate.through(self.store.heartbeat()))
            await asyncio.sleep(0.01)

    async def post(self, number: int) -> None:
        """Accept one event for every endpoint."""
        event = IncomingEvent(None, "delivered", "m-1", str(number).encode())
        await self.accepter.accept("acme", "billing", [event])

    async def stop(self) -> None:
        """End as the operator does at SIGTERM."""
        self.ended = True
        self.gate.open.set()
        await self.loops.stop("claim", "shards")
        await self.ownership.drain(10.0)
        await self.loops.stop()
        await self.store.close()

    async def kill(self) -> None:
        """End with nothing told to anybody; who has ended stays so."""
        if self.ended:
            return
        self.ended = True
        self.gate.open.clear()
        await self.loops.stop()
        for task in tuple(self.dispatcher._tasks):
            task.cancel()
        self.receivers.under_way = [sent for sent in self.receivers.under_way if sent.replica != self.name]
        await self.store.close()


@dataclass(slots=True)
class World:
    """Everything, and what may happen to it."""

    url: str
    random: Random
    clock: Clock
    receivers: Receivers
    replicas: dict[str, Replica] = field(default_factory=dict)
    posted: int = 0

    @property
    def running(self) -> list[Replica]:
        """Those that are not stopped."""
        return [replica for replica in self.replicas.values() if not replica.paused]

    async def start(self) -> None:
        """Start one more, at times in the place of one that is killed at that moment."""
        name = f"pod-{self.random.randrange(3)}"
        if name in self.replicas:
            await self.replicas.pop(name).kill()
        endpoints = [subscriber(uid, "", timeout=TIMEOUT, max_in_flight=MAX_IN_FLIGHT) for uid in UIDS]
        self.replicas[name] = await Replica.start(self.url, name, self.receivers, endpoints=endpoints)

    async def post(self) -> None:
        """Accept events at any of them."""
        for _ in range(self.random.randint(1, 4)):
            if self.running:
                await self.random.choice(self.running).post(self.posted)
                self.posted += 1

    async def answer(self) -> None:
        """End some attempts, well or badly."""
        for sent in self.random.sample(self.receivers.under_way, k=(len(self.receivers.under_way) + 1) // 2):
            self.receivers.answer(sent, self.random.choice([200, 200, 500]))

    async def pass_time(self) -> None:
        """Let time pass, at times more than a lease while nobody is stopped."""
        self.clock.advance(self.random.choice([100, 1_000, 3_000, 5_000, LEASE_MS, LEASE_MS + CLOCKS_DIFFER_MS]))
        self.receivers.time_out()

    async def pause(self) -> None:
        """Stop one."""
        if self.running:
            self.random.choice(self.running).gate.open.clear()

    async def resume(self) -> None:
        """Let those that are stopped go on."""
        for replica in self.replicas.values():
            replica.gate.open.set()

    async def kill(self) -> None:
        """Kill one."""
        if self.replicas:
            await self.replicas.pop(self.random.choice(list(self.replicas))).kill()

    async def end(self) -> None:
        """End one as SIGTERM does, while the receivers answer it."""
        if self.running:
            replica = self.replicas.pop(self.random.choice(self.running).name)
            ending = asyncio.create_task(replica.stop())
            while not ending.done():
                for sent in [one for one in self.receivers.under_way if one.replica == replica.name]:
                    self.receivers.answer(sent, self.random.choice([200, 500]))
                await asyncio.sleep(0.001)
            await ending

    async def all_ends_well(self) -> None:
        """Have everything delivered, or given up, with nothing lost, and end."""
        await self.resume()
        if not self.replicas:
            await self.start()
        store = next(iter(self.replicas.values())).store

        async def all_ended() -> bool:
            self.clock.advance(100)
            for sent in tuple(self.receivers.under_way):
                self.receivers.answer(sent, 200)
            return all([(await store.counts_of(uid)).pending == 0 for uid in UIDS])

        await eventually(all_ended, within=30)
        counts = (await store.counts()).values()
        assert sum(count.delivered + count.failed for count in counts) == self.posted * len(UIDS)
        assert sum(count.delivered for count in counts) <= len(self.receivers.delivered)
        assert self.receivers.wrong == []
        assert max(self.receivers.at_once.values()) <= TOGETHER
        for replica in self.replicas.values():
            await replica.stop()

    async def breathe(self) -> None:
        """Let the processes work for a moment, which is long enough at times and too short at others."""
        await asyncio.sleep(self.random.choice([0, 0.001, 0.02, 0.05]))


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_happens_no_two_processes_send_to_one_endpoint_and_nothing_is_lost(url: str, seed: int) -> None:
    """Kills, ends, starts, stops longer than the lease: attempts for an endpoint are one process's, and bounded."""
    clock = Clock()
    world = World(url, Random(seed), clock, Receivers(clock))
    steps = [world.start] * 2 + [world.post] * 6 + [world.answer] * 6 + [world.pass_time] * 3
    steps += [world.pause, world.resume, world.resume, world.kill, world.end]
    await world.start()
    try:
        for _ in range(120):
            await world.random.choice(steps)()
            await world.breathe()
            assert world.receivers.wrong == []
        await world.all_ends_well()
    finally:
        for replica in world.replicas.values():
            await replica.kill()


@asynccontextmanager
async def two(url: str, *endpoints: Endpoint) -> AsyncIterator[tuple[Receivers, Callable[[str], Awaitable[Replica]]]]:
    """Receivers, and a way to start processes that are ended with the block."""
    receivers = Receivers(Clock())
    started: list[Replica] = []

    async def start(name: str) -> Replica:
        started.append(await Replica.start(url, name, receivers, endpoints=endpoints))
        return started[-1]

    try:
        yield receivers, start
    finally:
        for replica in started:
            if not replica.ended:
                await replica.kill()


async def test_a_shard_is_handed_on_when_what_is_under_way_has_ended_and_not_before(url: str) -> None:
    """The newcomer gets the quiet ones at once; what waited with the old owner goes out once, by the new one."""
    async with two(url, *[subscriber(uid, "", timeout=TIMEOUT, max_in_flight=1) for uid in UIDS]) as (receivers, start):
        old = await start("old")
        await until(lambda: len(old.dispatcher.ground) == SHARDS)
        await old.post(0)
        await old.post(1)
        await until(lambda: len(receivers.under_way) == TOGETHER)
        busy = {shard_of(sent.uid) for sent in receivers.under_way}

        new = await start("new")
        await until(lambda: len(new.dispatcher.ground) == SHARDS // 2)
        assert not any(new.dispatcher.ground.since(shard) is not None for shard in busy)

        async def all_ended() -> bool:
            for sent in tuple(receivers.under_way):
                receivers.answer(sent, 200)
            counts = (await new.store.counts()).values()
            return sum(count.delivered for count in counts) == 2 * len(UIDS)

        await eventually(all_ended)
        assert receivers.wrong == []
        assert receivers.begun == 2 * len(UIDS)


async def test_an_answer_from_before_a_lapse_counts_for_nothing(url: str) -> None:
    """Who was stopped while the store told it what it has does not believe it afterwards: others may have it now."""
    async with two(url, *[subscriber(uid, "", timeout=TIMEOUT) for uid in UIDS]) as (receivers, start):
        stopped = await start("stopped")
        await until(lambda: len(stopped.dispatcher.ground) == SHARDS)
        stopped.gate.open.clear()
        await until(lambda: stopped.gate.waiting >= 3)  # a heartbeat and two looks are answered, and it reads none
        receivers.clock.advance(LEASE_MS + CLOCKS_DIFFER_MS)
        other = await start("other")
        await until(lambda: len(other.dispatcher.ground) == SHARDS)
        await other.post(0)
        await until(lambda: len(receivers.under_way) == TOGETHER)
        busy = {shard_of(sent.uid) for sent in receivers.under_way}

        stopped.gate.open.set()

        await until(lambda: len(stopped.dispatcher.ground) == SHARDS // 2)
        assert stopped.dispatcher.lapses
        assert not any(stopped.dispatcher.ground.since(shard) is not None for shard in busy)
        assert receivers.wrong == []


async def test_the_rate_limit_holds_while_an_endpoint_goes_from_one_to_another(url: str) -> None:
    """Its attempts keep their distance, whoever makes them."""
    async with two(url, subscriber("orders", "", timeout=TIMEOUT, per_minute=200)) as (receivers, start):
        receivers.answer_at_once = True
        owner = await start("first")
        await until(lambda: len(owner.dispatcher.ground) == SHARDS)
        for number in range(12):
            await owner.post(number)
        for name in ("second", "third", "fourth"):
            before = receivers.begun
            await until(lambda before=before: receivers.begun >= before + 2)  # type: ignore[misc]
            successor = await start(name)
            await owner.stop()
            owner = successor

        async def all_delivered() -> bool:
            return (await owner.store.counts_of("orders")).delivered == 12

        await eventually(all_delivered)
        # An attempt goes out a moment after it was let go, a longer one on a busy machine.
        assert min(later - earlier for earlier, later in pairwise(receivers.times)) > 0.3 - 0.1


async def test_a_recovery_is_driven_by_the_owner_of_its_endpoint(url: str) -> None:
    """Wherever it was begun; the others leave it alone."""
    async with two(url, *[subscriber(uid, "", timeout=TIMEOUT) for uid in UIDS]) as (receivers, start):
        owner, other = await start("owner"), await start("other")
        await until(lambda: {len(one.dispatcher.ground) for one in (owner, other)} == {SHARDS // 2})
        uid = next(uid for uid in UIDS if owner.dispatcher.ground.owns(uid))
        job = await other.store.begin_recovery("rec_1", uid, since_ms=0)
        for replica in (other, owner):
            recoveries = Recoveries(replica.registry, replica.dispatcher, replica.store, receivers.clock)
            before = replica.observed.count("recoveries")
            replica.loops.start("recovery", recoveries.drive)
            await until(lambda replica=replica, before=before: replica.observed.count("recoveries") > before + 1)  # type: ignore[misc]

        async def completed() -> bool:
            found = await other.store.recovery(job.id)
            return found is not None and found.state is RecoveryState.COMPLETED

        await eventually(completed)
        assert "advance_recovery" in owner.observed
        assert "advance_recovery" not in other.observed
