"""Events are accepted as a whole and once."""

import asyncio

import pytest
from support.store_factories import Clock, Observed, accept_one, all_rows, claimed_ids, event, ids, rows_of, state_of

from hookwright_operator.store.records import Counts, State
from hookwright_operator.store.sql.accept import DEDUPE_WINDOW_MS
from hookwright_operator.store.store import Store
from hookwright_runtime.errors import StoreError


async def test_accepting_writes_a_pending_delivery_for_each_endpoint(store: Store, clock: Clock) -> None:
    """An event for two endpoints becomes two pending deliveries, due at once, and both endpoints count it."""
    new = event("orders", "audit")

    accepted = await store.accept([new])

    assert (accepted.accepted, accepted.deliveries, accepted.at_ms) == (1, 2, clock.now)
    assert not accepted.duplicate_ids
    assert [await state_of(store, delivery_id) for delivery_id in ids([new])] == [State.PENDING] * 2
    assert await store.next_due() == {"orders": clock.now, "audit": clock.now}
    assert await store.counts() == {"orders": Counts(pending=1), "audit": Counts(pending=1)}


@pytest.mark.parametrize(
    "body",
    [b"", b"\x00\xff not text", b'{"emoji": "\xf0\x9f\x98\x80"}', b"x" * 300_000],
    ids=["empty", "binary", "json", "big"],
)
async def test_a_body_comes_back_as_the_bytes_that_were_accepted(store: Store, body: bytes) -> None:
    """The signed and sent body equals the producer's body byte for byte, also with other bodies in the same call."""
    bodies = [b"before", body, b"after"]
    await store.accept([event("orders", body=each) for each in bodies])

    claimed = await store.claim([("orders", 3)])

    assert [delivery.body for delivery in claimed] == bodies


async def test_a_delivery_accepted_as_claimed_is_not_claimed_again(store: Store, neighbour: Store) -> None:
    """A delivery that a replica sends directly after the commit cannot be claimed by other replicas."""
    await accept_one(store, claimed=True)

    assert await claimed_ids(store) == []
    assert await claimed_ids(neighbour) == []
    assert await store.next_due() == {}


async def test_an_event_id_repeated_within_the_window_is_a_duplicate(store: Store, clock: Clock) -> None:
    """A duplicate is reported, and writes and counts nothing."""
    await store.accept([event("orders", event_id="e-1")])
    before = await all_rows(store)
    clock.advance(DEDUPE_WINDOW_MS - 1)
    repeated = event("orders", event_id="e-1")

    accepted = await store.accept([repeated])

    assert (accepted.accepted, accepted.deliveries) == (0, 0)
    assert accepted.duplicate_ids == {repeated.id}
    assert await all_rows(store) == before
    assert await store.counts_of("orders") == Counts(pending=1)


async def test_an_event_id_counts_as_new_after_the_window(store: Store, clock: Clock) -> None:
    """After 24 hours the id counts as new, and is then kept for another 24 hours."""
    await store.accept([event("orders", event_id="e-1")])
    clock.advance(DEDUPE_WINDOW_MS)

    assert (await store.accept([event("orders", event_id="e-1")])).accepted == 1

    clock.advance(DEDUPE_WINDOW_MS - 1)
    assert (await store.accept([event("orders", event_id="e-1")])).accepted == 0
    assert await rows_of(store, "event_ids") == 1


async def test_a_repetition_within_one_call_is_a_duplicate(store: Store) -> None:
    """Of events with one id in a call, the first counts and the others are duplicates."""
    batch = [event("orders", event_id="e-1"), event("orders", event_id="e-2"), event("orders", event_id="e-1")]

    accepted = await store.accept(batch)

    assert (accepted.accepted, accepted.deliveries) == (2, 2)
    assert accepted.duplicate_ids == {batch[2].id}
    assert await claimed_ids(store) == ids(batch[:2])


async def test_of_concurrent_repetitions_one_is_accepted(store: Store) -> None:
    """Ten concurrent calls with the same id write one delivery."""
    answers = await asyncio.gather(*[store.accept([event("orders", event_id="e-1")]) for _ in range(10)])

    assert sorted(answer.accepted for answer in answers) == [0] * 9 + [1]
    assert await store.counts_of("orders") == Counts(pending=1)


