"""After clock jumps in both directions, no event is lost or sent twice, and retry delays stay bounded."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.dispatcher import Busy, Engine, Jumping, Plan, subscriber
from support.polling import until

from hookwright_dev.receiver import Receiver
from hookwright_operator.delivery import claimer
from hookwright_operator.services.events import IncomingEvent

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
BEAT = 0.2
"""Seconds between two heartbeats. The claim lease is much longer, so that only a clock jump makes it expire."""


@pytest.fixture
def clock() -> Jumping:
    """Return the clock of store, loops and signatures."""
    return Jumping()


@pytest.fixture
async def engine(database: Path, clock: Jumping) -> AsyncIterator[Engine]:
    """Return an engine that uses the test's clock."""
    engine = await Engine.start(database, Plan(schedule="300ms,300ms,300ms", clock_ms=clock, sweep=0.5, beat=BEAT))
    yield engine
    await engine.stop()


async def test_a_jump_forward_loses_nothing_and_repeats_nothing(
    engine: Engine, clock: Jumping, receiver: Receiver
) -> None:
    """The claim lease seems expired: waiting deliveries are claimed again, deliveries in flight are settled once."""
    receiver.answer = busy = Busy()
    engine.registry.put(subscriber("orders", receiver.url, max_in_flight=2))
    await engine.post_many(20)
    await until(lambda: busy.now == 2)
    clock.offset += 365 * 24 * HOUR_MS
    busy.open.set()
    await engine.ended("orders", 20)
    assert sorted(int(request.body) for request in receiver.received) == list(range(20))


async def test_a_retry_that_a_jump_forward_made_due_goes_out_without_waiting_for_its_old_time(
    database: Path, clock: Jumping, receiver: Receiver
) -> None:
    """The next query of the store finds deliveries that the jump made due; they do not wait for hours."""
    engine = await Engine.start(database, Plan(schedule="2h", clock_ms=clock, sweep=0.2, beat=BEAT))
    receiver.answer = lambda received: 500 if received.attempt == 1 else 200
    engine.registry.put(subscriber("orders", receiver.url))
    await engine.post()
    await until(lambda: len(engine.watcher.settled) == 1)
    clock.offset += 3 * HOUR_MS
    await engine.ended("orders", 1)
    assert len(receiver.received) == 2
    await engine.stop()


async def test_a_jump_backward_stops_no_fresh_event_and_loses_nothing(
    engine: Engine, clock: Jumping, receiver: Receiver
) -> None:
    """New events are sent at once, and a retry waits no longer than the longest delay allows."""
    receiver.answer = lambda received: 500 if received.body == b"retried" and received.attempt == 1 else 200
    engine.registry.put(subscriber("orders", receiver.url))
    await engine.post(body=b"retried")
    await until(lambda: len(engine.watcher.settled) == 1)
    clock.offset -= HOUR_MS
    await engine.post(body=b"fresh")
    await engine.ended("orders", 2)
    assert sorted(received.body for received in receiver.received) == [b"fresh", b"retried", b"retried"]


async def test_a_retry_is_due_now_if_a_jump_backward_put_it_off_beyond_the_longest_delay(
    database: Path, clock: Jumping, receiver: Receiver
) -> None:
    """A clock set back by days delays no retry by days; deliveries of several endpoints are sent."""
    engine = await Engine.start(database, Plan(schedule="1h", clock_ms=clock, sweep=0.2, beat=BEAT))
    receiver.answer = lambda _: 500
    for uid in ("orders", "audit"):
        engine.registry.put(subscriber(uid, receiver.url))
    await engine.post_many(3)
    await until(lambda: len(engine.watcher.settled) == 6)
    receiver.answer = lambda _: 200
    clock.offset -= 72 * HOUR_MS
    for uid in ("orders", "audit"):
        await engine.ended(uid, 3)
    assert len(receiver.received) == 12
    await engine.stop()


async def test_a_retry_keeps_its_time_while_the_schedule_allows_it(
    database: Path, clock: Jumping, receiver: Receiver
) -> None:
    """A receiver may ask for the double of the last delay, so this time is not too late; a minute more is tolerated."""
    engine = await Engine.start(database, Plan(schedule="1h", clock_ms=clock, sweep=0.1, beat=BEAT))
    receiver.answer = lambda _: 500
    engine.registry.put(subscriber("orders", receiver.url))
    await engine.post()
    await until(lambda: len(engine.watcher.settled) == 1)
    [before] = await engine.log("orders")
    clock.offset -= HOUR_MS
    await asyncio.sleep(0.5)
    assert await engine.log("orders") == [before]
    clock.offset -= 2 * MINUTE_MS
    await until(lambda: len(receiver.received) == 2)
    await engine.stop()


async def test_a_backlog_that_was_due_is_not_put_off_by_a_jump_backward(
    database: Path, clock: Jumping, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backlog is due again soon, also if it has more deliveries than one step changes."""
    monkeypatch.setattr(claimer, "_HASTENED_AT_ONCE", 20)
    engine = await Engine.start(database, Plan(lease_ms=60_000, window=8, clock_ms=clock, sweep=0.5))
    receiver.answer = busy = Busy()
    engine.registry.put(subscriber("orders", receiver.url, timeout=20, max_in_flight=2))
    event = IncomingEvent(None, "delivered", "m-1", b"{}")
    await engine.events.accept("acme", "billing", [event] * 60)
    await engine.events.accept("acme", "billing", [event] * 30)
    clock.offset -= HOUR_MS
    busy.open.set()
    await engine.ended("orders", 90)
    assert len(receiver.received) == 90
    await engine.stop()


async def test_a_backlog_outlives_a_clock_that_jumps_back_and_forth(
    engine: Engine, clock: Jumping, receiver: Receiver
) -> None:
    """Every event arrives exactly once, however often the clock jumps during a backlog."""
    engine.registry.put(subscriber("orders", receiver.url, max_in_flight=4))
    receiver.answer = busy = Busy()
    # The jump comes at once, because the receiver holds the first attempts until all have arrived.
    events = [IncomingEvent(None, "delivered", "m-1", str(number).encode()) for number in range(100)]
    await engine.events.accept("acme", "billing", events)
    busy.open.set()
    for minutes in (5, -10, 60, -55):
        clock.offset += minutes * MINUTE_MS
        await asyncio.sleep(0.05)
    clock.offset = 0
    await engine.ended("orders", 100)
    assert sorted(int(request.body) for request in receiver.received) == list(range(100))
