"""Several replicas on one PostgreSQL database: only one at a time sends to an endpoint."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import pytest
from support.delivery_replicas import LEASE_MS, MAX_IN_FLIGHT, TIMEOUT, TOGETHER, Receivers, Replica
from support.dispatcher import subscriber
from support.polling import until
from support.store_factories import Clock, failures_of

from hookwright_operator.registry import Endpoint
from hookwright_operator.services.replays import Replays
from hookwright_operator.store.records import ReplayState
from hookwright_operator.store.shard_sharing import CLOCKS_DIFFER_MS, SHARDS, shard_of
from hookwright_operator.store.sql import read

UIDS = [f"endpoint-{number}" for number in range(8)]


@pytest.fixture
def url(postgres_url: str) -> str:
    """Use PostgreSQL, because replicas share it."""
    return postgres_url


@dataclass(slots=True)
class World:
    """All replicas and receivers, and the events that may happen to them.

    Attributes:
        ahead_ms: most milliseconds that the clock of a replica is ahead of the slowest one.
        steps_ms: milliseconds that may pass at once.
    """

    url: str
    random: Random
    clock: Clock
    receivers: Receivers
    replicas: dict[str, Replica] = field(default_factory=dict)
    posted: int = 0
    ahead_ms: int = 0
    steps_ms: Sequence[int] = (100, 1_000, 3_000, 5_000, LEASE_MS, LEASE_MS + CLOCKS_DIFFER_MS)

    @property
    def running(self) -> list[Replica]:
        """Replicas that are not paused."""
        return [replica for replica in self.replicas.values() if not replica.paused]

    async def start(self) -> None:
        """Start one more replica, sometimes in the place of one that is killed at that moment."""
        name = f"pod-{self.random.randrange(3)}"
        if name in self.replicas:
            await self.replicas.pop(name).kill()
        endpoints = [subscriber(uid, "", timeout=TIMEOUT, max_in_flight=MAX_IN_FLIGHT) for uid in UIDS]
        ahead = self.random.randint(0, self.ahead_ms)
        replica = await Replica.start(self.url, name, self.receivers, endpoints=endpoints, ahead_ms=ahead)
        self.replicas[name] = replica

    async def post(self) -> None:
        """Accept events at any replica."""
        for _ in range(self.random.randint(1, 4)):
            if self.running:
                await self.random.choice(self.running).post(self.posted)
                self.posted += 1

    async def answer(self) -> None:
        """End some attempts, with success or failure."""
        for attempt in self.random.sample(self.receivers.under_way, k=(len(self.receivers.under_way) + 1) // 2):
            self.receivers.answer(attempt, self.random.choice([200, 200, 500]))

    async def pass_time(self) -> None:
        """Advance the time; by more than a claim lease at times, if no replica is paused."""
        self.clock.advance(self.random.choice(self.steps_ms))
        self.receivers.time_out()

    async def pause(self) -> None:
        """Pause one replica."""
        if self.running:
            self.random.choice(self.running).gate.open.clear()

    async def resume(self) -> None:
        """Resume the paused replicas."""
        for replica in self.replicas.values():
            replica.gate.open.set()

    async def kill(self) -> None:
        """Kill one replica."""
        if self.replicas:
            await self.replicas.pop(self.random.choice(list(self.replicas))).kill()

    async def end(self) -> None:
        """Stop one replica as SIGTERM does, while the receivers answer it."""
        if self.running:
            replica = self.replicas.pop(self.random.choice(self.running).name)
            ending = asyncio.create_task(replica.stop())
            while not ending.done():
                for attempt in [one for one in self.receivers.under_way if one.replica == replica.name]:
                    self.receivers.answer(attempt, self.random.choice([200, 500]))
                await asyncio.sleep(0.001)
            await ending

    async def all_ends_well(self) -> None:
        """Check that every delivery is delivered or failed and none is lost, then stop."""
        await self.resume()
        if not self.replicas:
            await self.start()
        store = next(iter(self.replicas.values())).store
        self.receivers.answer_at_once = True

        async def all_ended() -> bool:
            self.clock.advance(100)
            for attempt in tuple(self.receivers.under_way):
                self.receivers.answer(attempt, 200)
            return all([(await store.read(read.counts_of, uid)).pending == 0 for uid in UIDS])

        await until(all_ended)
        counts = (await store.read(read.counts)).values()
        assert sum(count.delivered + count.failed for count in counts) == self.posted * len(UIDS)
        assert sum(count.delivered for count in counts) <= len(self.receivers.delivered)
        assert self.receivers.wrong == []
        assert max(self.receivers.at_once.values()) <= TOGETHER
        for replica in self.replicas.values():
            await replica.stop()

    async def breathe(self) -> None:
        """Let the replicas work for a random moment."""
        await asyncio.sleep(self.random.choice([0, 0.001, 0.02, 0.05]))


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
async def test_whatever_happens_no_two_processes_send_to_one_endpoint_and_nothing_is_lost(url: str, seed: int) -> None:
    """With kills, stops, starts and long pauses, one replica at a time sends to an endpoint, within its bound."""
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
    """Yield receivers, and a function that starts replicas; they are stopped at the end of the block."""
    receivers = Receivers(Clock())
    replicas: list[Replica] = []

    async def start(name: str) -> Replica:
        replicas.append(await Replica.start(url, name, receivers, endpoints=endpoints))
        return replicas[-1]

    try:
        yield receivers, start
    finally:
        for replica in replicas:
            if not replica.ended:
                await replica.kill()


async def test_a_shard_is_handed_on_when_what_is_under_way_has_ended_and_not_before(url: str) -> None:
    """The new replica gets the quiet shards at once; the old one's pending deliveries are sent once, by the new one."""
    async with two(url, *[subscriber(uid, "", timeout=TIMEOUT, max_in_flight=1) for uid in UIDS]) as (receivers, start):
        old = await start("old")
        await until(lambda: len(old.dispatcher.owned_shards) == SHARDS)
        await old.post(0)
        await old.post(1)
        await until(lambda: len(receivers.under_way) == TOGETHER)
        busy = {shard_of(attempt.uid) for attempt in receivers.under_way}

        new = await start("new")
        await until(lambda: len(new.dispatcher.owned_shards) == SHARDS // 2)
        assert not any(new.dispatcher.owned_shards.since(shard) is not None for shard in busy)

        async def all_ended() -> bool:
            for attempt in tuple(receivers.under_way):
                receivers.answer(attempt, 200)
            counts = (await new.store.read(read.counts)).values()
            return sum(count.delivered for count in counts) == 2 * len(UIDS)

        await until(all_ended)
        assert receivers.wrong == []
        assert receivers.begun == 2 * len(UIDS)


async def test_an_answer_from_before_a_lapse_counts_for_nothing(url: str) -> None:
    """A replica that was paused during an answer of the store ignores it, because others may own its shards now."""
    async with two(url, *[subscriber(uid, "", timeout=TIMEOUT) for uid in UIDS]) as (receivers, start):
        stopped_one = await start("stopped")
        await until(lambda: len(stopped_one.dispatcher.owned_shards) == SHARDS)
        stopped_one.gate.open.clear()
        await until(lambda: stopped_one.gate.waiting >= 3)  # a heartbeat and two checks; it reads no answer
        receivers.clock.advance(LEASE_MS + CLOCKS_DIFFER_MS)
        second = await start("other")
        await until(lambda: len(second.dispatcher.owned_shards) == SHARDS)
        await second.post(0)
        await until(lambda: len(receivers.under_way) == TOGETHER)
        busy = {shard_of(attempt.uid) for attempt in receivers.under_way}

        stopped_one.gate.open.set()

        await until(lambda: len(stopped_one.dispatcher.owned_shards) == SHARDS // 2)
        assert stopped_one.dispatcher.queues.lapses
        assert not any(stopped_one.dispatcher.owned_shards.since(shard) is not None for shard in busy)
        assert receivers.wrong == []


@pytest.mark.slow
async def test_the_rate_limit_holds_while_an_endpoint_goes_from_one_to_another(url: str) -> None:
    """Attempts keep their interval, whichever replica makes them."""
    async with two(url, subscriber("orders", "", timeout=TIMEOUT, per_minute=40)) as (receivers, start):
        receivers.answer_at_once = True
        owner = await start("first")
        await until(lambda: len(owner.dispatcher.owned_shards) == SHARDS)
        for number in range(6):
            await owner.post(number)
        for name in ("second", "third", "fourth"):
            before = receivers.begun
            await until(lambda before=before: receivers.begun > before)  # type: ignore[misc]
            successor = await start(name)
            await owner.stop()
            owner = successor

        async def all_delivered() -> bool:
            return (await owner.store.read(read.counts_of, "orders")).delivered == 6

        await until(all_delivered)
        # 1.5 s lie between two attempts. Each begins a moment after its time, a longer moment on a busy machine.
        assert min(later - earlier for earlier, later in pairwise(receivers.times)) > 1.5 - 1.0


async def test_a_replay_is_driven_by_the_owner_of_its_endpoint(url: str) -> None:
    """The owner runs a replay that another replica began; the other replicas ignore it."""
    async with two(url, *[subscriber(uid, "", timeout=TIMEOUT) for uid in UIDS]) as (receivers, start):
        owner, second = await start("one"), await start("two")
        await until(lambda: {len(value.dispatcher.owned_shards) for value in (owner, second)} == {SHARDS // 2})
        uid = UIDS[0]
        if second.dispatcher.owned_shards.owns(uid):
            owner, second = second, owner
        job = await second.store.chosen_replays.begin("rec_1", failures_of(uid))
        for replica in (second, owner):
            replays = Replays(replica.registry, replica.dispatcher, replica.store, receivers.clock)
            before = replica.observed.count("replays")
            replica.loops.start("replays", replays.run)
            await until(lambda replica=replica, before=before: replica.observed.count("replays") > before + 1)  # type: ignore[misc]

        async def completed() -> bool:
            progress = await second.store.replay(job.id)
            return progress is not None and progress.state is ReplayState.COMPLETED

        await until(completed)
        assert "advance_replay" in owner.observed
        assert "advance_replay" not in second.observed
