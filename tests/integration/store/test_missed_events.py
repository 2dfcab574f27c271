"""Events that an endpoint has no delivery of: the store keeps them, and a replay sends them, on both engines."""

from collections.abc import Sequence
from functools import partial

import pytest
from sqlalchemy import Connection, func, select
from support.store_factories import Clock, claimed_ids, settlement

from hookwright_operator.ids import delivery_id_like, epoch_ms_of, first_event_id
from hookwright_operator.store.chosen_replays import Wanted
from hookwright_operator.store.records import Attempt, Choice, NewDelivery, NewEvent, ReplayState, State
from hookwright_operator.store.schema import events
from hookwright_operator.store.sql import read as read_sql
from hookwright_operator.store.sql import replay, replay_choice
from hookwright_operator.store.sql import search as search_sql
from hookwright_operator.store.sql.paging import Found
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


async def number(store: Store) -> int:
    """Return how many events are stored."""

    def read(connection: Connection) -> int:
        return connection.scalar(select(func.count()).select_from(events)) or 0

    return await store.transactions.read("number", read)


def wanted(clock: Clock, types: Sequence[str] = ("delivered",), *, since: int = 0) -> Wanted:
    """Build a request for the events that the endpoint "orders" missed."""
    return Wanted("orders", Choice((), tuple(types)), since, clock.now, BILLING)


async def completed(store: Store, limit: int = 100) -> list[str]:
    """Advance the replay to its end, deliver all its deliveries, and return the events in their order."""
    pieces: list[str] = []
    for _ in range(1000):
        if not await store.running_replays():
            return pieces
        await store.chosen_replays.advance("rec_1", limit=limit, project=BILLING)
        for delivery in await store.claim([("orders", limit)]):
            pieces.append(delivery.event_id)
            await store.settle([settlement(delivery, State.DELIVERED)])
    raise AssertionError("the replay does not end")


async def test_an_event_without_a_subscriber_is_stored_only_if_it_is_to_be_kept(store: Store, clock: Clock) -> None:
    """The project's setting decides for each event."""
    await store.accept([event(clock.now, 1), event(clock.now, 2, keep=False), event(clock.now, 3, "audit")])
    assert await number(store) == 2
    record = await store.read_log(search_sql.event, event(clock.now, 1).id)
    assert record is not None
    assert (record.deliveries, record.body) == (0, b"{}")


@pytest.mark.both_engines
async def test_a_replay_sends_what_an_endpoint_missed_and_nothing_else(store: Store, clock: Clock) -> None:
    """Neither events that it got, nor those of other projects, types and times; and a second replay sends nothing."""
    then = clock.now - DAY
    without_subscriber, for_another = event(then, 1), event(then, 2, "audit", keep=False)
    result, failed_event = event(then, 3, "orders", "audit"), event(then, 4, "orders")
    foreign, other_type = event(then, 5, project="payroll"), event(then, 6, kind="opened")
    await store.accept(
        [without_subscriber, for_another, result, failed_event, foreign, other_type, event(then - HOUR, 7)]
    )
    [_, delivery] = await store.claim([("orders", 10)])
    await store.settle([settlement(delivery, State.FAILED)])
    clock.advance(HOUR)

    request = wanted(clock, since=then)
    assert await store.chosen_replays.count(request) == (2, True)
    job = await store.chosen_replays.begin("rec_1", request)
    assert (job.total, job.choice) == (2, DELIVERED)
    # One delivery of "orders" is still claimed, so it is not sent by the replay's claims.
    assert set(await completed(store)) == {without_subscriber.id, for_another.id}
    progress = await store.replay("rec_1")
    assert progress is not None
    assert (progress.state, progress.done) == (ReplayState.COMPLETED, 2)
    assert await store.chosen_replays.count(wanted(clock, since=then)) == (0, True)
    counts = (await store.read(read_sql.counts))["orders"]
    assert (counts.pending, counts.delivered, counts.failed) == (1, 2, 1)


async def test_a_recorded_test_was_missed_by_no_other_endpoint(store: Store, clock: Clock) -> None:
    """A test was sent to its endpoint by hand, so a replay of another endpoint of the project does not send it."""
    then = clock.now - DAY
    missed_event = event(then, 1, "audit", keep=False)
    await store.accept([missed_event])
    for number in (2, 3):
        attempt = Attempt(1, then, 12, 200, "", "")
        await store.record_test(event(then, number, "audit", keep=False), attempt, then)

    assert await store.chosen_replays.count(wanted(clock)) == (1, True)
    await store.chosen_replays.begin("rec_1", wanted(clock))
    assert await completed(store) == [missed_event.id]


