"""The delivery log and the counters, as users read them."""

from collections.abc import Awaitable, Callable

import pytest
from sqlalchemy import insert
from support.store_factories import Clock, Observed, accept_one, event, failures_of, ids, rows_of, settlement

from hookwright_operator.store.records import Attempt, Counts, DeliveryRecord, Search, State
from hookwright_operator.store.schema import attempts
from hookwright_operator.store.sql import read, search
from hookwright_operator.store.store import Store

LARGE = "\x01" * 4096
"""A response whose JSON has six times as many bytes."""


async def record_attempts(store: Store, delivery_id: str, number: int, response: str = "no") -> None:
    """Write attempts of a delivery, as many replays do."""
    common = {"delivery_id": delivery_id, "started_ms": 1, "duration_ms": 1, "status_code": 500, "error": ""}
    creation = [{**common, "number": index, "response": response} for index in range(1, number + 1)]
    await store.transactions.write("test", lambda connection: connection.execute(insert(attempts), creation) and None)


async def test_a_full_last_page_has_no_next_one(store: Store) -> None:
    """A page has a cursor only if there are more deliveries."""
    await store.accept([event("orders", "orders")])

    page, cursor = await store.read_log(read.log, "orders", limit=2)

    assert (len(page), cursor) == (2, None)


@pytest.mark.both_engines
async def test_a_record_tells_what_there_is_to_know(store: Store, clock: Clock) -> None:
    """The record has event, endpoint, times and reason."""
    new = event("orders")
    await store.accept([new])

    record = await store.read_log(read.delivery, new.deliveries[0].id)

    assert record is not None
    assert (record.event_id, record.event_type, record.endpoint_uid) == (new.id, "delivered", "orders")
    assert (record.accepted_ms, record.due_ms, record.reason) == (clock.now, clock.now, "")
    assert record.attempts == ()


async def test_an_endpoint_without_deliveries_has_an_empty_log_and_zero_counts(store: Store) -> None:
    """An endpoint without deliveries is not an error."""
    assert await store.read_log(read.log, "unknown") == ([], None)
    assert await store.read(read.counts_of, "unknown") == Counts()
    assert await store.read(read.counts) == {}
    assert await store.read(read.pending_uids) == frozenset()


async def test_pending_uids_names_the_endpoints_with_a_backlog(store: Store) -> None:
    """An endpoint whose deliveries have all ended is not included."""
    result = await accept_one(store, claimed=True)
    await store.settle([settlement(result, State.DELIVERED)])
    await accept_one(store, uid="audit")

    assert await store.read(read.pending_uids) == {"audit"}


async def test_every_transaction_and_every_read_is_observed(store: Store, observed: Observed) -> None:
    """The metrics get each operation with its name."""
    delivery = await accept_one(store)
    await store.claim([("orders", 1)])
    await store.settle([settlement(delivery, State.DELIVERED)])
    await store.read_log(read.delivery, delivery.id)

    assert [name for name in observed.operations if name in {"accept", "claim", "settle", "delivery"}] == [
        "accept",
        "claim",
        "settle",
        "delivery",
    ]


@pytest.mark.parametrize(("error", "state"), [("", State.DELIVERED), ("answered 500", State.FAILED)])
async def test_a_recorded_test_is_in_the_log_and_nowhere_else(
    store: Store, clock: Clock, error: str, state: State
) -> None:
    """It is due for nobody, counted nowhere, neither retried nor replayed, and pruned like a delivered one."""
    await store.accept([event("orders")])
    counts = await store.read(read.counts_of, "orders")
    new = event("orders")
    attempt = Attempt(1, clock.now, 12, 200, error, "a NUL: \0")
    await store.record_test(new, attempt, clock.now - 5)
    clock.advance(1)

    record = await store.read_log(read.delivery, new.deliveries[0].id)

    assert record is not None
    assert (record.is_test, record.state, record.event_id) == (True, state, new.id)
    assert record.attempts == (attempt._replace(response="a NUL: ?"),)
    assert record in (await store.read_log(read.log, "orders"))[0]
    assert await store.read(read.counts_of, "orders") == counts
    assert await store.retry(record.id) is State.DISCARDED
    assert (await store.chosen_replays.begin("rec_1", failures_of("orders"))).total == 0
    assert [one.id for one in await store.claim([("orders", 10)])] != [record.id]
    for one in State:
        page, _ = await store.read_log(read.log, "orders", state=one)
        assert record.id not in [item.id for item in page]
    assert await store.prune(delivered_before_ms=clock.now - 1, failed_before_ms=clock.now, limit=100) == 0
    assert await store.prune(delivered_before_ms=clock.now + 1, failed_before_ms=0, limit=100) == 3
    assert await store.read_log(read.delivery, record.id) is None


