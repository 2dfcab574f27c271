"""Clocks of replicas that differ: no endpoint is sent to by two replicas at once, and nothing is lost.

Replicas share a real PostgreSQL database. Each judges leases by its own clock. A clock moves only when a test
moves it, so the tests do not depend on the speed of the machine.

Two bounds hold. Living replicas may differ by half a lease, because each renews its lease after a sixth of it. The
clock of a replica that takes over from a stopped one may be ahead by one second (`CLOCKS_DIFFER_MS`).
"""

from random import Random

import pytest
from integration.delivery.test_shard_owner import UIDS, World
from support.delivery_replicas import LEASE_MS, MAX_IN_FLIGHT, TIMEOUT, TOGETHER, Receivers, Replica
from support.dispatcher import subscriber
from support.polling import until
from support.store_factories import Clock

from hookwright_operator.store.shard_sharing import CLOCKS_DIFFER_MS, SHARDS
from hookwright_operator.store.sql import read

BEAT_MS = LEASE_MS // 6
"""The time between two heartbeats of the operator."""

FARTHEST = "half a lease"
LIVING = {
    "clocks in step": 0,
    "the tolerance": CLOCKS_DIFFER_MS,
    "more than the tolerance": 3 * CLOCKS_DIFFER_MS,
    FARTHEST: LEASE_MS // 2,
}
"""Milliseconds between the clocks of two living replicas."""


@pytest.fixture
def url(postgres_url: str) -> str:
    """Return a PostgreSQL database, because replicas share no SQLite file."""
    return postgres_url


async def renewed(replicas: list[Replica]) -> None:
    """Wait until each replica has renewed its lease."""
    await until(
        lambda: all(
            replica.dispatcher.queues.scheduler.lease_until_ms >= replica.clock() + LEASE_MS for replica in replicas
        )
    )


@pytest.mark.parametrize("first", ["behind", "ahead"])
@pytest.mark.parametrize(
    "sentence", [pytest.param(name, marks=pytest.mark.slow) for name in LIVING if name != FARTHEST] + [FARTHEST]
)
async def test_living_replicas_keep_their_shares_and_send_each_delivery_once(
    url: str, sentence: str, first: str
) -> None:
    """No living replica declares the other dead, in either order of their starts."""
    clock = Clock()
    receivers = Receivers(clock, answer_at_once=True)
    endpoints = [subscriber(uid, "", timeout=TIMEOUT, max_in_flight=MAX_IN_FLIGHT) for uid in UIDS]
    skews = {"behind": 0, "ahead": LIVING[sentence]}
    replicas: list[Replica] = []
    try:
        for name in (first, *(skews.keys() - {first})):
            replica = await Replica.start(url, name, receivers, endpoints=endpoints, ahead_ms=skews[name])
            replicas.append(replica)
        await until(lambda: {len(one.dispatcher.owned_shards) for one in replicas} == {SHARDS // 2})
        shares = [frozenset(one.dispatcher.owned_shards._since) for one in replicas]
        for number in range(12):
            await replicas[number % 2].post(number)
            clock.advance(BEAT_MS)
            await renewed(replicas)

        async def all_delivered() -> bool:
            clock.advance(100)
            await renewed(replicas)
            counts = (await replicas[0].store.read(read.counts)).values()
            return sum(count.delivered for count in counts) == 12 * len(UIDS)

        await until(all_delivered)
        assert [frozenset(one.dispatcher.owned_shards._since) for one in replicas] == shares
        assert [one.dispatcher.queues.lapses for one in replicas] == [0, 0]
        assert receivers.wrong == []
        assert receivers.begun == 12 * len(UIDS)
    finally:
        for one in replicas:
            await one.kill()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
async def test_replicas_that_start_and_end_by_clocks_half_a_lease_apart_send_nothing_by_two(
    url: str, seed: int
) -> None:
    """Starts, kills and ends, while no living replica misses its heartbeat: nothing is sent by two, nothing is lost."""
    clock = Clock()
    steps_ms = (100, 1_000, BEAT_MS)
    world = World(url, Random(seed), clock, Receivers(clock), ahead_ms=LEASE_MS // 2, steps_ms=steps_ms)
    steps = [world.start] * 2 + [world.post] * 6 + [world.answer] * 6 + [world.pass_time] * 4 + [world.kill, world.end]
    await world.start()
    try:
        for _ in range(100):
            await world.random.choice(steps)()
            await renewed(world.running)
            await world.breathe()
            assert world.receivers.wrong == []
        await world.all_ends_well()
    finally:
        for replica in world.replicas.values():
            await replica.kill()


STOPPED = {
    "clocks in step": 0,
    "half the tolerance ahead": CLOCKS_DIFFER_MS // 2,
    "the tolerance ahead": CLOCKS_DIFFER_MS,
    "the tolerance behind": -CLOCKS_DIFFER_MS,
    "half a lease behind": -LEASE_MS // 2,
}
"""Milliseconds by which the clock of the replica that takes over is ahead of the clock of the one that stopped."""


@pytest.mark.parametrize(
    "sentence",
    [pytest.param(name, marks=() if name.startswith("the tolerance") else pytest.mark.slow) for name in STOPPED],
)
async def test_a_stopped_replica_is_replaced_when_its_last_attempts_are_over(url: str, sentence: str) -> None:
    """Its last attempts begin as late as its lease allows; the other replica sends nothing before their timeout."""
    clock = Clock()
    receivers = Receivers(clock)
    endpoints = [subscriber(uid, "", timeout=TIMEOUT, max_in_flight=MAX_IN_FLIGHT) for uid in UIDS]
    stopped_one = await Replica.start(url, "stopped", receivers, endpoints=endpoints)
    replicas = [stopped_one]
    try:
        await until(lambda: len(stopped_one.dispatcher.owned_shards) == SHARDS)
        stopped_one.gate.open.clear()
        await until(lambda: stopped_one.gate.waiting >= 3)  # a heartbeat and two looks
        clock.advance(stopped_one.dispatcher.queues.scheduler.lease_until_ms - clock() - TIMEOUT * 1000 - 1)
        await stopped_one.post(0)
        await until(lambda: len(receivers.under_way) == TOGETHER)  # the lease just covers a timeout
        second = await Replica.start(url, "other", receivers, endpoints=endpoints, ahead_ms=STOPPED[sentence])
        replicas.append(second)
        clock.advance(TIMEOUT * 1000 - 500)  # the attempts are nearly over
        await renewed([second])

        async def delivered() -> bool:
            for attempt in [one for one in receivers.under_way if one.replica == "other"]:
                receivers.answer(attempt, 200)
            counts = (await second.store.read(read.counts)).values()
            return sum(count.delivered for count in counts) == len(UIDS)

        for _ in range(100):
            looks = second.observed.count("balance")
            await until(lambda looks=looks: second.observed.count("balance") > looks + 1)  # type: ignore[misc]
            if await delivered():
                break
            clock.advance(250)
            await renewed([second])
        assert await delivered()
        assert receivers.wrong == []
    finally:
        for one in replicas:
            await one.kill()
