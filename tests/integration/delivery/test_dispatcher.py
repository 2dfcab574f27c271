"""The delivery loops: bounds, order, retries, claim leases, and a stop that loses nothing."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from integration.delivery.conftest import Start
from sqlalchemy import select
from support.dispatcher import Busy, Engine, Plan, bodies, locked, open_store, subscriber
from support.polling import until
from support.store_factories import accept_one

from hookwright_dev.receiver import Receiver
from hookwright_operator.store.records import State
from hookwright_operator.store.schema import deliveries
from hookwright_runtime.errors import StoreUnavailable


async def owners(engine: Engine) -> set[str | None]:
    """Return the replicas that have claims on pending deliveries."""
    pending = select(deliveries.c.owner).where(deliveries.c.state == "pending")
    return set(await engine.store.transactions.read("test", lambda connection: list(connection.scalars(pending))))


def held(engine: Engine, uid: str) -> int:
    """Return how many deliveries the engine has in memory for an endpoint."""
    return engine.dispatcher.queues.by_uid[uid].held


async def test_an_event_goes_from_its_commit_straight_to_its_endpoint(start: Start, receiver: Receiver) -> None:
    """An accepted event that fits into memory is delivered without reading it back, and its attempt is recorded."""
    engine = await start()
    engine.registry.put(subscriber("orders", receiver.url))
    result = await engine.post(body=b"1")
    await engine.ended("orders", 1)
    assert (result.accepted, result.deliveries) == (1, 1)
    [record] = await engine.log("orders")
    assert record.state is State.DELIVERED
    assert [attempt.status_code for attempt in record.attempts] == [200]
    assert receiver.received[0].id == record.event_id


async def test_what_exceeds_the_window_stays_in_the_store_and_comes_in_order(start: Start, receiver: Receiver) -> None:
    """Memory is bounded for every endpoint; deliveries in the store only are delivered in order of age."""
    engine = await start(Plan(window=4))
    receiver.answer = busy = Busy()
    engine.registry.put(subscriber("orders", receiver.url, max_in_flight=1))
    await engine.post_many(40)
    assert held(engine, "orders") == 4
    busy.open.set()
    await engine.ended("orders", 40)
    assert bodies(receiver) == list(range(40))


async def test_a_claim_begins_although_the_read_after_it_failed(
    start: Start, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that got less than it asked for reads when more is due; its deliveries do not wait for that answer."""
    hour = 3600
    engine = await start(Plan(lease_ms=hour * 1000, sweep=hour, beat=hour))
    engine.registry.put(subscriber("orders", receiver.url))
    await until(lambda: engine.at_rest)
    next_due, faults = engine.store.next_due, [StoreUnavailable("disk full")]

    async def fails_once(uids: Sequence[str] | None = None) -> dict[str, int]:
        if uids is not None and faults:
            raise faults.pop()
        return await next_due(uids)

    monkeypatch.setattr(engine.store, "next_due", fails_once)
    await accept_one(engine.store)
    engine.dispatcher.waiting("orders")
    await engine.ended("orders", 1)
    assert not faults


async def test_nothing_new_begins_while_results_cannot_be_stored(
    start: Start, receiver: Receiver, database: Path
) -> None:
    """A crash repeats attempts without a stored result, so none begins while the store refuses results."""
    engine = await start(Plan(), await open_store(database, Plan(), patience=0.05))
    engine.registry.put(subscriber("orders", receiver.url, max_in_flight=2))
    receiver.answer = busy = Busy()
    await engine.post_many(40)
    await until(lambda: busy.now == 2)
    async with locked(database):
        busy.open.set()
        queue = engine.dispatcher.queues.by_uid["orders"]
        await until(lambda: queue.refused > 0 and queue.in_flight == 0)
        count = len(receiver.received)
        await asyncio.sleep(0.4)  # several refused transactions
        assert len(receiver.received) == count < 40
    await engine.ended("orders", 40)
    assert len(receiver.received) == 40


