"""Events that an endpoint has no delivery of are kept within bounds, and a replay sends them, on both engines."""

import zlib
from collections.abc import Sequence
from functools import partial

import pytest
from sqlalchemy import Connection, func, select
from support.store_factories import Clock, claimed_ids, settlement

from hookwright_operator.ids import delivery_id_like, epoch_ms_of, first_event_id
from hookwright_operator.store.chosen_replays import Wanted
from hookwright_operator.store.records import Attempt, Choice, NewDelivery, NewEvent, ReplayState, State
from hookwright_operator.store.schema import events, kept_events
from hookwright_operator.store.sql import kept_events as kept
from hookwright_operator.store.sql import missed_events, replay
from hookwright_operator.store.sql import read as read_sql
from hookwright_operator.store.sql import search as search_sql
from hookwright_operator.store.store import Store

HOUR = 3_600_000
DAY = 24 * HOUR
BILLING = ("acme", "billing")
DELIVERED = Choice((), ("delivered",))


def event(
    epoch_ms: int, number: int = 0, *uids: str, project: str = "billing", kind: str = "delivered", keep: bool = True
) -> NewEvent:
    """Build an event of a time with a delivery for each endpoint."""
    its_id = f"{first_event_id(epoch_ms)[:14]}{number:016}"
    deliveries = tuple(NewDelivery(delivery_id_like(its_id), uid, claimed=False) for uid in uids)
    return NewEvent(its_id, "acme", project, None, kind, b"{}", deliveries, kept=keep)


async def numbers(store: Store) -> tuple[int, int]:
    """Return how many rows the tables of events and of kept events have."""

    def read(connection: Connection) -> tuple[int, int]:
        counts = [connection.scalar(select(func.count()).select_from(table)) or 0 for table in (events, kept_events)]
        return counts[0], counts[1]

    return await store.transactions.read("numbers", read)


def wanted(clock: Clock, types: Sequence[str] = ("delivered",), *, since: int = 0) -> Wanted:
    """Build a request for the events that the endpoint "orders" missed."""
    return Wanted("orders", Choice((), tuple(types)), since, clock.now, BILLING)


async def completed(store: Store, limit: int = 100) -> list[str]:
    """Advance the replay to its end, deliver all its deliveries, and return the events in their order."""
    sent: list[str] = []
    for _ in range(1000):
        if not await store.running_replays():
            return sent
        await store.chosen_replays.advance("rec_1", limit=limit, project=BILLING)
        for claimed in await store.claim([("orders", limit)]):
            sent.append(claimed.event_id)
            await store.settle([settlement(claimed, State.DELIVERED)])
    raise AssertionError("the replay does not end")


async def test_an_event_without_a_subscriber_is_stored_only_if_it_is_to_be_kept(store: Store, clock: Clock) -> None:
    """The project's setting decides for each event."""
    await store.accept([event(clock.now, 1), event(clock.now, 2, keep=False), event(clock.now, 3, "audit")])
    assert await numbers(store) == (2, 1)
    found = await store.read_log(search_sql.event, event(clock.now, 1).id)
    assert found is not None
    assert (found.deliveries, found.body) == (0, b"{}")


@pytest.mark.both_engines
async def test_a_replay_sends_what_an_endpoint_missed_and_nothing_else(store: Store, clock: Clock) -> None:
    """Neither events that it got, nor those of other projects, types and times; and a second replay sends nothing."""
    then = clock.now - DAY
    without_subscriber, for_another = event(then, 1), event(then, 2, "audit", keep=False)
    got, failed = event(then, 3, "orders", "audit"), event(then, 4, "orders")
    foreign, other_type = event(then, 5, project="payroll"), event(then, 6, kind="opened")
    await store.accept([without_subscriber, for_another, got, failed, foreign, other_type, event(then - HOUR, 7)])
    [_, refused] = await store.claim([("orders", 10)])
    await store.settle([settlement(refused, State.FAILED)])
    clock.advance(HOUR)

    request = wanted(clock, since=then)
    assert await store.chosen_replays.count(request) == (2, True)
    job = await store.chosen_replays.begin("rec_1", request)
    assert (job.total, job.choice) == (2, DELIVERED)
    # One delivery of "orders" is still claimed, so it is not sent by the replay's claims.
    assert await completed(store) == [without_subscriber.id, for_another.id]
    ended = await store.replay("rec_1")
    assert ended is not None
    assert (ended.state, ended.done) == (ReplayState.COMPLETED, 2)
    assert await store.chosen_replays.count(wanted(clock, since=then)) == (0, True)
    counts = (await store.read(read_sql.counts))["orders"]
    assert (counts.pending, counts.delivered, counts.failed) == (1, 2, 1)


