"""Deliveries are discarded with their endpoint, and pruned by age."""

import asyncio
from pathlib import Path

import pytest
from support.store_factories import (
    Clock,
    Observed,
    accept_one,
    all_rows,
    claimed_ids,
    event,
    failures_of,
    rows_of,
    settlement,
    state_of,
)

from hookwright_operator.store import store as store_module
from hookwright_operator.store.records import Counts, State
from hookwright_operator.store.sql import read
from hookwright_operator.store.sql.accept import DEDUPE_WINDOW_MS
from hookwright_operator.store.store import Store

EMPTY = {"attempts": 0, "deliveries": 0, "event_ids": 0, "events": 0}


@pytest.mark.both_engines
async def test_discarding_ends_all_that_is_pending_and_nothing_else(store: Store) -> None:
    """All pending deliveries of the endpoint are discarded with the reason; other endpoints keep theirs."""
    success = await accept_one(store, claimed=True)
    await store.settle([settlement(success, State.DELIVERED)])
    waiting, in_flight = await accept_one(store), await accept_one(store, claimed=True)
    second = await accept_one(store, uid="audit")

    assert await store.discard("orders", "endpoint deleted") == 2

    for delivery in (waiting, in_flight):
        record = await store.read_log(read.delivery, delivery.id)
        assert record is not None
        assert (record.state, record.reason) == (State.DISCARDED, "endpoint deleted")
    assert await state_of(store, success.id) == State.DELIVERED
    assert await state_of(store, second.id) == State.PENDING
    assert await claimed_ids(store) == []
    counts = await store.read(read.counts_of, "orders")
    assert (counts.pending, counts.delivered, counts.discarded) == (0, 1, 2)
    assert await store.discard("orders", "endpoint deleted") == 0


async def test_an_expired_endpoint_keeps_its_place_in_the_store(store: Store) -> None:
    """Its pending deliveries are discarded, its counters stay, and it can get deliveries again."""
    end = await accept_one(store)
    assert await store.discard("orders", "endpoint expired", is_deleted=False) == 1
    record = await store.read_log(read.delivery, end.id)
    assert record is not None
    assert (record.state, record.reason) == (State.DISCARDED, "endpoint expired")
    later = await accept_one(store)
    await store.prune(delivered_before_ms=2**62, failed_before_ms=2**62, limit=100)
    assert await state_of(store, later.id) == State.PENDING
    assert await store.read(read.counts_of, "orders") == Counts(pending=1, discarded=1)


async def test_discarding_a_long_backlog_lets_others_in_between(store: Store, observed: Observed) -> None:
    """A discard runs in several transactions, and an event accepted meanwhile does not wait for its end."""
    backlog = 3 * store_module.DISCARD_BATCH
    await store.accept([event(*["orders"] * backlog)])
    observed.operations.clear()

    discarding = asyncio.create_task(store.discard("orders", "endpoint deleted"))
    await asyncio.sleep(0)
    await accept_one(store, uid="audit")

    assert not discarding.done()
    assert await discarding == backlog
    assert observed.operations.count("discard") >= 3
    assert await store.read(read.counts_of, "orders") == Counts(discarded=backlog)


async def _ended(store: Store, state: State) -> str:
    delivery = await accept_one(store, claimed=True)
    await store.settle([settlement(delivery, state)])
    return delivery.id


@pytest.mark.both_engines
async def test_old_deliveries_go_with_all_that_hangs_on_them(store: Store, clock: Clock) -> None:
    """After all deliveries of an event are removed, so are its attempts, body and finally its id; the counts stay."""
    new = event("orders", "audit", event_id="e-1", claimed=True)
    await store.accept([new])
    orders, audit = new.deliveries
    await store.settle([settlement(orders, State.DELIVERED)])
    clock.advance(DEDUPE_WINDOW_MS)

    removal = [await store.prune(delivered_before_ms=clock.now, failed_before_ms=0, limit=10) for _ in range(2)]

    assert removal == [3, 0]  # a delivery, its attempt, and the event's id
    assert await rows_of(store, "events") == 1
    assert await state_of(store, audit.id) == State.PENDING
    await store.settle([settlement(audit, State.DELIVERED)])
    assert await store.prune(delivered_before_ms=clock.now + 1, failed_before_ms=0, limit=10) == 3
    assert (await all_rows(store)).items() >= EMPTY.items()
    assert (await store.read(read.counts_of, "orders")).delivered == 1