async def test_deliveries_of_missed_events_are_found_at_the_time_of_their_events(store: Store, clock: Clock) -> None:
    """The log sorts by acceptance; the event lists the delivery."""
    then = clock.now - DAY
    await store.accept([event(then, 1)])
    await store.chosen_replays.begin("rec_1", wanted(clock))
    await completed(store)
    [record], _ = await store.read_log(read_sql.log, "orders", state=None, limit=10, cursor=None)
    assert epoch_ms_of(record.id) == then
    rows = await store.read_log(search_sql.event, event(then, 1).id)
    assert rows is not None
    records, _ = await store.read_log(search_sql.deliveries_of, rows, ["orders"], limit=10)
    assert [row.id for row in records] == [record.id]


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
async def test_without_a_choice_of_types_every_type_of_producers_was_missed(store: Store, clock: Clock) -> None:
    """Own types count; an operational event that an endpoint does not have is one about itself."""
    then = clock.now - DAY
    kinds = ("delivered", "invoice.paid", "hookwright.endpoint.failing")
    await store.accept([event(then, number, kind=kind) for number, kind in enumerate(kinds)])
    await store.chosen_replays.begin("rec_1", wanted(clock, types=()))
    assert await completed(store) == [event(then, 0).id, event(then, 1).id]


@pytest.mark.both_engines
async def test_a_step_that_another_replica_has_taken_writes_nothing(
    store: Store, neighbour: Store, clock: Clock
) -> None:
    """Two replicas that searched the same step send each event once."""
    await store.accept([event(clock.now - DAY, number) for number in range(5)])
    await store.chosen_replays.begin("rec_1", wanted(clock))

    def search(connection: Connection) -> tuple[str, Found] | None:
        return replay.next_step(connection, "rec_1", project=BILLING, limit=4, now=clock.now)

    step = await neighbour.transactions.read("search", search)
    assert step is not None
    assert await store.chosen_replays.advance("rec_1", limit=4, project=BILLING) == 4
    outcome = await neighbour.transactions.write(
        "take", lambda connection: replay.take_step(connection, "rec_1", *step, slot=0, now=clock.now)
    )
    assert outcome == (0, "")


@pytest.mark.both_engines
async def test_retention_removes_a_kept_event_with_its_last_delivery(store: Store, clock: Clock) -> None:
    """Age removes an event that was never sent, and the event that a replay has sent with its delivery."""
    await store.accept([event(clock.now, 1), event(clock.now, 2, kind="opened")])
    await store.chosen_replays.begin("rec_1", wanted(clock))
    await completed(store)
    clock.advance(DAY)
    before = {"failed_before_ms": 0, "limit": 100}
    cut = clock.now - DAY
    assert await store.prune(delivered_before_ms=cut, **before) == 0
    assert await store.prune(delivered_before_ms=cut + 1, **before) > 0
    assert await number(store) == 0


@pytest.mark.both_engines
async def test_very_many_deliveries_of_others_hide_no_event(store: Store, clock: Clock) -> None:
    """The search reads the events of the project and the endpoint's own deliveries, and no others."""
    then = clock.now - DAY
    missed_event, result = event(then, 1, "audit"), event(then, 2, "orders", "audit")
    await store.accept([missed_event])
    for number in range(50):
        await store.accept([event(then, 100 + number, *(f"uid-{index}" for index in range(1000)), project="payroll")])
    await store.accept([result])
    # Claimed, so it is not sent by the replay's claims.
    assert len(await store.claim([("orders", 10)])) == 1
    assert await store.chosen_replays.count(wanted(clock)) == (1, True)
    await store.chosen_replays.begin("rec_1", wanted(clock))
    assert await completed(store) == [missed_event.id]


@pytest.mark.both_engines
@pytest.mark.parametrize("rows_at_most", [1, 3, 100])
async def test_a_search_of_few_rows_goes_on_where_it_ended(store: Store, clock: Clock, rows_at_most: int) -> None:
    """Searches of any size find each missed event once, in order."""
    then = clock.now - DAY
    for number in range(12):
        uids = ("orders",) if number % 3 == 0 else ()
        await store.accept([event(then + 700 * number, number, *uids, "audit", keep=False)])

    def search(connection: Connection, after: str) -> Found:
        return replay_choice.find(
            connection, DELIVERED, endpoint_uid="orders", project=BILLING, after=after, until_ms=clock.now,
            limit=2, rows_at_most=rows_at_most,
        )  # fmt: skip

    records: list[str] = []
    after: str | None = first_event_id(0)
    while after is not None:
        rows = await store.transactions.read("search", partial(search, after=after))
        records += rows.ids
        after = rows.position
    assert records == [event(then + 700 * number, number).id for number in range(12) if number % 3]