async def test_a_recorded_test_was_missed_by_no_other_endpoint(store: Store, clock: Clock) -> None:
    """A test was sent to its endpoint by hand, so a replay of another endpoint of the project does not send it."""
    then = clock.now - DAY
    missed = event(then, 1, "audit", keep=False)
    await store.accept([missed])
    for number in (2, 3):
        attempt = Attempt(1, then, 12, 200, "", "")
        await store.record_test(event(then, number, "audit", keep=False), attempt, then)

    assert await store.chosen_replays.count(wanted(clock)) == (1, True)
    await store.chosen_replays.begin("rec_1", wanted(clock))
    assert await completed(store) == [missed.id]


async def test_deliveries_of_missed_events_are_found_at_the_time_of_their_events(store: Store, clock: Clock) -> None:
    """The log sorts by acceptance; the event lists the delivery."""
    then = clock.now - DAY
    await store.accept([event(then, 1)])
    await store.chosen_replays.begin("rec_1", wanted(clock))
    await completed(store)
    [record], _ = await store.read_log(read_sql.log, "orders", state=None, limit=10, cursor=None)
    assert epoch_ms_of(record.id) == then
    found = await store.read_log(search_sql.event, event(then, 1).id)
    assert found is not None
    listed, _ = await store.read_log(search_sql.deliveries_of, found, ["orders"], limit=10)
    assert [one.id for one in listed] == [record.id]


async def test_a_replay_of_missed_events_waits_for_the_endpoint(store: Store, clock: Clock) -> None:
    """It keeps the pace of other replays, and goes on where it was."""
    expected = [event(clock.now - DAY, number) for number in range(25)]
    await store.accept(expected)
    await store.chosen_replays.begin("rec_1", wanted(clock))
    assert await store.chosen_replays.advance("rec_1", limit=10, project=BILLING) == 10
    assert await store.chosen_replays.advance("rec_1", limit=10, project=BILLING) is None
    assert len(await claimed_ids(store)) == 10
    job = await store.replay("rec_1")
    assert job is not None
    assert (job.done, job.state) == (10, ReplayState.RUNNING)


@pytest.mark.both_engines
async def test_a_step_that_another_replica_has_taken_writes_nothing(
    store: Store, neighbour: Store, clock: Clock
) -> None:
    """Two replicas that searched the same step send each event once."""
    await store.accept([event(clock.now - DAY, number) for number in range(5)])
    await store.chosen_replays.begin("rec_1", wanted(clock))

    def search(connection: Connection) -> replay.ReplayStep | None:
        return replay.next_step(connection, "rec_1", project=BILLING, limit=4, now=clock.now)

    step = await neighbour.transactions.read("search", search)
    assert step is not None
    assert await store.chosen_replays.advance("rec_1", limit=4, project=BILLING) == 4
    taken = await neighbour.transactions.write(
        "take", lambda connection: replay.take_step(connection, "rec_1", step, slot=0, now=clock.now)
    )
    assert taken == (0, "")


async def test_retention_removes_a_kept_event_with_its_last_delivery(store: Store, clock: Clock) -> None:
    """Pruning the delivery of a replay leaves the event for other endpoints; its own age removes it."""
    await store.accept([event(clock.now, 1), event(clock.now, 2)])
    await store.chosen_replays.begin("rec_1", wanted(clock))
    await completed(store)
    clock.advance(DAY)
    before = {"failed_before_ms": 0, "limit": 100}
    cut = clock.now - DAY
    assert await store.prune(delivered_before_ms=cut, **before) == 0
    await store.prune(delivered_before_ms=cut + 1, **before)
    assert await numbers(store) == (0, 0)


async def test_pruning_a_delivery_leaves_the_kept_event(store: Store, clock: Clock) -> None:
    """An event that was accepted later than the limit stays, although its delivery is removed."""
    await store.accept([event(clock.now + HOUR, 1)])
    await store.chosen_replays.begin("rec_1", Wanted("orders", DELIVERED, 0, clock.now + DAY, BILLING))
    assert len(await completed(store)) == 1
    await store.prune(delivered_before_ms=clock.now + 1, failed_before_ms=0, limit=100)
    assert await numbers(store) == (1, 1)


async def test_a_project_keeps_its_newest_events(store: Store, clock: Clock) -> None:
    """Beyond the bound a new event replaces the oldest one of the same project; others lose none."""
    await store.accept([event(clock.now, number) for number in range(1, 4)])
    await store.accept([event(clock.now, 10, project="payroll")])
    new = [event(clock.now, number) for number in (4, 5)]

    def write(connection: Connection) -> list[str]:
        kept.note(connection, new, most=3, trimmed_every=1)
        query = (
            select(kept_events.c.event_id).where(kept_events.c.project == "billing").order_by(kept_events.c.event_id)
        )
        return list(connection.scalars(query))

    left = await store.transactions.write("keep", write)
    assert left == [event(clock.now, number).id for number in (3, 4, 5)]
    # Four events of both projects were written, and the note does not write events.
    assert await numbers(store) == (2, 4)