async def test_failed_and_delivered_deliveries_have_ages_of_their_own(store: Store, clock: Clock) -> None:
    """The age counts from the end of a delivery; pending deliveries are never removed."""
    pending = (await accept_one(store)).id
    discard_id = (await accept_one(store, uid="gone")).id
    await store.discard("gone", "endpoint deleted")
    success, failure = await _ended(store, State.DELIVERED), await _ended(store, State.FAILED)
    clock.advance(1000)
    younger = await _ended(store, State.DELIVERED)

    await store.prune(delivered_before_ms=clock.now, failed_before_ms=clock.now - 1000, limit=10)
    assert await store.read_log(read.delivery, success) is None
    assert await store.read_log(read.delivery, discard_id) is None
    assert await state_of(store, failure) == State.FAILED

    await store.prune(delivered_before_ms=clock.now, failed_before_ms=clock.now, limit=10)
    assert await store.read_log(read.delivery, failure) is None
    assert await state_of(store, younger) == State.DELIVERED
    assert await state_of(store, pending) == State.PENDING


async def test_a_delivery_goes_by_its_own_age(store: Store, clock: Clock) -> None:
    """A late delivery is kept as long as one that was accepted with it and delivered at once."""
    early, late = await accept_one(store, claimed=True), await accept_one(store, claimed=True)
    await store.settle([settlement(early, State.DELIVERED)])
    clock.advance(1000)
    await store.settle([settlement(late, State.DELIVERED)])

    await store.prune(delivered_before_ms=clock.now, failed_before_ms=0, limit=10)
    assert await store.read_log(read.delivery, early.id) is None
    assert await state_of(store, late.id) == State.DELIVERED

    await store.prune(delivered_before_ms=clock.now + 1, failed_before_ms=0, limit=10)
    assert await store.read_log(read.delivery, late.id) is None


async def test_a_delivery_that_ended_twice_goes_by_its_last_end(store: Store, clock: Clock) -> None:
    """A delivery that was delivered, retried by hand and failed is kept as long as a failed one."""
    delivery = await accept_one(store, claimed=True)
    await store.settle([settlement(delivery, State.DELIVERED)])
    await store.retry(delivery.id)
    [again] = await store.claim([("orders", 1)])
    clock.advance(1000)
    await store.settle([settlement(again, State.FAILED)])
    clock.advance(1)

    await store.prune(delivered_before_ms=clock.now, failed_before_ms=clock.now - 1000, limit=10)
    assert await state_of(store, delivery.id) == State.FAILED

    await store.prune(delivered_before_ms=clock.now, failed_before_ms=clock.now, limit=10)
    assert await store.read_log(read.delivery, delivery.id) is None


async def test_pruning_goes_in_batches_until_nothing_is_left(store: Store, clock: Clock) -> None:
    """One call removes at most the limit of deliveries."""
    new = event(*["orders"] * 25, claimed=True)
    await store.accept([new])
    await store.settle([settlement(delivery, State.DELIVERED) for delivery in new.deliveries])
    clock.advance(1)

    batches = []
    while batch := await store.prune(delivered_before_ms=clock.now, failed_before_ms=clock.now, limit=10):
        batches.append(batch)

    assert batches == [20, 20, 11]  # each delivery with its attempt, and finally the event
    assert (await all_rows(store)).items() >= EMPTY.items()


async def test_event_ids_within_the_window_are_not_pruned(store: Store, clock: Clock) -> None:
    """A duplicate is detected for 24 hours, even if the first event's deliveries were removed."""
    await store.accept([event(event_id="e-1")])
    clock.advance(DEDUPE_WINDOW_MS - 1)

    assert await store.prune(delivered_before_ms=clock.now, failed_before_ms=clock.now, limit=10) == 0
    assert (await store.accept([event(event_id="e-1")])).accepted == 0