async def test_only_the_newest_attempts_of_a_delivery_are_shown(store: Store) -> None:
    """The number of the last one is the number of all attempts; a single delivery shows more than a page."""
    new = event("orders", "orders")
    await store.accept([new])
    many, few = new.deliveries
    await record_attempts(store, many.id, 150)
    await record_attempts(store, few.id, 3)

    page, cursor = await store.read_log(read.log, "orders")
    record = await store.read_log(read.delivery, many.id)

    assert cursor is None
    numbers = {item.id: [attempt.number for attempt in item.attempts] for item in page}
    assert numbers == {many.id: list(range(131, 151)), few.id: [1, 2, 3]}
    assert record is not None
    assert [attempt.number for attempt in record.attempts] == list(range(51, 151))


@pytest.mark.both_engines
async def test_a_retry_by_hand_keeps_the_newest_hundred_attempts(store: Store) -> None:
    """The numbers continue, so that the last one is still the number of all attempts."""
    delivery, second = await accept_one(store, claimed=True), await accept_one(store)
    await record_attempts(store, delivery.id, 150)
    await record_attempts(store, second.id, 101)
    await store.settle([settlement(delivery, State.FAILED)])

    await store.retry(delivery.id)

    assert await rows_of(store, "attempts") == 100 + 101
    await store.claim([("orders", 10)])
    await store.settle([settlement(delivery, State.DELIVERED)])
    record = await store.read_log(read.delivery, delivery.id)
    assert record is not None
    assert [attempt.number for attempt in record.attempts] == list(range(53, 153))


@pytest.mark.parametrize(("room", "numbers"), [(3 * 25_000, [4, 5, 6]), (1, [6])])
async def test_large_attempts_of_a_single_delivery_are_limited_by_their_size(
    store: Store, monkeypatch: pytest.MonkeyPatch, room: int, numbers: list[int]
) -> None:
    """The newest attempt is always shown."""
    monkeypatch.setattr(read, "BYTES_OF_ONE", room)
    delivery = await accept_one(store)
    await record_attempts(store, delivery.id, 6, LARGE)

    record = await store.read_log(read.delivery, delivery.id)

    assert record is not None
    assert [attempt.number for attempt in record.attempts] == numbers


@pytest.mark.parametrize("kind", ["log", "search", "event"])
@pytest.mark.parametrize(("room", "pages"), [(4 * 25_000, [2, 2, 1]), (1, [1, 1, 1, 1, 1]), (10**6, [5])])
async def test_a_page_with_large_attempts_ends_early_with_a_cursor(
    store: Store, monkeypatch: pytest.MonkeyPatch, kind: str, room: int, pages: list[int]
) -> None:
    """The pages together have each delivery once, and each page has at least one."""
    monkeypatch.setattr(read, "PAGE_BYTES", room)
    monkeypatch.setattr(read, "_DELIVERIES_AT_ONCE", 2)
    new = event(*["orders"] * 5)
    await store.accept([new])
    for delivery in new.deliveries:
        await record_attempts(store, delivery.id, 2, LARGE)
    expected = Search(("orders",), "acme", event_id=new.id)

    async def first_page_of_event() -> tuple[list[DeliveryRecord], str | None]:
        numbers = await store.read_log(search.event, new.id)
        assert numbers is not None
        return await store.read_log(search.deliveries_of, numbers, ["orders"], limit=50)

    async def page(cursor: str | None) -> tuple[list[DeliveryRecord], str | None]:
        if kind == "event" and cursor is None:
            return await first_page_of_event()
        if kind == "log":
            return await store.read_log(read.log, "orders", cursor=cursor)
        return await store.read_log(search.page, expected, limit=50, cursor=cursor)

    rows = await _all_pages(page)

    assert [len(delivery) for delivery in rows] == pages
    assert [delivery for part in rows for delivery in part] == ids([new])[::-1]


async def _all_pages(
    page: Callable[[str | None], Awaitable[tuple[list[DeliveryRecord], str | None]]],
) -> list[list[str]]:
    rows: list[list[str]] = []
    cursor = None
    while len(rows) < 10:
        records, cursor = await page(cursor)
        rows.append([record.id for record in records])
        if cursor is None:
            return rows
    raise AssertionError("the pages do not end")