async def test_the_oldest_events_are_removed_after_some_new_ones(store: Store, clock: Clock) -> None:
    """Each removal reads as many rows as a project keeps, so it happens for one of many events and removes several."""
    given = [event(clock.now, number) for number in range(1, 401)]
    most_seen = 0
    for one in given:
        await store.transactions.write("keep", partial(kept.note, new=[one], most=10))
        most_seen = max(most_seen, (await numbers(store))[1])
    assert 10 < most_seen < 250
    last = [one for one in given if zlib.crc32(one.id.encode()) % kept.TRIMMED_EVERY == 0][-1]
    assert (await numbers(store))[1] == 10 + len(given) - 1 - given.index(last)


@pytest.mark.both_engines
async def test_a_new_event_does_not_lock_those_that_stay(store: Store, clock: Clock, url: str) -> None:
    """A lock is a write in PostgreSQL, so each event would write 10,000 rows and wait for other replicas."""
    await store.accept([event(clock.now, number) for number in range(1, 21)])

    def write(connection: Connection) -> int:
        kept.note(connection, [event(clock.now, 21)], most=20, trimmed_every=1)
        if url.startswith("sqlite"):
            return 0
        locked = "SELECT count(*) FROM kept_events WHERE xmax::text = pg_current_xact_id()::text"
        return int(connection.exec_driver_sql(locked).scalar_one())

    assert await store.transactions.write("keep", write) == 0
    assert await numbers(store) == (19, 20)


@pytest.mark.both_engines
@pytest.mark.parametrize(("events_at_most", "deliveries_at_most"), [(3, 50_000), (100, 100)])
async def test_events_among_very_many_others_are_examined_a_few_at_once(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch, events_at_most: int, deliveries_at_most: int
) -> None:
    """If there are too many events or deliveries for one read, it examines fewer; the next read goes on behind them."""
    monkeypatch.setattr(missed_events, "ROWS", deliveries_at_most)
    then = clock.now - DAY
    for number in range(6):
        await store.accept([event(then + 10_000 * number, number, *(f"uid-{one}" for one in range(8)), keep=False)])

    def search(connection: Connection, after: str) -> tuple[list[str], str | None]:
        within = missed_events.Range("orders", BILLING, ("delivered",), after, first_event_id(clock.now))
        found = missed_events.find(connection, within, limit=100, rows_at_most=events_at_most)
        return found.ids, found.reached

    seen: list[str] = []
    after: str | None = first_event_id(0)
    while after is not None:
        ids, after = await store.transactions.read("search", partial(search, after=after))
        seen += ids
    assert seen == [event(then + 10_000 * number, number).id for number in range(6)]


async def test_a_large_request_keeps_its_events_without_a_subscriber(store: Store, clock: Clock) -> None:
    """The other events of the request are fanned out; an event that is not to be kept is not stored."""
    given = [event(clock.now, 1), event(clock.now, 2, kind="opened"), event(clock.now, 3, kind="opened", keep=False)]
    fanned_out = await store.fan_outs.accept(given, {"delivered": ["orders"], "opened": []})
    assert (fanned_out.accepted.accepted, fanned_out.accepted.deliveries) == (3, 1)
    assert [one.id for one in fanned_out.fan_outs] == [given[0].id]
    assert await numbers(store) == (2, 1)


async def test_a_replay_ends_before_events_whose_deliveries_are_not_all_written(store: Store, clock: Clock) -> None:
    """The endpoint gets each event once. A fan-out of another namespace does not delay the replay."""
    earlier, later = event(clock.now - HOUR, 1), event(clock.now, 9)
    fanned_out = [event(clock.now, number, keep=False) for number in range(2, 7)]
    await store.accept([earlier])
    [open_fan_out] = (await store.fan_outs.accept(fanned_out, {"delivered": ["audit", "orders"]})).fan_outs
    await store.accept([later])
    foreign = event(clock.now - DAY, 1)._replace(namespace="globex")
    await store.fan_outs.accept([foreign], {"delivered": ["elsewhere"]})
    clock.advance(HOUR)

    request = wanted(clock)
    assert await store.chosen_replays.count(request) == (1, False)
    await store.chosen_replays.begin("rec_1", request)
    for _ in range(3):
        await store.chosen_replays.advance("rec_1", limit=100, project=BILLING)
    assert [one.event_id for one in await store.claim([("orders", 100)])] == [earlier.id]
    job = await store.replay("rec_1")
    assert job is not None
    assert (job.done, job.state) == (1, ReplayState.RUNNING)

    await store.fan_outs.write_slice(open_fan_out, [delivery_id_like(one.id) for one in fanned_out * 2])
    assert sorted(await completed(store)) == [*(one.id for one in fanned_out), later.id]