async def test_a_delivery_retried_by_hand_is_safe_from_pruning(store: Store, clock: Clock) -> None:
    """A delivery that is pending again is not removed by age."""
    delivery_id = await _ended(store, State.FAILED)
    clock.advance(1000)
    await store.retry(delivery_id)

    await store.prune(delivered_before_ms=clock.now, failed_before_ms=clock.now, limit=10)

    assert await state_of(store, delivery_id) == State.PENDING


async def test_a_deleted_endpoint_is_forgotten_with_its_last_delivery(store: Store, clock: Clock) -> None:
    """Counters and replays of a deleted endpoint are removed with its last delivery; those of others stay."""
    for uid in ("orders", "kept"):
        delivery = await accept_one(store, claimed=True, uid=uid)
        await store.settle([settlement(delivery, State.FAILED)])
        await store.chosen_replays.begin(f"rec_{uid}", failures_of(uid))
    await store.discard("orders", "endpoint deleted")
    clock.advance(1)

    assert await store.prune(delivered_before_ms=0, failed_before_ms=0, limit=10) == 0
    assert (await store.read(read.counts)).keys() == {"orders", "kept"}
    while await store.prune(delivered_before_ms=clock.now, failed_before_ms=clock.now, limit=10):
        pass

    assert (await store.read(read.counts)).keys() == {"kept"}
    assert [job.endpoint_uid for job in await store.running_replays()] == ["kept"]
    assert await store.replay("rec_orders") is None
    assert await rows_of(store, "gone_endpoints") == 0


async def test_ended_replays_go_with_age(store: Store, clock: Clock) -> None:
    """Replays are removed at the age of failed deliveries; a running replay is never removed."""
    for uid in ("orders", "audit"):
        await store.chosen_replays.begin(f"rec_{uid}", failures_of(uid))
    await store.chosen_replays.advance("rec_orders", limit=1)
    clock.advance(1)

    assert await store.prune(delivered_before_ms=clock.now, failed_before_ms=clock.now, limit=10) == 1

    assert await store.replay("rec_orders") is None
    assert await store.replay("rec_audit") is not None


async def prunes(store: Store, *, limit: int, before_ms: int = 0) -> int:
    """Prune once, and return how many deleted endpoints are left."""
    await store.prune(delivered_before_ms=before_ms, failed_before_ms=before_ms, limit=limit)
    return await rows_of(store, "gone_endpoints")


async def test_each_prune_examines_a_few_deleted_endpoints(store: Store, clock: Clock) -> None:
    """Endpoints with deliveries do not stop the removal of later ones; after the last one, it starts over."""
    for number in range(10):
        await accept_one(store, uid=f"a-{number}")
        await store.discard(f"a-{number}", "endpoint deleted")
    for number in range(7):
        await store.discard(f"b-{number}", "endpoint deleted")

    remainder = [await prunes(store, limit=5) for _ in range(4)]

    assert remainder == [17, 17, 12, 10]
    clock.advance(1)
    remainder = [await prunes(store, limit=11, before_ms=clock.now) for _ in range(2)]
    assert remainder == [0, 0]
    assert await store.read(read.counts) == {}


async def test_the_removal_of_large_bodies_writes_little_on_sqlite(tmp_path: Path) -> None:
    """By default, Debian's SQLite fills freed pages with zeros: 100 large bodies took 0.4 s."""
    path, clock = tmp_path / "deliveries.db", Clock()
    store = await Store.open(f"sqlite:///{path}", instance="test", lease_ms=60_000, clock=clock)
    large = [event("orders", "audit")._replace(body=b"x" * 262_144) for _ in range(20)]
    await store.accept(large)
    while claims := await store.claim([("orders", 20), ("audit", 20)]):
        await store.settle([settlement(delivery, State.DELIVERED) for delivery in claims])
    assert await store.transactions.read("test", lambda one: one.exec_driver_sql("PRAGMA secure_delete").scalar()) == 2
    log = path.with_name(f"{path.name}-wal")
    before = log.stat().st_size
    clock.advance(1)
    assert await store.prune(delivered_before_ms=clock.now, failed_before_ms=0, limit=100) >= 20
    assert (await all_rows(store)).items() >= EMPTY.items()
    assert log.stat().st_size - before < 2_000_000
    await store.close()
