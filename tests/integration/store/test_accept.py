"""Events are accepted as a whole and once."""

import asyncio
import random

import pytest
from support.store_factories import Clock, Observed, accept_one, all_rows, claimed_ids, event, ids, rows_of, state_of

from hookwright_operator.store.records import SOURCE_END, Counts, NewEvent, State
from hookwright_operator.store.sql import read
from hookwright_operator.store.sql.accept import DEDUPE_WINDOW_MS
from hookwright_operator.store.store import Store
from hookwright_runtime.errors import StoreError


@pytest.mark.both_engines
async def test_accepting_writes_a_pending_delivery_for_each_endpoint(store: Store, clock: Clock) -> None:
    """An event for two endpoints becomes two pending deliveries, due at once, and both endpoints count it."""
    new = event("orders", "audit")

    result = await store.accept([new])

    assert (result.accepted, result.deliveries, result.at_ms) == (1, 2, clock.now)
    assert not result.duplicate_of
    assert [await state_of(store, delivery_id) for delivery_id in ids([new])] == [State.PENDING] * 2
    assert await store.next_due() == {"orders": clock.now, "audit": clock.now}
    assert await store.read(read.counts) == {"orders": Counts(pending=1), "audit": Counts(pending=1)}


@pytest.mark.both_engines
@pytest.mark.parametrize(
    "body",
    [b"", b"\x00\xff not text", b'{"emoji": "\xf0\x9f\x98\x80"}', b"x" * 300_000],
    ids=["empty", "binary", "json", "big"],
)
async def test_a_body_comes_back_as_the_bytes_that_were_accepted(store: Store, body: bytes) -> None:
    """The signed and sent body equals the producer's body byte for byte, also with other bodies in the same call."""
    bodies = [b"before", body, b"after"]
    await store.accept([event("orders", body=each) for each in bodies])

    claims = await store.claim([("orders", 3)])

    assert [delivery.body for delivery in claims] == bodies


@pytest.mark.both_engines
async def test_a_delivery_accepted_as_claimed_is_not_claimed_again(store: Store, neighbour: Store) -> None:
    """A delivery that a replica sends directly after the commit cannot be claimed by other replicas."""
    await accept_one(store, claimed=True)

    assert await claimed_ids(store) == []
    assert await claimed_ids(neighbour) == []
    assert await store.next_due() == {}


async def test_an_event_id_repeated_within_the_window_is_a_duplicate(store: Store, clock: Clock) -> None:
    """A duplicate is reported, and writes and counts nothing."""
    first = event("orders", event_id="e-1")
    await store.accept([first])
    before = await all_rows(store)
    clock.advance(DEDUPE_WINDOW_MS - 1)
    repetition = event("orders", event_id="e-1")

    result = await store.accept([repetition])

    assert (result.accepted, result.deliveries) == (0, 0)
    assert result.duplicate_of == {repetition.id: first.id}
    assert await all_rows(store) == before
    assert await store.read(read.counts_of, "orders") == Counts(pending=1)


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

    result = await store.accept(batch)

    assert (result.accepted, result.deliveries) == (2, 2)
    assert result.duplicate_of == {batch[2].id: batch[0].id}
    assert await claimed_ids(store) == ids(batch[:2])


@pytest.mark.both_engines
async def test_of_concurrent_repetitions_one_is_accepted(store: Store) -> None:
    """Ten concurrent calls with the same id write one delivery."""
    answers = await asyncio.gather(*[store.accept([event("orders", event_id="e-1")]) for _ in range(10)])

    assert sorted(answer.accepted for answer in answers) == [0] * 9 + [1]
    assert await store.read(read.counts_of, "orders") == Counts(pending=1)


async def test_event_ids_are_the_projects_own(store: Store) -> None:
    """Two Projects may use the same id, also one after the other with one name. Events without an id are all new."""
    first, second = (event("orders", event_id="e-1")._replace(project_uid=uid) for uid in ("uid-1", "uid-2"))
    assert (await store.accept([first])).accepted == 1
    assert (await store.accept([second])).accepted == 1
    assert (await store.accept([event("orders", event_id="e-1")._replace(project_uid="uid-1")])).accepted == 0
    assert (await store.accept([event("orders"), event("orders")])).accepted == 2


