"""Attempts are recorded, and deliveries change their state."""

import asyncio
from collections import Counter

import pytest
from support.store_factories import LEASE_MS, Clock, Observed, accept_one, claimed_ids, event, settlement, state_of

from hookwright_operator.store.records import Attempt, Counts, NewDelivery, Settlement, State
from hookwright_operator.store.sql import read
from hookwright_operator.store.store import Store

pytestmark = pytest.mark.both_engines


@pytest.mark.parametrize("state", [State.DELIVERED, State.FAILED])
async def test_an_ended_delivery_is_counted_and_not_claimed_again(store: Store, state: State) -> None:
    """Delivered and failed deliveries leave the backlog and are counted."""
    delivery = await accept_one(store, claimed=True)
    [second] = [await accept_one(store)]

    await store.settle([settlement(delivery, state, status=418)])

    assert await state_of(store, delivery.id) == state
    counts = await store.read(read.counts_of, "orders")
    assert (counts.pending, counts.delivered, counts.failed) == (1, state == State.DELIVERED, state == State.FAILED)
    assert counts.last_status_code == 418
    assert await claimed_ids(store) == [second.id]


async def test_every_attempt_is_recorded_under_its_number(store: Store, clock: Clock) -> None:
    """The log has each attempt with its time, duration, status, error and response, numbered by the store."""
    delivery = await accept_one(store, claimed=True)
    first = Attempt(9, clock.now, 12, 0, "connection refused", "")
    second = Attempt(9, clock.now + 50, 7, 200, "", "thanks")

    await store.settle([Settlement(delivery.id, "orders", first, State.PENDING, clock.now)])
    await claimed_ids(store)
    await store.settle([Settlement(delivery.id, "orders", second, State.DELIVERED)])

    record = await store.read_log(read.delivery, delivery.id)
    assert record is not None
    assert record.attempts == (first._replace(number=1), second._replace(number=2))


async def test_the_latest_attempt_of_an_endpoint_shows_in_its_counts(store: Store, clock: Clock) -> None:
    """Time and status are those of the latest attempt, whatever the order of the settlements is."""
    old, young = [await accept_one(store, claimed=True) for _ in range(2)]

    def at(delivery_id: str, started_ms: int, status: int) -> Settlement:
        return Settlement(delivery_id, "orders", Attempt(1, started_ms, 1, status), State.DELIVERED)

    await store.settle([at(young.id, clock.now + 9, 204)])
    await store.settle([at(old.id, clock.now + 1, 200)])

    counts = await store.read(read.counts_of, "orders")
    assert (counts.last_attempt_ms, counts.last_status_code) == (clock.now + 9, 204)


async def test_a_delivery_discarded_in_flight_stays_discarded_with_its_attempt(store: Store) -> None:
    """An attempt is recorded even if its endpoint was deleted meanwhile, because it was made."""
    delivery = await accept_one(store, claimed=True)
    await store.discard("orders", "endpoint deleted")

    await store.settle([settlement(delivery, State.DELIVERED)])

    record = await store.read_log(read.delivery, delivery.id)
    assert record is not None
    assert (record.state, record.reason, len(record.attempts)) == (State.DISCARDED, "endpoint deleted", 1)
    counts = await store.read(read.counts_of, "orders")
    assert (counts.pending, counts.delivered, counts.discarded) == (0, 0, 1)


async def test_who_lost_the_lease_cannot_move_a_delivery(store: Store, neighbour: Store, clock: Clock) -> None:
    """The late attempt is recorded, but only the new owner can settle the delivery."""
    delivery = await accept_one(neighbour, claimed=True)
    clock.advance(LEASE_MS)
    [claimed] = await store.claim([("orders", 1)])

    await neighbour.settle([settlement(delivery, State.FAILED, status=500)])
    assert await state_of(store, delivery.id) == State.PENDING
    later = Attempt(0, 1_800_000_000_001, 7, 200)
    await store.settle([Settlement(claimed.id, "orders", later, State.DELIVERED)])

    record = await store.read_log(read.delivery, delivery.id)
    assert record is not None
    assert record.state == State.DELIVERED
    assert [(attempt.number, attempt.status_code) for attempt in record.attempts] == [(1, 500), (2, 200)]
    assert await store.read(read.counts_of, "orders") == Counts(0, 1, 0, 0, 1_800_000_000_001, 200)


async def test_an_attempt_for_an_unknown_delivery_is_dropped(store: Store) -> None:
    """Pruning may have removed a delivery; the other deliveries of the call are settled."""
    record = await accept_one(store, claimed=True)
    unknown = event("orders").deliveries[0]

    await store.settle([settlement(unknown, State.DELIVERED), settlement(record, State.DELIVERED)])

    assert await store.read_log(read.delivery, unknown.id) is None
    assert await state_of(store, record.id) == State.DELIVERED


