"""An endpoint that hangs, is slow, fails or floods does not delay the others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from chaos.site import MAX_IN_FLIGHT
from support.dispatcher import Busy, Engine, Plan, subscriber
from support.polling import until

from hookwright_dev.receiver import Received, Receiver
from hookwright_operator.services.events import IncomingEvent


@pytest.fixture
async def engine(database: Path) -> AsyncIterator[Engine]:
    """Return an engine that makes as many attempts to a failing endpoint as possible."""
    # Without pauses after timeouts.
    engine = await Engine.start(database, Plan(schedule="20ms,20ms,20ms,20ms,20ms", window=32, jitter=lambda: 0.0))
    yield engine
    await engine.stop(grace=0.5)


@pytest.fixture
async def bad() -> AsyncIterator[Receiver]:
    """Start the receiver that misbehaves."""
    async with Receiver() as receiver:
        yield receiver


async def test_a_failing_endpoint_does_not_delay_its_neighbour(
    engine: Engine, receiver: Receiver, bad: Receiver
) -> None:
    """During one event of the neighbour, the failing endpoint gets a few attempts and not its whole backlog."""
    bad.answer = lambda _: 500
    engine.registry.put(subscriber("bad", bad.url, events=frozenset({"opened", "delivered"})))
    engine.registry.put(subscriber("good", receiver.url))
    await asyncio.gather(*(engine.post("opened") for _ in range(300)))
    before: list[int] = []
    for number in range(30):
        had = len(bad.received)
        await engine.post()
        await receiver.wait_for(number + 1)
        before.append(len(bad.received) - had)
    # An event waits for the attempts and the commits that run before it.
    assert median(before) <= 4 * MAX_IN_FLIGHT, before
    assert len(bad.received) < 6 * 330, "the backlog was gone before the last event arrived: the test proves nothing"


async def test_a_backlog_of_one_endpoint_never_starves_fresh_events_of_others(
    engine: Engine, receiver: Receiver, bad: Receiver
) -> None:
    """New events of other endpoints arrive long before the end of a long backlog at full speed."""
    backlog = subscriber("backlogged", bad.url, events=frozenset({"opened"}), suspend=True, max_in_flight=64)
    engine.registry.put(backlog)
    engine.registry.put(subscriber("good", receiver.url))
    for _ in range(10):
        await asyncio.gather(*(engine.post("opened") for _ in range(100)))
    engine.registry.put(subscriber("backlogged", bad.url, events=frozenset({"opened"}), max_in_flight=64))
    await bad.wait_for(1)
    for number in range(10):
        await engine.post(body=b"%d" % number)
        await receiver.wait_for(number + 1)
    assert len(bad.received) < 1000, "the backlog was gone before the last fresh event arrived: nothing was shown"
    await engine.ended("backlogged", 1000)
    assert len(bad.received) == 1000


async def test_every_backlog_gets_its_share(database: Path, bad: Receiver) -> None:
    """If one claim cannot serve all backlogs, every backlog still makes progress; none waits for the end of another."""

    async def answer(_: Received) -> int:
        await asyncio.sleep(0.01)
        return 200

    bad.answer = answer
    engine = await Engine.start(database, Plan(window=4))
    endpoints = [
        subscriber(f"e-{number}", f"{bad.url}{number}", suspend=True, max_in_flight=1) for number in range(100)
    ]
    for endpoint in endpoints:
        engine.registry.put(endpoint)
    await asyncio.gather(*(engine.post() for _ in range(10)))
    for endpoint in endpoints:
        engine.registry.put(replace(endpoint, suspend=False))
    await bad.wait_for(1000)
    first: dict[str, int] = {}
    for place, request in enumerate(bad.received):
        first.setdefault(request.target, place)
    assert len(first) == 100
    # Two claims of 64 endpoints reach all endpoints; each claim brings at most 4 deliveries per endpoint.
    assert max(first.values()) < 2 * 100 * 4, max(first.values())
    await engine.stop()


@pytest.mark.parametrize("bound", [1, 64])
async def test_max_in_flight_is_kept_over_restart_suspension_and_change(
    database: Path, receiver: Receiver, bound: int
) -> None:
    """The receiver never gets more concurrent requests than allowed, also after a restart or a change."""
    busy, limit = Busy(), min(bound, 32)

    async def answer(received: Received) -> int:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.02 if busy.peak == limit else None):
                await busy(received)
        return 200

    receiver.answer = answer
    total = 5 * bound + 20
    for is_suspended in (True, False):
        engine = await Engine.start(database, Plan(window=32))
        engine.registry.put(subscriber("orders", receiver.url, max_in_flight=bound, suspend=is_suspended))
        if is_suspended:
            await engine.post_many(total)
            engine.registry.put(subscriber("orders", receiver.url, max_in_flight=bound))
            await until(lambda: busy.now == limit)
            engine.registry.put(subscriber("orders", receiver.url, max_in_flight=bound, suspend=True))
            busy.open.set()
            busy.open.clear()
            engine.registry.put(subscriber("orders", receiver.url, max_in_flight=bound, timeout=4))
        else:
            await engine.ended("orders", total)
        await engine.stop()
    assert busy.peak == limit
    assert len(receiver.received) == total


async def test_the_rate_limit_keeps_its_pace_beside_others_and_after_a_restart(
    database: Path, receiver: Receiver, bad: Receiver
) -> None:
    """600 a minute are 100 ms apart, also for a backlog and for retries; the neighbour is not slowed down."""
    bad.answer = lambda received: 500 if received.attempt == 1 else 200
    for round_ in (1, 2):
        engine = await Engine.start(database, Plan(schedule="10ms"))
        engine.registry.put(subscriber("limited", bad.url, per_minute=600))
        engine.registry.put(subscriber("free", receiver.url))
        if round_ == 1:
            await engine.events.accept("acme", "billing", [IncomingEvent(None, "delivered", "m-1", b"{}")] * 12)
            await engine.ended("free", 12)
            assert len(bad.received) < 12
            await bad.wait_for(6)
        else:
            await engine.ended("limited", 12)
        await engine.stop()
    arrivals = [received.at for received in bad.received]
    assert len(arrivals) == 24
    # The restart starts a new interval, and on a busy machine a request arrives some time after its attempt began.
    assert arrivals[-1] - arrivals[0] >= 22 * 0.1 - 0.5
    assert sum(later - earlier < 0.05 for earlier, later in pairwise(arrivals)) <= 6


@pytest.mark.slow
async def test_without_time_to_hang_there_is_no_thread_or_task_left(engine: Engine, bad: Receiver) -> None:
    """An attempt that hangs ends at its timeout, and no thread or task of it is left."""
    bad.answer = Busy()
    engine.registry.put(subscriber("bad", bad.url, timeout=0.2))
    await engine.post_many(20)
    await engine.ended("bad", 20)
    await until(lambda: engine.at_rest)
    assert engine.dispatcher.queues.memory.used == 0
    assert (await engine.counts("bad")).failed == 20
