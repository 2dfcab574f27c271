"""Searches of deliveries across endpoints, on both engines."""

from dataclasses import replace
from functools import partial

import pytest
from support.store_factories import Clock, event, ids, rows_of, settlement

from hookwright_operator import ids as ids_module
from hookwright_operator.ids import delivery_id, epoch_ms_of, first_delivery_id
from hookwright_operator.store.records import NewEvent, Search, State
from hookwright_operator.store.sql import event_deliveries, message_index, segment_merging
from hookwright_operator.store.sql import search as search_sql
from hookwright_operator.store.store import Store

ENDPOINTS = ("orders", "audit")
ALL = Search(ENDPOINTS, "acme")


def named(message: str, *uids: str, event_id: str | None = None, kind: str = "delivered") -> NewEvent:
    """Build an event with a messageId."""
    return event(*uids, claimed=True)._replace(message_id=message, event_id=event_id, type=kind)


async def found(store: Store, wanted: Search, limit: int = 50) -> list[str]:
    """Return the ids of all pages of a search."""
    seen: list[str] = []
    page, cursor = await store.search.page(wanted, limit=limit)
    while True:
        seen += [record.id for record in page]
        if cursor is None:
            return seen
        page, cursor = await store.search.page(wanted, limit=limit, cursor=cursor)


@pytest.mark.both_engines
@pytest.mark.parametrize("arranged", [0, 1, 2])
async def test_an_event_is_found_by_each_of_its_ids(store: Store, arranged: int) -> None:
    """The index finds it before and after its lines became a segment, alone and with other segments."""
    for number in range(3):
        await store.accept([named(f"m-{number}{extra}", "orders", event_id=f"e-{number}{extra}") for extra in "abc"])
        if number < arranged:
            assert await store.search.arrange(least=1)
    wanted = named("m-42", "orders", "audit", event_id="/mailer\nc-42")
    await store.accept([wanted])

    for condition in ({"message_id": "m-42"}, {"event_id": "c-42"}, {"event_id": wanted.id}):
        assert await found(store, replace(ALL, **condition)) == ids([wanted])[::-1]  # type: ignore[arg-type]
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
    monkeypatch.setattr(search_sql, "MERGED", 0)
    monkeypatch.setattr(search_sql, "WALKED", 3)
    ours = event("orders")
    await store.accept([ours])
    theirs = [event("spy") for _ in range(20)]
    await store.accept(theirs)

    page, cursor = await store.search.page(ALL, limit=5)

    assert page == []
    assert cursor is not None
    assert cursor not in ids(theirs)