async def test_an_event_nobody_subscribes_to_leaves_only_its_id(store: Store) -> None:
    """An event without subscribers stores no body, but a later event with its id is still a duplicate."""
    result = await store.accept([event(event_id="e-1")])

    assert (result.accepted, result.deliveries) == (1, 0)
    assert (await store.accept([event(event_id="e-1")])).accepted == 0
    assert (await rows_of(store, "events"), await rows_of(store, "event_ids")) == (0, 1)


@pytest.mark.both_engines
async def test_a_call_is_accepted_as_a_whole_or_not_at_all(store: Store) -> None:
    """One impossible event rolls back the whole call, and the ids of the call are free again."""
    first = event("orders")
    await store.accept([first])
    before = await all_rows(store)

    with pytest.raises(StoreError, match="refused"):
        await store.accept([event("orders", event_id="e-1"), first])

    assert await all_rows(store) == before
    assert (await store.accept([event("orders", event_id="e-1")])).accepted == 1


@pytest.mark.both_engines
@pytest.mark.parametrize("event_id", ["nul\0", "\0", "lone \ud800 surrogate"])
async def test_an_event_id_that_no_database_keeps_is_refused(store: Store, event_id: str) -> None:
    """An id that a database would truncate is refused, because its event would count as a duplicate of another one."""
    with pytest.raises(StoreError, match="event_id must not contain"):
        await store.accept([event("orders", event_id=event_id)])


@pytest.mark.both_engines
@pytest.mark.parametrize("event_id", ["", " ", "line\nbreak", 'quo"te\\', "größe 😀", "x" * 5000])
async def test_any_other_event_id_is_kept_apart_from_similar_ones(store: Store, event_id: str) -> None:
    """Only an event with exactly the same id is a duplicate."""
    result = await store.accept([event(event_id=event_id), event(event_id=f"{event_id}!"), event(event_id=event_id)])

    assert result.accepted == 2


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

    claims = await store.claim([("orders", 2)])

    assert {delivery.event_id: delivery.trace for delivery in claims} == {traced.id: traceparent, plain.id: None}


@pytest.mark.both_engines
@pytest.mark.parametrize("number", [2, 33])
async def test_events_of_every_kind_are_accepted_in_one_call(store: Store, clock: Clock, number: int) -> None:
    """A call may have duplicates, traced events and claimed deliveries; each event comes back as it was sent."""
    first = event("orders", event_id="known")
    await store.accept([first])
    repetition = event("orders", event_id="known")
    new = [
        event("orders", event_id=f"e-{position}", claimed=position % 2 == 0, body=b"%d" % position)._replace(
            trace=f"00-{position:032x}-0000000000000001-01" if position % 3 == 0 else None
        )
        for position in range(number - 1)
    ]

    result = await store.accept([repetition, *new])

    assert (result.accepted, result.deliveries) == (number - 1, number - 1)
    assert result.duplicate_of == {repetition.id: first.id}
    assert (await store.read(read.counts_of, "orders")).pending == number
    free = [one for one in new if not one.deliveries[0].claimed]
    claims = await store.claim([("orders", 2 * number)])
    assert [(one.event_id, one.body, one.trace) for one in claims] == [
        (one.id, one.body, one.trace) for one in [first, *free]
    ]
    assert {one.accepted_ms for one in claims} == {clock.now}


def content(digest: int | None, event_id: str = "e-1") -> NewEvent:
    """Build an event with an id and the digest of its content."""
    return event("orders", event_id=event_id)._replace(digest=digest)


