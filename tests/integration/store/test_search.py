"""Searches of deliveries across endpoints, on both engines."""

from dataclasses import replace

import pytest
from support.store_factories import event, ids

from hookwright_operator.ids import delivery_id, epoch_ms_of, first_delivery_id
from hookwright_operator.store.records import NewEvent, Search, State
from hookwright_operator.store.sql import search as search_sql
from hookwright_operator.store.store import Store

ENDPOINTS = ("orders", "audit")
ALL = Search(ENDPOINTS, "acme")


def named(message: str, *uids: str, event_id: str | None = None, kind: str = "delivered") -> NewEvent:
    """Build an event with a messageId."""
    return event(*uids, claimed=True)._replace(message_id=message, event_id=event_id, type=kind)


async def found(store: Store, wanted: Search, limit: int = 50) -> list[str]:
    """Return the ids of all pages of a search."""
    records: list[str] = []
    page, cursor = await store.read_log(search_sql.page, wanted, limit=limit)
    while True:
        records += [record.id for record in page]
        if cursor is None:
            return records
        page, cursor = await store.read_log(search_sql.page, wanted, limit=limit, cursor=cursor)


@pytest.mark.both_engines
async def test_an_event_is_found_by_each_of_its_ids(store: Store) -> None:
    """By the messageId, by the producer's event id and by Hookwright's; several conditions combine."""
    for number in range(3):
        await store.accept([named(f"m-{number}{extra}", "orders", event_id=f"e-{number}{extra}") for extra in "abc"])
    expected = named("m-42", "orders", "audit", event_id="/mailer\nc-42")
    await store.accept([expected])

    for condition in ({"message_id": "m-42"}, {"event_id": "c-42"}, {"event_id": expected.id}):
        assert await found(store, replace(ALL, **condition)) == ids([expected])[::-1]  # type: ignore[arg-type]
    assert await found(store, replace(ALL, message_id="m-42", event_id="e-1a")) == []
    assert await found(store, replace(ALL, message_id="m-4")) == []
    assert len(await found(store, replace(ALL, message_id="m-1b", event_id="e-1b"))) == 1


async def test_a_search_finds_nothing_of_another_namespace_or_endpoint(store: Store) -> None:
    """The same ids in two namespaces stay apart, also if a search names the endpoint of the other."""
    ours, theirs = named("m-1", "orders"), named("m-1", "spy")._replace(namespace="rival")
    await store.accept([ours])
    await store.accept([theirs])

    assert await found(store, replace(ALL, message_id="m-1")) == ids([ours])
    assert await found(store, Search(("spy",), "rival", message_id="m-1")) == ids([theirs])
    assert await found(store, Search(("spy",), "acme", message_id="m-1")) == []
    assert await found(store, replace(ALL, event_id=theirs.id)) == []
    assert await found(store, ALL) == ids([ours])


async def test_a_walk_examines_a_limited_number_of_rows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page may be empty; the cursors lead to the deliveries, and are no ids of other tenants."""
    monkeypatch.setattr(search_sql, "MERGED_LOGS", 0)
    monkeypatch.setattr(search_sql, "WALKED_ROWS", 3)
    ours = event("orders")
    await store.accept([ours])
    theirs = [event("spy") for _ in range(20)]
    await store.accept(theirs)

    page, cursor = await store.read_log(search_sql.page, ALL, limit=5)

    assert page == []
    assert cursor is not None
    assert cursor not in ids(theirs)


async def test_a_search_checks_a_limited_number_of_deliveries(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rare type among many deliveries of the endpoint is found on a later page."""
    monkeypatch.setattr(search_sql, "CHECKED_AT_ONCE", 3)
    monkeypatch.setattr(search_sql, "CHECKED_ROWS", 6)
    rare = named("m", "orders", kind="rare")
    await store.accept([rare])
    await store.accept([event("orders") for _ in range(20)])

    page, cursor = await store.read_log(search_sql.page, replace(ALL, event_type="rare"), limit=2)

    assert page == []
    assert cursor is not None
    assert await found(store, replace(ALL, event_type="rare"), limit=2) == ids([rare])