async def test_results_wait_for_a_store_that_is_away_and_nothing_is_sent_twice(
    start: Start, receiver: Receiver, database: Path
) -> None:
    """If the store fails during settling, a live process keeps its results and stores them later."""
    engine = await start(Plan(), await open_store(database, Plan(), patience=0.05))
    engine.registry.put(subscriber("orders", receiver.url))
    receiver.answer = busy = Busy()
    await engine.post_many(8)
    await until(lambda: busy.now == 8)
    async with locked(database):
        busy.open.set()
        await until(lambda: busy.now == 0)
        await asyncio.sleep(0.4)  # several refused transactions
        assert (await engine.counts("orders")).delivered == 0
    await engine.ended("orders", 8)
    assert sorted(bodies(receiver)) == list(range(8))
    assert all(len(record.attempts) == 1 for record in await engine.log("orders"))


async def test_a_failed_attempt_is_repeated_by_the_schedule_and_every_attempt_recorded(
    start: Start, receiver: Receiver
) -> None:
    """The same message is sent again after each delay, counted from the failed attempt, until the delivery fails."""
    engine = await start(Plan(schedule="150ms,300ms"))
    receiver.answer = lambda _: 500
    engine.registry.put(subscriber("orders", receiver.url))
    await engine.post()
    await engine.ended("orders", 1)
    [record] = await engine.log("orders")
    assert record.state is State.FAILED
    assert [(attempt.number, attempt.status_code) for attempt in record.attempts] == [(1, 500), (2, 500), (3, 500)]
    starts = [attempt.started_ms for attempt in record.attempts]
    assert starts[1] - starts[0] >= 150
    assert starts[2] - starts[1] >= 300
    assert {request.id for request in receiver.received} == {record.event_id}


async def test_an_endpoint_that_times_out_pauses_longer_after_each_timeout(start: Start, receiver: Receiver) -> None:
    """The pause is a random part of a limit that doubles, here the whole limit; the first success ends the series."""
    engine = await start(Plan(schedule="1ms,1ms,1ms,1ms", jitter=lambda: 1.0))
    receiver.answer = lambda received: 200 if received.attempt == 5 else Busy()(received)
    engine.registry.put(subscriber("orders", receiver.url, timeout=0.5, max_in_flight=1))
    await engine.post()
    await engine.ended("orders", 1)
    [record] = await engine.log("orders")
    assert record.state is State.DELIVERED
    pauses_ms = [
        later.started_ms - earlier.started_ms - earlier.duration_ms for earlier, later in pairwise(record.attempts)
    ]
    rounding_ms = 10
    assert [pause > limit - rounding_ms for pause, limit in zip(pauses_ms, (250, 500, 1000, 2000), strict=True)] == [
        True
    ] * 4, pauses_ms
    assert engine.dispatcher.queues.by_uid["orders"].limited_to is None


async def test_a_sooner_retry_is_not_held_up_by_a_later_one(start: Start, receiver: Receiver) -> None:
    """The timer fires at the earliest due time of all endpoints."""
    engine = await start(Plan(schedule="100ms,1h"))
    receiver.answer = lambda received: 200 if received.body == b"soon" and received.attempt > 1 else 500
    for uid in ("late", "soon"):
        engine.registry.put(subscriber(uid, receiver.url, events=frozenset({uid})))
    await engine.post("late", body=b"late")
    await receiver.wait_for(2)
    await engine.post("soon", body=b"soon")
    await engine.ended("soon", 1)
    assert (await engine.counts("late")).pending == 1


