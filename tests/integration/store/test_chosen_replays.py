"""A replay sends deliveries again by state, type and time of acceptance, a limited number at a time."""

import asyncio
from collections.abc import Sequence

import pytest
from integration.store.conftest import Open
from support.store_factories import Clock, claimed_ids, event, failures_of, settlement, state_of

from hookwright_operator.ids import first_delivery_id, message_id
from hookwright_operator.store.chosen_replays import Wanted
from hookwright_operator.store.records import Choice, Counts, NewDelivery, NewEvent, ReplayState, State
from hookwright_operator.store.sql import read, replay, replay_choice
from hookwright_operator.store.store import Store

HOUR = 3_600_000
DELIVERED, FAILED = State.DELIVERED, State.FAILED
BOTH = Choice((DELIVERED, FAILED))


def delivery_at(epoch_ms: int, number: int = 0, uid: str = "orders") -> NewDelivery:
    """Build a delivery whose id has the time of its acceptance."""
    return NewDelivery(f"{first_delivery_id(epoch_ms)[:14]}{number:016}", uid, claimed=True)


async def ended(store: Store, state: State, *deliveries: NewDelivery, event_type: str = "delivered") -> list[str]:
    """Accept and settle deliveries, and return their ids."""
    events = [
        NewEvent(message_id(), "acme", "billing", None, event_type, b"{}", (delivery,)) for delivery in deliveries
    ]
    await store.accept(events)
    await store.settle([settlement(delivery, state) for delivery in deliveries])
    return [delivery.id for delivery in deliveries]


def wanted(clock: Clock, choice: Choice = BOTH, *, since: int = 0, until: int | None = None) -> Wanted:
    """Build a request for the endpoint of the tests."""
    return Wanted("orders", choice, since, clock.now if until is None else until)


async def completed(store: Store, replay_id: str = "rec_1", limit: int = 1000) -> int:
    """Advance a replay to its end, deliver the pending deliveries, and return the number of steps."""
    steps = 0
    while (await store.running_replays()) and steps < 1000:
        await store.chosen_replays.advance(replay_id, limit=limit)
        for delivery in await store.claim([("orders", limit)]):
            await store.settle([settlement(delivery, State.DELIVERED)])
        steps += 1
    return steps


async def pending(store: Store, ids: Sequence[str]) -> list[str]:
    """Return which deliveries are pending."""
    return [item for item in ids if await state_of(store, item) is State.PENDING]


@pytest.mark.both_engines
@pytest.mark.parametrize(
    ("choice", "chosen"),
    [
        (Choice((FAILED,)), [1, 3]),
        (Choice((DELIVERED,)), [0, 2]),
        (BOTH, [0, 1, 2, 3]),
        (Choice((DELIVERED, FAILED), ("opened", "clicked")), [2, 3]),
        (Choice((FAILED,), ("opened",)), [3]),
        (Choice((FAILED,), ("bounced",)), []),
    ],
)
async def test_state_and_type_choose_the_deliveries(
    store: Store, clock: Clock, choice: Choice, chosen: list[int]
) -> None:
    """No delivery in another state, of another type or of another endpoint changes; the counters agree."""
    all_ids: list[str] = []
    for number, state in enumerate([DELIVERED, FAILED, DELIVERED, FAILED]):
        kind = "delivered" if number < 2 else "opened"
        all_ids += await ended(store, state, delivery_at(clock.now - HOUR + number), event_type=kind)
    await ended(store, FAILED, delivery_at(clock.now - HOUR, 1, "audit"), event_type="opened")
    await ended(store, DELIVERED, delivery_at(clock.now - HOUR, 2, "audit"), event_type="opened")

    job = await store.chosen_replays.begin("rec_1", wanted(clock, choice))
    assert (job.total, job.total_is_exact, job.choice) == (len(chosen), True, choice)
    assert await store.chosen_replays.advance("rec_1", limit=10) == len(chosen)

    expected = [all_ids[number] for number in chosen]
    assert await pending(store, all_ids) == expected
    assert await claimed_ids(store) == expected
    count = sum(number in (0, 2) for number in chosen)
    counts = (await store.read(read.counts))["orders"]
    assert (counts.pending, counts.delivered, counts.failed) == (
        len(chosen),
        2 - count,
        2 - (len(chosen) - count),
    )
    text = await store.replay("rec_1")
    assert text is not None
    assert (text.state, text.done, text.choice) == (ReplayState.COMPLETED, len(chosen), choice)
    assert (await store.read(read.counts))["audit"].pending == 0


