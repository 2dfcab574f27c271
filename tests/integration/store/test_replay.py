"""A replay sends failed deliveries again, in the order of age, a limited number at a time."""

import asyncio

import pytest
from integration.store.conftest import Open
from support.store_factories import Clock, accept_one, claimed_ids, event, settlement, state_of

from hookwright_operator.store.records import Counts, NewDelivery, ReplayState, State
from hookwright_operator.store.sql import replay
from hookwright_operator.store.store import Store


async def failed(store: Store, clock: Clock, number: int = 1, *, uid: str = "orders") -> list[NewDelivery]:
    """Store deliveries that failed one after the other, a millisecond apart."""
    deliveries = []
    for _ in range(number):
        delivery = await accept_one(store, claimed=True, uid=uid)
        await store.settle([settlement(delivery, State.FAILED, status=500)])
        clock.advance(1)
        deliveries.append(delivery)
    return deliveries


async def states(store: Store, deliveries: list[NewDelivery]) -> list[State]:
    """Return the state of each delivery."""
    return [await state_of(store, delivery.id) for delivery in deliveries]


async def test_what_failed_within_the_time_becomes_pending_and_nothing_else(store: Store, clock: Clock) -> None:
    """Both ends of the time range count. No delivery outside, of another endpoint or delivered changes."""
    since = clock.now + 1
    orders, [other] = await failed(store, clock, 4), await failed(store, clock, uid="audit")
    delivered = await accept_one(store, claimed=True)
    await store.settle([settlement(delivered, State.DELIVERED)])

    job = await store.begin_replay("rec_1", "orders", since_ms=since, until_ms=since + 1)
    assert (job.state, job.total, job.done, job.begun_ms) == (ReplayState.RUNNING, 2, 0, clock.now)
    assert await store.advance_replay("rec_1", limit=10) == 2

    assert await states(store, orders) == [State.FAILED, State.PENDING, State.PENDING, State.FAILED]
    assert await states(store, [other, delivered]) == [State.FAILED, State.DELIVERED]
    assert (await store.counts())["orders"] == Counts(2, 1, 2, 0, 1_800_000_000_000, 200)
    told = await store.replay("rec_1")
    assert told is not None
    assert (told.state, told.total, told.done, told.ended_ms) == (ReplayState.COMPLETED, 2, 2, clock.now)