async def test_a_repeated_event_delivers_nothing_and_leaves_no_place_taken(start: Start, receiver: Receiver) -> None:
    """A repeated event releases its reserved place in memory."""
    engine = await start(Plan(window=2))
    engine.registry.put(subscriber("orders", receiver.url))
    await engine.post(event_id="one")
    await engine.ended("orders", 1)
    for _ in range(5):
        assert (await engine.post(event_id="one")).duplicates == 1
    await until(lambda: held(engine, "orders") == 0)
    assert engine.dispatcher.queues.memory.used == 0
    assert len(receiver.received) == 1


async def test_an_event_that_could_not_be_stored_leaves_no_place_taken(
    start: Start, receiver: Receiver, database: Path
) -> None:
    """An event that the store refused releases its reserved place."""
    engine = await start(Plan(), await open_store(database, Plan(), patience=0.05))
    engine.registry.put(subscriber("orders", receiver.url))
    async with locked(database):
        with pytest.raises(Exception, match="locked"):
            await engine.post(body=b"1")
    assert held(engine, "orders") == 0
    assert engine.dispatcher.queues.memory.used == 0
    await engine.post(body=b"2")
    await engine.ended("orders", 1)
    assert bodies(receiver) == [2]


async def test_a_caller_that_hangs_up_leaves_its_event_delivered(start: Start, receiver: Receiver) -> None:
    """If the producer disconnects during the write, the event is delivered once and its claim is not orphaned."""
    engine = await start()
    engine.registry.put(subscriber("orders", receiver.url))
    posting = asyncio.create_task(engine.post())
    await asyncio.sleep(0)
    posting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await posting
    await engine.ended("orders", 1)
    assert len(receiver.received) == 1


async def test_a_changed_endpoint_counts_from_the_next_attempt(start: Start, receiver: Receiver) -> None:
    """A new URL is used at once, also for retries of older events and of a type that the endpoint no longer has."""
    engine = await start()
    async with Receiver() as second_receiver:
        receiver.answer = lambda _: 500
        endpoint = subscriber("orders", receiver.url)
        engine.registry.put(endpoint)
        await engine.post()
        await receiver.wait_for(1)
        engine.registry.put(replace(endpoint, url=second_receiver.url, events=frozenset({"bounced"})))
        await second_receiver.wait_for(1)
        assert second_receiver.received[0].id == receiver.received[0].id


async def test_a_deleted_endpoint_gets_nothing_more(start: Start, receiver: Receiver) -> None:
    """The attempt under way ends; no delivery from memory or from the store follows."""
    engine = await start(Plan(window=4))
    receiver.answer = busy = Busy()
    engine.registry.put(subscriber("orders", receiver.url, max_in_flight=1))
    await engine.post_many(10)
    await until(lambda: busy.now == 1)
    engine.registry.remove("orders")
    busy.open.set()
    await engine.store.discard("orders", "endpoint deleted")
    await until(lambda: engine.at_rest)
    assert len(receiver.received) == 1
    assert await owners(engine) == set()


async def test_an_event_for_an_endpoint_that_goes_meanwhile_is_discarded(start: Start, receiver: Receiver) -> None:
    """No delivery stays pending for an endpoint that was deleted during the write of the event."""
    engine = await start()
    engine.registry.put(subscriber("orders", receiver.url))
    posting = asyncio.create_task(engine.post())
    await asyncio.sleep(0)
    engine.registry.remove("orders")
    await posting
    counts = await engine.counts("orders")
    assert (counts.pending, counts.discarded) == (0, 1)
    assert engine.dispatcher.queues.memory.used == 0


async def test_an_endpoint_that_comes_back_is_served_where_it_stood(start: Start, receiver: Receiver) -> None:
    """Pending deliveries are claimed when their endpoint appears, also the second time."""
    engine = await start(Plan(schedule="300ms", sweep=0.1))
    receiver.answer = lambda received: 500 if received.attempt == 1 else 200
    endpoint = subscriber("orders", receiver.url)
    engine.registry.put(endpoint)
    await engine.post()
    await until(lambda: len(engine.watcher.settled) == 1)
    engine.registry.remove("orders")
    engine.registry.put(endpoint)
    await engine.ended("orders", 1)
    assert len(receiver.received) == 2