async def test_event_ids_are_the_projects_own(store: Store) -> None:
    """Two projects may use the same id, and events without an id are never duplicates."""
    answers = [
        await store.accept([event("orders", event_id="e-1", project="billing")]),
        await store.accept([event("orders", event_id="e-1", project="shipping")]),
        await store.accept([event("orders"), event("orders")]),
    ]

    assert [answer.accepted for answer in answers] == [1, 1, 2]


async def test_an_event_nobody_subscribes_to_leaves_only_its_id(store: Store) -> None:
    """An event without subscribers stores no body, but a later event with its id is still a duplicate."""
    accepted = await store.accept([event(event_id="e-1")])

    assert (accepted.accepted, accepted.deliveries) == (1, 0)
    assert (await store.accept([event(event_id="e-1")])).accepted == 0
    assert (await rows_of(store, "events"), await rows_of(store, "event_ids")) == (0, 1)


async def test_a_call_is_accepted_as_a_whole_or_not_at_all(store: Store) -> None:
    """One impossible event rolls back the whole call, and the ids of the call are free again."""
    taken = event("orders")
    await store.accept([taken])
    before = await all_rows(store)

    with pytest.raises(StoreError, match="refused"):
        await store.accept([event("orders", event_id="e-1"), taken])

    assert await all_rows(store) == before
    assert (await store.accept([event("orders", event_id="e-1")])).accepted == 1


@pytest.mark.parametrize("event_id", ["nul\0", "\0", "lone \ud800 surrogate"])
async def test_an_event_id_that_no_database_keeps_is_refused(store: Store, event_id: str) -> None:
    """An id that a database would truncate is refused, because its event would count as a duplicate of another one."""
    with pytest.raises(StoreError, match="event_id must not contain"):
        await store.accept([event("orders", event_id=event_id)])


@pytest.mark.parametrize("event_id", ["", " ", "line\nbreak", 'quo"te\\', "größe 😀", "x" * 5000])
async def test_any_other_event_id_is_kept_apart_from_similar_ones(store: Store, event_id: str) -> None:
    """Only an event with exactly the same id is a duplicate."""
    accepted = await store.accept([event(event_id=event_id), event(event_id=f"{event_id}!"), event(event_id=event_id)])

    assert accepted.accepted == 2


async def test_concurrent_accepts_share_a_transaction(store: Store, observed: Observed) -> None:
    """A hundred concurrent calls need a few commits, and each call gets its own result."""
    before = observed.commits

    answers = await asyncio.gather(*[store.accept([event(*["orders"] * n)]) for n in range(100)])

    assert [answer.deliveries for answer in answers] == list(range(100))
    assert observed.commits - before <= 5


async def test_a_trace_comes_back_with_what_is_claimed_and_only_there(store: Store) -> None:
    """An event without a trace has none, even with a traced event in the same call."""
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    traced, plain = event("orders"), event("orders")
    await store.accept([traced._replace(trace=traceparent), plain])

    claimed = await store.claim([("orders", 2)])

    assert {delivery.event_id: delivery.trace for delivery in claimed} == {traced.id: traceparent, plain.id: None}


@pytest.mark.parametrize("number", [2, 33])
async def test_events_of_every_kind_are_accepted_in_one_call(store: Store, clock: Clock, number: int) -> None:
    """A call may have duplicates, traced events and claimed deliveries; each event comes back as it was sent."""
    known = event("orders", event_id="known")
    await store.accept([known])
    repeated = event("orders", event_id="known")
    new = [
        event("orders", event_id=f"e-{position}", claimed=position % 2 == 0, body=b"%d" % position)._replace(
            trace=f"00-{position:032x}-0000000000000001-01" if position % 3 == 0 else None
        )
        for position in range(number - 1)
    ]

    accepted = await store.accept([repeated, *new])

    assert (accepted.accepted, accepted.deliveries) == (number - 1, number - 1)
    assert accepted.duplicate_ids == {repeated.id}
    assert (await store.counts_of("orders")).pending == number
    free = [one for one in new if not one.deliveries[0].claimed]
    claimed = await store.claim([("orders", 2 * number)])
    assert [(one.event_id, one.body, one.trace) for one in claimed] == [
        (one.id, one.body, one.trace) for one in [known, *free]
    ]
    assert {one.accepted_ms for one in claimed} == {clock.now}