async def test_a_search_checks_a_limited_number_of_deliveries(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rare type among many deliveries of the endpoint is found on a later page."""
    monkeypatch.setattr(search_sql, "CHECKED_AT_ONCE", 3)
    monkeypatch.setattr(search_sql, "CHECKED", 6)
    rare = named("m", "orders", kind="rare")
    await store.accept([rare])
    await store.accept([event("orders") for _ in range(20)])

    page, cursor = await store.search.page(replace(ALL, event_type="rare"), limit=2)

    assert page == []
    assert cursor is not None
    assert await found(store, replace(ALL, event_type="rare"), limit=2) == ids([rare])


async def test_an_event_is_shown_with_its_deliveries_to_some_endpoints(store: Store) -> None:
    """The body is exact, and an unknown id has no event."""
    new = named("m", "orders", "audit", "spy")._replace(body=b'{"n": 1.10}')
    await store.accept([new])

    record = await store.search.event(new.id)

    assert record is not None
    assert (record.namespace, record.body, record.deliveries) == ("acme", b'{"n": 1.10}', 3)
    shown, cursor = await store.search.deliveries_of(record, ENDPOINTS, limit=1)
    assert [one.id for one in shown] == [new.deliveries[1].id]
    assert cursor == new.deliveries[1].id
    assert await found(store, replace(ALL, event_id=new.id)) == [new.deliveries[1].id, new.deliveries[0].id]
    assert await store.search.event("msg_unknown") is None


@pytest.mark.both_engines
@pytest.mark.parametrize("examined", [50_000, 8])
@pytest.mark.parametrize("ulids", [ids_module.Ulids(), ids_module.Ulids(lambda: 1_800_000_000 * 10**9)])
async def test_deliveries_that_are_written_later_are_found(
    store: Store, monkeypatch: pytest.MonkeyPatch, examined: int, ulids: ids_module.Ulids
) -> None:
    """A fan-out's deliveries are among those of later events; with a small limit, the cursors lead to them once.

    They are of several milliseconds or all of one.
    """
    monkeypatch.setattr(ids_module, "_next", ulids)
    monkeypatch.setattr(search_sql, "ROWS", examined)
    monkeypatch.setattr(event_deliveries, "_FIRST_ROWS", 4)
    await store.accept([event("spy") for _ in range(5)])
    large = [named("m-1", event_id=f"e-{number}") for number in range(2)]
    begun = await store.fan_outs.accept(large, {"delivered": ["orders", "spy", "audit"]})
    written: list[str] = []
    for _ in range(2):
        await store.accept([event("spy", "orders") for _ in range(10)])
        written += [delivery_id() for _ in range(3)]
        assert await store.fan_outs.write_slice(begun.fan_outs[0], written[-3:]) is not None
    await store.accept([event("spy", "orders") for _ in range(10)])
    # The order is: both events to orders, both to spy, both to audit.
    ours = [written[place] for place in (5, 4, 1, 0)]

    assert await found(store, replace(ALL, message_id="m-1")) == ours
    assert await found(store, replace(ALL, message_id="m-1"), limit=1) == ours
    assert await found(store, replace(ALL, event_id=large[1].id, state=State.PENDING)) == [ours[0], ours[2]]
    record = await store.search.event(large[0].id)
    assert record is not None
    shown, cursor = await store.search.deliveries_of(record, ENDPOINTS, limit=10)
    if examined == 8:
        assert (shown, cursor is None) == ([], False)
    else:
        assert ([one.id for one in shown], cursor) == ([ours[1], ours[3]], None)


async def test_events_with_one_message_id_are_found_in_one_pass(store: Store) -> None:
    """Events of one message id may be accepted at the same time or at distant times."""
    times = [1_700_000_000_000, 1_700_000_000_100, 1_700_000_300_000]
    new = []
    for place, moment in enumerate(times):
        begin = first_delivery_id(moment)[len("dlv_") : -1]
        one = named("m-1", "orders", "spy")
        made = [it._replace(id=f"dlv_{begin}{number}") for number, it in enumerate(one.deliveries)]
        new.append(one._replace(id=f"msg_{begin}{place}", deliveries=tuple(made)))
    await store.accept(new[::-1])
    await store.accept([event("orders") for _ in range(3)])

    assert await found(store, replace(ALL, message_id="m-1")) == [one.deliveries[0].id for one in new[::-1]]
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
@pytest.mark.parametrize("arranged", [False, True])
@pytest.mark.parametrize("merged", [0, 25])
async def test_more_events_of_one_id_than_a_search_lists_are_all_found(
    store: Store, monkeypatch: pytest.MonkeyPatch, merged: int, *, arranged: bool
) -> None:
    """Each delivery's event is checked instead, also the late delivery of an early event; other conditions apply."""
    monkeypatch.setattr(search_sql, "MERGED", merged)
    monkeypatch.setattr(search_sql, "LISTED", 3)
    monkeypatch.setattr(search_sql, "CHECKED_AT_ONCE", 4)
    monkeypatch.setattr(message_index, "_BLOCKS_AT_ONCE", 1)
    monkeypatch.setattr(message_index, "_RECENT_AT_ONCE", 1)
    new = [named("m-1" if number % 3 else "m-2", "orders", "spy", event_id=f"e-{number}") for number in range(15)]
    late = new[1].deliveries[0]._replace(id=delivery_id())
    new[1] = new[1]._replace(deliveries=(late, new[1].deliveries[1]))
    for begin in range(0, 15, 5):
        await store.accept(new[begin : begin + 5])
        if arranged:
            assert await store.search.arrange(least=1)
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
    monkeypatch.setattr(search_sql, "LISTED", 2)
    new = [named(f"m-{number % 2}", "orders", event_id=f"/source-{number}\ne-{number % 3}") for number in range(12)]
    await store.accept(new)

    wanted = [one for number, one in enumerate(new) if number % 6 == 0]
    assert await found(store, replace(ALL, message_id="m-0", event_id="e-0"), limit=1) == ids(wanted)[::-1]


async def test_a_page_charges_the_lines_of_the_index(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that examined many lines ends early, and has a cursor."""
    monkeypatch.setattr(search_sql, "LISTED", 3)
    monkeypatch.setattr(search_sql, "CHECKED_AT_ONCE", 2)
    monkeypatch.setattr(search_sql, "CHECKED", 5)
    monkeypatch.setattr(search_sql, "LINES_A_CHECK", 1)
    new = [named("m-1" if number < 10 else "m-2", "orders") for number in range(14)]
    await store.accept(new)

    page, cursor = await store.search.page(replace(ALL, message_id="m-1"), limit=1)

    assert page == []
    assert cursor == new[12].deliveries[0].id
    assert await found(store, replace(ALL, message_id="m-1"), limit=1) == ids(new[:10])[::-1]


async def test_a_segment_is_removed_with_the_last_of_its_events(store: Store, clock: Clock) -> None:
    """The rows of a segment stay as long as one of its events."""
    kept, gone = named("m-1", "orders"), named("m-2", "orders")
    await store.accept([gone])
    assert await store.search.arrange(least=1)
    await store.accept([kept])
    assert await store.search.arrange(least=1)
    assert not await store.search.arrange(least=1)
    await store.settle([settlement(gone.deliveries[0], State.DELIVERED)])
    clock.advance(10)

    while await store.prune(delivered_before_ms=clock.now, failed_before_ms=0, limit=10):
        pass

    assert await found(store, replace(ALL, message_id="m-1")) == ids([kept])
    assert await found(store, replace(ALL, message_id="m-2")) == []
    assert await rows_of(store, "search_segments") == 1
    assert await rows_of(store, "search_blocks") == 1


async def merged_groups(store: Store) -> int:
    """Merge until no group is left, and return how many there were."""
    groups = 0
    while await store.search.merge():
        groups += 1
    return groups


async def test_the_segments_of_a_complete_group_become_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every event is found before, while and after its lines move; a group to which segments are added waits."""
    monkeypatch.setattr(segment_merging, "GROUP", 4)
    new = [named(f"m-{number}", "orders", event_id=f"e-{number}") for number in range(45)]
    for begin in range(0, 45, 5):
        await store.accept(new[begin : begin + 5])
        assert await store.search.arrange(least=1)
    assert await rows_of(store, "search_segments") == 9

    assert await merged_groups(store) == 2

    assert await rows_of(store, "search_segments") == 4  # 1 to 3, 4 to 7, 8, 9
    for one in new:
        assert await found(store, replace(ALL, message_id=one.message_id)) == ids([one])
        assert await found(store, replace(ALL, event_id=one.event_id)) == ids([one])
    assert await found(store, replace(ALL, message_id="m-45")) == []


@pytest.mark.both_engines
async def test_an_interrupted_merge_loses_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that ends between two transactions leaves each line in one place; the next leader merges the rest."""
    monkeypatch.setattr(segment_merging, "GROUP", 2)
    new = [named(f"m-{number}", "orders") for number in range(400)]
    for begin in range(0, 400, 100):
        await store.accept(new[begin : begin + 100])
        assert await store.search.arrange(least=1)
    rows = await rows_of(store, "search_blocks")
    for bucket in range(0, message_index.BUCKETS // 2, segment_merging.BUCKETS_AT_ONCE):
        merge = partial(segment_merging.merge, group=1, first_bucket=bucket)
        await store.transactions.write("test", merge)

    assert await rows_of(store, "search_segments") == 4
    assert await rows_of(store, "search_blocks") < rows
    for one in new[::20]:
        assert await found(store, replace(ALL, message_id=one.message_id)) == ids([one])
    await merged_groups(store)
    assert await rows_of(store, "search_segments") == 3
    for one in new[::20]:
        assert await found(store, replace(ALL, message_id=one.message_id)) == ids([one])


async def test_long_rows_of_a_segment_are_not_merged(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that share an id fill one row of each segment; these rows stay, and the search finds all of them."""
    monkeypatch.setattr(segment_merging, "GROUP", 2)
    monkeypatch.setattr(segment_merging, "LONGEST", 100)
    new = [named("m-1" if number % 2 else f"m-1-{number}", "orders") for number in range(40)]
    for begin in range(0, 40, 10):
        await store.accept(new[begin : begin + 10])
        assert await store.search.arrange(least=1)

    assert await merged_groups(store) == 2

    assert await rows_of(store, "search_segments") == 4
    assert await found(store, replace(ALL, message_id="m-1")) == sorted(ids(new[1::2]), reverse=True)
    assert await found(store, replace(ALL, message_id="m-1-0")) == ids(new[:1])


async def test_a_merged_segment_is_removed_with_the_last_event_of_its_group(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segment that has the lines of others stays while one of their events is there."""
    monkeypatch.setattr(segment_merging, "GROUP", 4)
    new = [named(f"m-{number}", "orders") for number in range(4)]
    for one in new:
        await store.accept([one])
        assert await store.search.arrange(least=1)
    assert await merged_groups(store) == 1  # 1 to 3
    for removed, left in ((new[:2], 2), (new[2:3], 1)):
        await store.settle([settlement(one.deliveries[0], State.DELIVERED) for one in removed])
        clock.advance(10)
        while await store.prune(delivered_before_ms=clock.now, failed_before_ms=0, limit=10):
            pass
        assert await rows_of(store, "search_segments") == left
        assert await found(store, replace(ALL, message_id="m-3")) == ids(new[3:])
        assert len(await found(store, replace(ALL, message_id="m-2"))) == left - 1