async def test_what_waits_from_before_is_taken_up_when_its_endpoint_appears(
    start: Start, receiver: Receiver, database: Path
) -> None:
    """After a restart, deliveries continue when reconciling has registered their endpoints."""
    before = await Engine.start(database)
    before.registry.put(subscriber("orders", receiver.url, suspend=True))
    await before.post_many(10)
    await before.stop()
    engine = await start()
    engine.registry.put(subscriber("orders", receiver.url, max_in_flight=1))
    await engine.ended("orders", 10)
    assert bodies(receiver) == list(range(10))


async def test_a_lifted_rate_limit_counts_at_once(start: Start, receiver: Receiver) -> None:
    """A pause of the old rate limit ends at once."""
    engine = await start()
    endpoint = subscriber("orders", receiver.url, per_minute=1)
    engine.registry.put(endpoint)
    await engine.post_many(5)
    await receiver.wait_for(1)
    engine.registry.put(replace(endpoint, per_minute=None))
    await engine.ended("orders", 5)


async def test_full_memory_lets_every_endpoint_go_on(start: Start, receiver: Receiver) -> None:
    """If endpoints that hang fill the memory, the other endpoints are served from the store."""
    engine = await start(Plan(memory=40_000))
    async with Receiver() as hanging:
        hanging.answer = busy = Busy()
        engine.registry.put(subscriber("hanging", hanging.url, events=frozenset({"opened"})))
        for _ in range(60):
            await engine.post("opened", body=b"x" * 1000)
        await until(lambda: busy.now == 8)
        assert engine.dispatcher.queues.memory.used <= 41_000
        engine.registry.put(subscriber("orders", receiver.url))
        await engine.post_many(30)
        await engine.ended("orders", 30)
        busy.open.set()
        await engine.ended("hanging", 60)
        await until(lambda: engine.dispatcher.queues.memory.used == 0)


async def test_draining_finishes_attempts_and_gives_back_the_rest(start: Start, receiver: Receiver) -> None:
    """Attempts under way end and are recorded, nothing new begins, and claims on the rest are released."""
    engine = await start()
    receiver.answer = busy = Busy()
    engine.registry.put(subscriber("orders", receiver.url, max_in_flight=2))
    await engine.post_many(6)
    await until(lambda: busy.now == 2)
    draining = asyncio.create_task(engine.dispatcher.drain(5))
    await asyncio.sleep(0)
    await engine.post(body=b"6")  # accepted by a request that was under way
    busy.open.set()
    await draining
    counts = await engine.counts("orders")
    assert (counts.delivered, counts.pending) == (2, 5)
    assert await owners(engine) == {None}
    assert len(receiver.received) == 2


async def test_what_is_accepted_while_draining_is_not_kept(start: Start, receiver: Receiver) -> None:
    """The claim on a delivery that is accepted during the drain is released, too."""
    engine = await start()
    engine.registry.put(subscriber("orders", receiver.url))
    posting = asyncio.create_task(engine.post())
    await asyncio.sleep(0)
    draining = asyncio.create_task(engine.dispatcher.drain(5))
    await asyncio.gather(posting, draining)
    await until(lambda: engine.at_rest)
    assert not receiver.received
    assert await owners(engine) == {None}


async def test_an_attempt_beyond_the_grace_is_cut_short(start: Start, receiver: Receiver) -> None:
    """After the grace period the process ends, and the delivery stays pending."""
    engine = await start()
    receiver.answer = Busy()
    engine.registry.put(subscriber("orders", receiver.url))
    await engine.post()
    await receiver.wait_for(1)
    began = time.monotonic()
    await engine.dispatcher.drain(0.2)
    assert 0.19 <= time.monotonic() - began < 15  # the attempt itself may take 20 s
    assert (await engine.counts("orders")).pending == 1