async def test_an_answer_that_is_no_text_is_recorded_without_harm(store: Store) -> None:
    """Characters of a response that a database cannot store are replaced, and the delivery is settled."""
    delivery = await accept_one(store, claimed=True)
    attempt = Attempt(1, 5, 1, 200, "lone \ud800", 'nul\0 "quoted" \\ größe 😀')

    await store.settle([Settlement(delivery.id, "orders", attempt, State.DELIVERED)])

    record = await store.read_log(read.delivery, delivery.id)
    assert record is not None
    assert (record.attempts[0].error, record.attempts[0].response) == ("lone ?", 'nul? "quoted" \\ größe 😀')


async def test_concurrent_settlements_share_a_transaction(store: Store, observed: Observed) -> None:
    """Fifty concurrent results need a few commits."""
    new = event(*["orders"] * 50, claimed=True)
    await store.accept([new])
    before = observed.commits

    await asyncio.gather(*[store.settle([settlement(delivery, State.DELIVERED)]) for delivery in new.deliveries])

    assert await store.read(read.counts_of, "orders") == Counts(0, 50, 0, 0, 1_800_000_000_000, 200)
    assert observed.commits - before <= 3


@pytest.mark.parametrize("number", [4, 33])
async def test_results_of_every_kind_are_settled_in_one_call(
    store: Store, neighbour: Store, clock: Clock, number: int
) -> None:
    """A call may have results of two endpoints, of each state, and of a delivery that another replica claimed."""
    new = event(*["orders", "bills"] * (number // 2), *["orders"] * (number % 2), claimed=True)
    await store.accept([new])
    foreign = await accept_one(neighbour, claimed=True)
    states = [State.DELIVERED, State.FAILED, State.PENDING]
    ends = [states[position % 3] for position in range(number - 1)]

    def result(delivery: NewDelivery, state: State, started_ms: int) -> Settlement:
        attempt = Attempt(0, started_ms, 7, 200 + started_ms % 100, "", "ok")
        return Settlement(delivery.id, delivery.endpoint_uid, attempt, state, clock.now + 5)

    results = [
        result(delivery, state, clock.now + position)
        for position, (delivery, state) in enumerate(zip(new.deliveries, ends, strict=False))
    ]
    await store.settle([result(foreign, State.FAILED, clock.now - 1), *results])

    expected = Counter((delivery.endpoint_uid, state) for delivery, state in zip(new.deliveries, ends, strict=False))
    for uid in ("orders", "bills"):
        counts = await store.read(read.counts_of, uid)
        assert counts.delivered == expected[uid, State.DELIVERED]
        assert counts.failed == expected[uid, State.FAILED]
        latest = max(one.attempt.started_ms for one in results if one.endpoint_uid == uid)
        assert (counts.last_attempt_ms, counts.last_status_code) == (latest, 200 + latest % 100)
    for one in results:
        record = await store.read_log(read.delivery, one.delivery_id)
        assert record is not None
        assert (record.state, record.attempts) == (one.state, (one.attempt._replace(number=1),))
        assert record.due_ms == clock.now + 5 * (one.state is State.PENDING)
    record = await store.read_log(read.delivery, foreign.id)
    assert record is not None
    assert (record.state, len(record.attempts)) == (State.PENDING, 1)


@pytest.mark.parametrize("state", [State.DELIVERED, State.FAILED])
async def test_a_retry_by_hand_starts_the_schedule_anew(store: Store, clock: Clock, state: State) -> None:
    """A retry by hand is due now with a new retry schedule, and its next attempt continues the numbers."""
    delivery = await accept_one(store, claimed=True)
    await store.settle([settlement(delivery, state)])
    clock.advance(60_000)

    assert await store.retry(delivery.id) == state

    assert (await store.read(read.counts_of, "orders")).pending == 1
    assert await store.next_due() == {"orders": clock.now}
    [claimed] = await store.claim([("orders", 1)])
    assert claimed.attempts == 0
    await store.settle([settlement(claimed, State.DELIVERED)])
    record = await store.read_log(read.delivery, delivery.id)
    assert record is not None
    assert [attempt.number for attempt in record.attempts] == [1, 2]
    assert await store.read(read.counts_of, "orders") == Counts(0, 1, 0, 0, 1_800_000_000_000, 200)


async def test_a_retry_changes_nothing_that_is_pending_discarded_or_unknown(store: Store) -> None:
    """The result is the state, or None, and the delivery does not change."""
    pending, discard_id = await accept_one(store, claimed=True), await accept_one(store, uid="gone")
    await store.discard("gone", "endpoint deleted")

    assert await store.retry(pending.id) == State.PENDING
    assert await store.retry(discard_id.id) == State.DISCARDED
    assert await store.retry("dlv_unknown") is None

    assert await claimed_ids(store) == []
    assert await store.read(read.counts) == {"orders": Counts(pending=1), "gone": Counts(discarded=1)}