@pytest.mark.both_engines
async def test_a_recipient_is_found_in_any_case_on_a_later_page(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of the two fields counts that is a text near the begin of the body; a page reads a limited number."""
    monkeypatch.setattr(search_sql, "CHECKED_AT_ONCE", 3)
    monkeypatch.setattr(search_sql, "WALKED_ROWS", 6)
    bodies = [
        b'{"type":"delivered","messageId":"m","recipient":"Ada@example.com","to":"bob@example.com"}',
        b'{"type":"delivered","messageId":"m","recipient":7,"to":"ada@EXAMPLE.com"}',
        b'{"type":"delivered","messageId":"m","note":"%b","to":"ada@example.com"}' % (b"x" * 2048),
        b'{"type":"delivered","messageId":"m","data":{"to":"ada@example.com"}}',
    ]
    expected = [event("orders", body=body) for body in bodies]
    await store.accept(expected)
    await store.accept([event("orders") for _ in range(10)])
    wanted = replace(ALL, recipient="ADA@example.com")

    page, cursor = await store.read_log(search_sql.page, wanted, limit=2)

    assert page == []
    assert cursor is not None
    assert await found(store, wanted, limit=2) == ids(expected[:2])[::-1]
    assert await found(store, replace(wanted, recipient="bob@example.com"), limit=2) == []


async def test_an_event_is_shown_with_its_deliveries_to_some_endpoints(store: Store) -> None:
    """The body is exact, and an unknown id has no event."""
    new = named("m", "orders", "audit", "spy")._replace(body=b'{"n": 1.10}')
    await store.accept([new])

    record = await store.read_log(search_sql.event, new.id)

    assert record is not None
    assert (record.namespace, record.body, record.deliveries) == ("acme", b'{"n": 1.10}', 3)
    records, cursor = await store.read_log(search_sql.deliveries_of, record, ENDPOINTS, limit=1)
    assert [row.id for row in records] == [new.deliveries[1].id]
    assert cursor == new.deliveries[1].id
    assert await found(store, replace(ALL, event_id=new.id)) == [new.deliveries[1].id, new.deliveries[0].id]
    assert await store.read_log(search_sql.event, "msg_unknown") is None


async def test_events_with_one_message_id_are_found_in_one_pass(store: Store) -> None:
    """Events of one message id may be accepted at the same time or at distant times."""
    times = [1_700_000_000_000, 1_700_000_000_100, 1_700_000_300_000]
    new = []
    for place, moment in enumerate(times):
        begin = first_delivery_id(moment)[len("dlv_") : -1]
        item = named("m-1", "orders", "spy")
        events = [it._replace(id=f"dlv_{begin}{number}") for number, it in enumerate(item.deliveries)]
        new.append(item._replace(id=f"msg_{begin}{place}", deliveries=tuple(events)))
    await store.accept(new[::-1])
    await store.accept([event("orders") for _ in range(3)])

    assert await found(store, replace(ALL, message_id="m-1")) == [item.deliveries[0].id for item in new[::-1]]
    assert await found(store, replace(ALL, message_id="m-1", since_ms=times[1], until_ms=times[1])) == [
        new[1].deliveries[0].id
    ]


@pytest.mark.parametrize("early", [0, 999])
async def test_a_delivery_may_be_a_little_older_than_its_event(store: Store, early: int) -> None:
    """The clock of another replica may be slow by less than a second."""
    new = named("m-1", "orders")
    begin = first_delivery_id(epoch_ms_of(new.id) - early)
    new = new._replace(deliveries=(new.deliveries[0]._replace(id=begin[:-1] + "1"),))
    await store.accept([new])

    assert await found(store, replace(ALL, message_id="m-1")) == ids([new])


@pytest.mark.both_engines
@pytest.mark.parametrize(("listed", "rows"), [(3, 50_000), (1000, 3)])
@pytest.mark.parametrize("merged", [0, 25])
async def test_more_events_or_deliveries_of_one_id_than_a_search_lists_are_all_found(
    store: Store, monkeypatch: pytest.MonkeyPatch, merged: int, listed: int, rows: int
) -> None:
    """Each delivery's event is checked instead, also the late delivery of an early event; other conditions apply."""
    monkeypatch.setattr(search_sql, "MERGED_LOGS", merged)
    monkeypatch.setattr(search_sql, "LISTED_EVENTS", listed)
    monkeypatch.setattr(search_sql, "ROWS", rows)
    monkeypatch.setattr(search_sql, "CHECKED_AT_ONCE", 4)
    new = [named("m-1" if number % 3 else "m-2", "orders", "spy", event_id=f"e-{number}") for number in range(15)]
    late = new[1].deliveries[0]._replace(id=delivery_id())
    new[1] = new[1]._replace(deliveries=(late, new[1].deliveries[1]))
    await store.accept(new)
    of_message = sorted((ids([one])[0] for one in new if one.message_id == "m-1"), reverse=True)

    assert of_message[0] == late.id
    for limit in (1, 3, 50):
        assert await found(store, replace(ALL, message_id="m-1"), limit=limit) == of_message
    assert await found(store, replace(ALL, message_id="m-1", event_id="e-4")) == ids(new[4:5])[:1]
    assert await found(store, replace(ALL, message_id="m-1", event_id=new[5].id)) == ids(new[5:6])[:1]
    assert await found(store, replace(ALL, message_id="m-1", event_id="e-3")) == []
    assert await found(store, replace(ALL, message_id="m-1", event_type="rare")) == []
    assert await found(store, replace(ALL, message_id="m-1", state=State.PENDING), limit=2) == of_message
    assert await found(store, Search(("audit",), "acme", message_id="m-1")) == []


async def test_ids_that_too_many_events_have_combine(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """CloudEvents of several sources can have one id; then both ids are checked for each delivery."""
    monkeypatch.setattr(search_sql, "LISTED_EVENTS", 2)
    new = [named(f"m-{number % 2}", "orders", event_id=f"/source-{number}\ne-{number % 3}") for number in range(12)]
    await store.accept(new)

    expected = [one for number, one in enumerate(new) if number % 6 == 0]
    assert await found(store, replace(ALL, message_id="m-0", event_id="e-0"), limit=1) == ids(expected)[::-1]