@pytest.mark.both_engines
@pytest.mark.parametrize("digest", [0, 1, -1, 2**63 - 1, -(2**63)])
async def test_an_id_with_other_content_is_a_conflict_and_with_the_same_content_a_duplicate(
    store: Store, digest: int
) -> None:
    """A conflict writes nothing of its call, and the ids of the call are free again."""
    first, again, second = content(digest), content(digest), content(digest ^ 7)
    await store.accept([first])
    before = await all_rows(store)

    refusal = await store.accept([content(5, "e-2"), second, event("orders")])

    assert (refusal.accepted, refusal.deliveries, refusal.conflicts) == (0, 0, frozenset([second.id]))
    assert await all_rows(store) == before
    assert (await store.accept([again])).duplicate_of == {again.id: first.id}
    assert (await store.accept([content(6, "e-2")])).accepted == 1


async def test_the_content_of_an_id_counts_for_the_window(store: Store, clock: Clock) -> None:
    """After 24 hours other content under the same id is a new event."""
    await store.accept([content(1)])
    clock.advance(DEDUPE_WINDOW_MS)
    assert (await store.accept([content(2)])).accepted == 1
    assert (await store.accept([content(1)])).conflicts


async def test_an_id_without_a_digest_is_compared_by_itself(store: Store) -> None:
    """CloudEvents have no digest."""
    await store.accept([content(None)])
    result = await store.accept([content(None)])
    assert (len(result.duplicate_of), result.conflicts) == (1, frozenset())


async def test_other_content_within_one_call_is_a_conflict(store: Store) -> None:
    """The first event of a call is not accepted alone."""
    batch = [content(1), content(2), content(1)]
    assert (await store.accept(batch)).conflicts == {batch[1].id}
    assert (await store.accept([content(2)])).accepted == 1


@pytest.mark.both_engines
async def test_a_conflict_refuses_only_its_own_call(store: Store) -> None:
    """Of calls in one transaction each gets the result that it would get if they came one after the other."""
    await store.accept([content(1, "known")])
    calls = [
        [content(2, "known"), content(3, "shared"), content(4, "lost")],
        [content(5, "shared"), content(6, "own")],
        [content(5, "shared")],
        [content(7, "shared")],
        [event("orders")],
        [content(1, "known")],
    ]

    answers = await asyncio.gather(*[store.accept(call) for call in calls])

    assert [answer.accepted for answer in answers] == [0, 2, 0, 0, 1, 0]
    assert [len(answer.conflicts) for answer in answers] == [1, 0, 0, 1, 0, 0]
    assert answers[2].duplicate_of == {calls[2][0].id: calls[1][0].id}
    assert await rows_of(store, "event_ids") == 3
    assert (await store.read(read.counts_of, "orders")).pending == 4
    later = await store.accept([content(5, "shared"), content(6, "own"), content(8, "lost")])
    assert (later.accepted, len(later.duplicate_of)) == (1, 2)


@pytest.mark.both_engines
async def test_the_longest_ids_are_kept(store: Store) -> None:
    """Source and id of a CloudEvent have 256 characters each, of four bytes at most, that no index compresses."""
    characters = random.Random(7)
    longest = "".join(chr(characters.randrange(0x10000, 0x1F000)) for _ in range(512))
    project = "p" * 253
    names = [longest[:256] + SOURCE_END + longest[256:], longest[:256] + SOURCE_END + longest[257:]]
    for name in names:
        assert (await store.accept([event("orders", event_id=name, project=project)])).accepted == 1
    assert (await store.accept([event("orders", event_id=names[0], project=project)])).accepted == 0


async def test_attributes_come_back_with_what_is_claimed_beside_small_and_large_bodies(store: Store) -> None:
    """An event without attributes has none."""
    attributes = '{"id":"e-1","source":"/größe 😀"}'
    cloud = [event("orders", body=b"x" * size)._replace(attributes=attributes) for size in (10, 10_000)]
    plain = event("orders")
    await store.accept([*cloud, plain])

    claims = {delivery.event_id: delivery for delivery in await store.claim([("orders", 3)])}

    assert [claims[delivery.id].attributes for delivery in (*cloud, plain)] == [attributes, attributes, None]
    assert claims[cloud[0].id].size == cloud[0].size == 10 + len(attributes)