async def test_the_time_of_acceptance_chooses_both_ends_included(store: Store, clock: Clock) -> None:
    """A delivery that was accepted a millisecond before or after the time range does not change."""
    since, until = clock.now - 2 * HOUR, clock.now - HOUR
    moments = [since - 1, since, until, until + 1]
    ids = await ended(store, DELIVERED, *[delivery_at(at, number) for number, at in enumerate(moments)])

    await store.chosen_replays.begin("rec_1", wanted(clock, since=since, until=until))
    await store.chosen_replays.advance("rec_1", limit=10)

    assert await pending(store, ids) == ids[1:3]


@pytest.mark.both_engines
@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_every_delivery_is_sent_once_the_oldest_first(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Among many deliveries of another endpoint, with few rows in a step, none is missed or repeated."""
    monkeypatch.setattr(replay, "STEP_ROWS", 20)
    monkeypatch.setattr(replay_choice, "_FEWEST", 1)
    begin = clock.now - HOUR
    mine = [delivery_at(begin + 700 * place, place) for place in range(12)]
    await ended(store, DELIVERED, *[delivery_at(begin + 100 * place, 50, "audit") for place in range(90)])
    await ended(store, DELIVERED, *mine[::2])
    await ended(store, FAILED, *mine[1::2])

    job = await store.chosen_replays.begin("rec_1", wanted(clock))
    assert job.total == 12
    order: list[str] = []
    while await store.running_replays():
        await store.chosen_replays.advance("rec_1", limit=limit)
        for delivery in await store.claim([("orders", 100)]):
            order.append(delivery.id)
            await store.settle([settlement(delivery, FAILED)])

    assert order == [item.id for item in mine]
    text = await store.replay("rec_1")
    assert text is not None
    assert (text.done, text.total) == (12, 12)


@pytest.mark.both_engines
async def test_two_replicas_take_a_step_once(store: Store, neighbour: Store, clock: Clock) -> None:
    """Both may search at the same time; one of them writes, and each delivery is counted once."""
    await ended(store, DELIVERED, *[delivery_at(clock.now - HOUR, number) for number in range(10)])
    await store.chosen_replays.begin("rec_1", wanted(clock))

    second_receiver = await asyncio.gather(
        *[replica.chosen_replays.advance("rec_1", limit=100) for replica in (store, neighbour) * 3]
    )

    assert sum(number or 0 for number in second_receiver) == 10
    assert await store.read(read.counts_of, "orders") == Counts(10, 0, 0, 0, 1_800_000_000_000, 200)


@pytest.mark.both_engines
async def test_what_changed_since_the_search_stays_as_it_is(store: Store, clock: Clock) -> None:
    """A delivery that was retried by hand between search and write is neither changed nor counted."""
    first, second = await ended(store, FAILED, *[delivery_at(clock.now - HOUR, number) for number in range(2)])
    await store.chosen_replays.begin("rec_1", wanted(clock))
    step = await store.transactions.read(
        "test", lambda connection: replay.next_step(connection, "rec_1", limit=10, now=clock.now)
    )
    assert step is not None
    assert list(step[1].ids) == [first, second]
    await store.retry(first)

    outcome = await store.transactions.write(
        "test", lambda connection: replay.take_step(connection, "rec_1", *step, slot=0, now=clock.now)
    )

    assert outcome == (1, "orders")
    assert (await store.read(read.counts_of, "orders")).pending == 2


async def test_a_replay_goes_on_where_it_was_after_a_restart(open_store: Open, clock: Clock) -> None:
    """The position is in the database, written together with the deliveries."""
    store = await open_store()
    ids = await ended(store, DELIVERED, *[delivery_at(clock.now - HOUR, number) for number in range(5)])
    await store.chosen_replays.begin("rec_1", wanted(clock))
    assert await store.chosen_replays.advance("rec_1", limit=2) == 2
    assert await store.chosen_replays.advance("rec_1", limit=2) is None
    await store.close()

    store = await open_store()
    [job] = await store.running_replays()
    assert (job.id, job.done, job.total, job.choice) == ("rec_1", 2, 5, BOTH)
    await completed(store, limit=2)

    records = [await store.read_log(read.delivery, item) for item in ids]
    assert [len(record.attempts) for record in records if record] == [2] * 5


async def test_a_cancelled_replay_leaves_its_deliveries_pending(store: Store, clock: Clock) -> None:
    """No further delivery becomes pending, and a further cancellation changes nothing."""
    ids = await ended(store, DELIVERED, *[delivery_at(clock.now - HOUR, number) for number in range(3)])
    await store.chosen_replays.begin("rec_1", wanted(clock))
    await store.chosen_replays.advance("rec_1", limit=1)

    await store.chosen_replays.cancel("rec_1")
    clock.advance(1)
    await store.chosen_replays.cancel("rec_1")

    assert await store.chosen_replays.advance("rec_1", limit=10) is None
    assert await pending(store, ids) == ids[:1]
    text = await store.replay("rec_1")
    assert text is not None
    assert (text.state, text.done, text.ended_ms) == (ReplayState.CANCELLED, 1, clock.now - 1)


@pytest.mark.both_engines
async def test_an_endpoint_has_one_running_replay(store: Store, neighbour: Store, clock: Clock) -> None:
    """A second replay of an endpoint returns the first one, on every replica; other endpoints have their own."""
    await ended(store, FAILED, delivery_at(clock.now - HOUR))
    first = await neighbour.chosen_replays.begin("rec_1", wanted(clock, Choice((DELIVERED,))))

    assert await store.chosen_replays.begin("rec_2", wanted(clock)) == first
    assert (await store.chosen_replays.begin("rec_3", failures_of("audit"))).id == "rec_3"
    assert await store.replay("rec_2") is None

    await store.chosen_replays.advance("rec_1", limit=10)
    assert (await store.chosen_replays.begin("rec_2", wanted(clock))).id == "rec_2"
    assert [job.id for job in await store.read_log(replay.latest_replays, "orders")] == ["rec_2", "rec_1"]


async def test_an_endpoint_keeps_a_bounded_number_of_replays(store: Store, clock: Clock) -> None:
    """A new replay removes the oldest ones beyond the bound, and none of other endpoints."""
    await store.chosen_replays.begin("rec_000", failures_of("audit"))
    for number in range(replay.KEPT_REPLAYS + 5):
        await store.chosen_replays.begin(f"rec_{number + 1:03}", wanted(clock))
        await store.chosen_replays.cancel(f"rec_{number + 1:03}")

    replays = await store.read_log(replay.latest_replays, "orders")

    assert [job.id for job in replays] == [
        f"rec_{replay.KEPT_REPLAYS + 5 - back:03}" for back in range(replay.KEPT_REPLAYS)
    ]
    assert await store.replay("rec_005") is None
    assert await store.replay("rec_000") is not None


async def test_a_count_has_a_bound(store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound the total is a least number; the replay still sends all."""
    monkeypatch.setattr("hookwright_operator.store.chosen_replays.MOST_COUNTED", 3)
    ids = await ended(store, DELIVERED, *[delivery_at(clock.now - HOUR, number) for number in range(5)])

    assert await store.chosen_replays.count(wanted(clock)) == (3, False)
    assert await store.chosen_replays.count(wanted(clock, Choice((FAILED,)))) == (0, True)
    job = await store.chosen_replays.begin("rec_1", wanted(clock))
    assert (job.total, job.total_is_exact) == (3, False)
    await store.chosen_replays.advance("rec_1", limit=10)

    assert await pending(store, ids) == ids
    text = await store.replay("rec_1")
    assert text is not None
    assert (text.total, text.done) == (5, 5)


@pytest.mark.both_engines
async def test_a_step_waits_until_most_due_deliveries_are_gone(store: Store, clock: Clock) -> None:
    """A replay makes deliveries due up to the limit. Sent ones, and those that are due later, do not count."""
    orders = await ended(store, FAILED, *[delivery_at(clock.now - HOUR, number) for number in range(6)])
    await store.chosen_replays.begin("rec_1", wanted(clock))

    assert await store.chosen_replays.advance("rec_1", limit=4) == 4
    assert await pending(store, orders) == orders[:4]
    assert await store.chosen_replays.advance("rec_1", limit=4) is None
    first = await store.claim([("orders", 1)])
    await store.settle([settlement(first[0], DELIVERED)])
    assert await store.chosen_replays.advance("rec_1", limit=4) is None
    second = await store.claim([("orders", 1)])
    await store.settle([settlement(second[0], State.PENDING, due_ms=clock.now + 1)])
    assert await store.chosen_replays.advance("rec_1", limit=4) == 2

    assert [first[0].id, second[0].id] == orders[:2]
    assert await claimed_ids(store) == orders[2:]


async def test_a_backlog_of_fresh_events_goes_first(store: Store, clock: Clock) -> None:
    """An endpoint that cannot keep up gets no old deliveries, and its replay stays open."""
    await ended(store, FAILED, *[delivery_at(clock.now - HOUR, number) for number in range(3)])
    await store.accept([event(*["orders"] * 5)])
    await store.chosen_replays.begin("rec_1", wanted(clock))

    assert await store.chosen_replays.advance("rec_1", limit=4) is None

    [running] = await store.running_replays()
    assert (running.id, running.total, running.done) == ("rec_1", 3, 0)


@pytest.mark.both_engines
async def test_a_replayed_delivery_starts_its_schedule_anew(store: Store, clock: Clock) -> None:
    """It is due now with a new retry schedule, and its next attempt continues the numbers."""
    [replayed] = await ended(store, FAILED, delivery_at(clock.now - HOUR))
    clock.advance(60_000)
    await store.chosen_replays.begin("rec_1", wanted(clock))
    await store.chosen_replays.advance("rec_1", limit=1)

    assert await store.next_due() == {"orders": clock.now}
    [claimed] = await store.claim([("orders", 1)])
    assert (claimed.id, claimed.attempts) == (replayed, 0)
    await store.settle([settlement(claimed, DELIVERED)])
    record = await store.read_log(read.delivery, replayed)
    assert record is not None
    assert [attempt.number for attempt in record.attempts] == [1, 2]


async def test_a_deleted_endpoints_replay_ends(store: Store, clock: Clock) -> None:
    """The replay is cancelled, its pending deliveries are discarded, and the rest stays failed."""
    orders = await ended(store, FAILED, *[delivery_at(clock.now - HOUR, number) for number in range(3)])
    await store.chosen_replays.begin("rec_1", wanted(clock))
    await store.chosen_replays.advance("rec_1", limit=2)

    assert await store.discard("orders", "endpoint deleted") == 2

    assert await store.chosen_replays.advance("rec_1", limit=2) is None
    text = await store.replay("rec_1")
    assert text is not None
    assert (text.state, text.done, text.ended_ms) == (ReplayState.CANCELLED, 2, clock.now)
    assert [await state_of(store, order) for order in orders] == [State.DISCARDED, State.DISCARDED, FAILED]
    assert await store.read(read.counts_of, "orders") == Counts(0, 0, 1, 2, 1_800_000_000_000, 200)


async def test_a_replay_of_nothing_completes(store: Store, clock: Clock) -> None:
    """The first step completes an empty replay; a step of an unknown replay does nothing."""
    assert (await store.chosen_replays.begin("rec_1", wanted(clock))).total == 0
    assert await store.chosen_replays.advance("rec_1", limit=1) == 0
    assert await store.chosen_replays.advance("rec_unknown", limit=1) is None

    assert await store.running_replays() == []
    assert await store.replay("rec_unknown") is None