async def test_the_beginning_counts_a_bounded_number(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count runs beside all writers, so it ends at a bound, and the replay says so."""
    monkeypatch.setattr(replay, "MOST_COUNTED", 2)
    await failed(store, clock, 3)
    job = await store.begin_replay("rec_1", "orders", since_ms=0)
    assert (job.total, job.total_is_exact) == (2, False)


async def test_a_recovered_delivery_starts_its_schedule_anew(store: Store, clock: Clock) -> None:
    """A replayed delivery is due now with a new retry schedule, and its next attempt continues the numbers."""
    [delivery] = await failed(store, clock)
    clock.advance(60_000)
    await store.begin_replay("rec_1", "orders", since_ms=0)
    await store.advance_replay("rec_1", limit=1)

    assert await store.next_due() == {"orders": clock.now}
    [claimed] = await store.claim([("orders", 1)])
    assert (claimed.id, claimed.attempts) == (delivery.id, 0)
    await store.settle([settlement(claimed, State.DELIVERED)])
    record = await store.delivery(delivery.id)
    assert record is not None
    assert [attempt.number for attempt in record.attempts] == [1, 2]


async def test_the_longest_failed_come_first_and_a_batch_at_a_time(store: Store, clock: Clock) -> None:
    """A replay makes deliveries due up to the limit; the next step waits until half of them are gone."""
    orders = await failed(store, clock, 6)
    await store.begin_replay("rec_1", "orders", since_ms=0)

    assert await store.advance_replay("rec_1", limit=4) == 4
    assert await states(store, orders) == [State.PENDING] * 4 + [State.FAILED] * 2
    assert await store.advance_replay("rec_1", limit=4) == 0
    first = await store.claim([("orders", 1)])
    await store.settle([settlement(first[0], State.DELIVERED)])
    assert await store.advance_replay("rec_1", limit=4) == 0
    second = await store.claim([("orders", 1)])
    await store.settle([settlement(second[0], State.PENDING, due_ms=clock.now + 1)])
    assert await store.advance_replay("rec_1", limit=4) == 2

    assert [first[0].id, second[0].id] == [delivery.id for delivery in orders[:2]]
    assert await claimed_ids(store) == [delivery.id for delivery in orders[2:]]


async def test_a_backlog_of_fresh_events_goes_first(store: Store, clock: Clock) -> None:
    """An endpoint that cannot keep up gets no old deliveries, and its replay stays open."""
    await failed(store, clock, 3)
    await store.accept([event(*["orders"] * 5)])
    await store.begin_replay("rec_1", "orders", since_ms=0)

    assert await store.advance_replay("rec_1", limit=4) == 0

    [running] = await store.running_replays()
    assert (running.id, running.total, running.done) == ("rec_1", 3, 0)


async def test_what_fails_again_is_not_recovered_twice(store: Store, clock: Clock) -> None:
    """A replay ends even if every delivery fails again, also while the clock does not advance."""
    [delivery] = await failed(store, clock)
    clock.now -= 1
    await store.begin_replay("rec_1", "orders", since_ms=0)
    for recovered in (1, 0):
        assert await store.advance_replay("rec_1", limit=1) == recovered
        for claimed in await store.claim([("orders", 1)]):
            await store.settle([settlement(claimed, State.FAILED)])

    assert await state_of(store, delivery.id) == State.FAILED
    assert await store.running_replays() == []


async def test_one_recovery_runs_for_an_endpoint_at_a_time(store: Store, neighbour: Store, clock: Clock) -> None:
    """A second replay of an endpoint returns the first one, on every replica; other endpoints have their own."""
    await failed(store, clock)
    first = await neighbour.begin_replay("rec_1", "orders", since_ms=0)

    assert await store.begin_replay("rec_2", "orders", since_ms=5) == first
    assert (await store.begin_replay("rec_3", "audit", since_ms=0)).id == "rec_3"
    assert await store.replay("rec_2") is None

    await store.advance_replay("rec_1", limit=10)
    assert (await store.begin_replay("rec_2", "orders", since_ms=0)).id == "rec_2"


async def test_recoveries_that_are_advanced_from_two_sides_do_everything_once(
    store: Store, neighbour: Store, clock: Clock
) -> None:
    """Each failed delivery becomes pending once, and is counted once."""
    await failed(store, clock, 10)
    await store.begin_replay("rec_1", "orders", since_ms=0)

    moved = await asyncio.gather(*[one.advance_replay("rec_1", limit=20) for one in (store, neighbour) * 3])

    assert sum(moved) == 10
    assert await store.counts_of("orders") == Counts(10, 0, 0, 0, 1_800_000_000_000, 500)


async def test_a_recovery_goes_on_where_it_was_after_a_restart(open_store: Open, clock: Clock) -> None:
    """The progress of a replay is in the database."""
    store = await open_store()
    orders = await failed(store, clock, 3)
    await store.begin_replay("rec_1", "orders", since_ms=0)
    await store.advance_replay("rec_1", limit=2)
    await store.close()

    store = await open_store()
    [job] = await store.running_replays()
    assert (job.id, job.done, job.total) == ("rec_1", 2, 3)
    for claimed in await store.claim([("orders", 2)]):
        await store.settle([settlement(claimed, State.DELIVERED)])
    assert await store.advance_replay(job.id, limit=2) == 1

    assert await states(store, orders) == [State.DELIVERED, State.DELIVERED, State.PENDING]


async def test_a_deleted_endpoints_recovery_ends(store: Store, clock: Clock) -> None:
    """The replay is cancelled, its pending deliveries are discarded, and the rest stays failed."""
    orders = await failed(store, clock, 3)
    await store.begin_replay("rec_1", "orders", since_ms=0)
    await store.advance_replay("rec_1", limit=2)

    assert await store.discard("orders", "endpoint deleted") == 2

    assert await store.advance_replay("rec_1", limit=2) == 0
    told = await store.replay("rec_1")
    assert told is not None
    assert (told.state, told.done, told.ended_ms) == (ReplayState.CANCELLED, 2, clock.now)
    assert await states(store, orders) == [State.DISCARDED, State.DISCARDED, State.FAILED]
    assert await store.counts_of("orders") == Counts(0, 0, 1, 2, 1_800_000_000_000, 500)


async def test_a_recovery_of_nothing_completes(store: Store) -> None:
    """The first step completes an empty replay; a step of an unknown replay does nothing."""
    assert (await store.begin_replay("rec_1", "orders", since_ms=0)).total == 0
    assert await store.advance_replay("rec_1", limit=1) == 0
    assert await store.advance_replay("rec_unknown", limit=1) == 0

    assert await store.running_replays() == []
    assert await store.replay("rec_unknown") is None
