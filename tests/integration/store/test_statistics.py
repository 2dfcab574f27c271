"""Statistics count settled deliveries and attempts by time, on both engines."""

from dataclasses import replace

import pytest
from integration.store.conftest import Open
from sqlalchemy import Connection, func, select
from support.dispatcher import subscriber
from support.store_factories import Clock, accept_one, event, ids, rows_of, settlement

from hookwright_operator.registry import ProjectSettings
from hookwright_operator.store import statistics
from hookwright_operator.store.database_errors import OutcomeUnknown
from hookwright_operator.store.latency_classes import class_of
from hookwright_operator.store.records import Bucket, NewDelivery, Settlement, State, Window
from hookwright_operator.store.schema import statistics as table
from hookwright_operator.store.sql import bucket_counts
from hookwright_operator.store.store import Store
from hookwright_runtime.errors import StoreUnavailable

MINUTE = 60_000
HOUR = 60 * MINUTE
LATENCY_MS = 7
"""The duration of each attempt that `settlement` makes."""


async def settled(store: Store, state: State, *, uid: str = "orders") -> NewDelivery:
    """Accept an event, and settle its delivery."""
    delivery = await accept_one(store, claimed=True, uid=uid)
    await store.settle([settlement(delivery, state, status=200 if state is State.DELIVERED else 500)])
    return delivery


def numbers(bucket: Bucket) -> tuple[int, int, int, int]:
    """Return delivered, failed, attempts and the attempts whose latency is counted."""
    assert sum(bucket.latencies) == bucket.latencies[class_of(LATENCY_MS)]
    return bucket.delivered, bucket.failed, bucket.attempts, sum(bucket.latencies)


async def total(store: Store, uid: str = "orders", *, window: Window = Window.HOUR) -> tuple[int, int, int, int]:
    """Return the sum of a window."""
    return numbers((await store.statistics.of(uid, window)).total)


async def busy_minutes(store: Store, window: Window = Window.HOUR) -> dict[int, int]:
    """Return the attempts of each bucket that has some, by the number of buckets before the last one."""
    buckets = (await store.statistics.of("orders", window)).buckets
    return {len(buckets) - 1 - place: bucket.attempts for place, (_, bucket) in enumerate(buckets) if bucket.attempts}


@pytest.mark.both_engines
async def test_each_window_counts_attempts_and_ends(store: Store) -> None:
    """Every attempt counts; a delivery counts when it has ended; only successful attempts have a latency."""
    for state in (State.DELIVERED, State.DELIVERED, State.FAILED, State.PENDING):
        await settled(store, state)
    await settled(store, State.DELIVERED, uid="audit")
    assert await total(store) == (0, 0, 0, 0)

    await store.statistics.flush()
    await store.statistics.flush()

    for window in Window:
        assert await total(store, window=window) == (2, 1, 4, 2)
        assert await total(store, "audit", window=window) == (1, 0, 1, 1)
    assert await total(store, "unknown") == (0, 0, 0, 0)


async def test_a_project_has_the_results_of_all_its_endpoints(store: Store) -> None:
    """They count once for the endpoint and once for its project; those of a deleted endpoint stay."""
    registry = store.statistics.registry
    for project in ("billing", "shipping"):
        registry.put_project("acme", project, ProjectSettings(uid=f"uid-of-{project}"))
    for uid, project in (("orders", "billing"), ("audit", "billing"), ("parcels", "shipping"), ("other", "unknown")):
        registry.put(replace(subscriber(uid, "https://example.com/"), project=project))
    for uid in ("orders", "audit", "parcels", "other", "orders"):
        await settled(store, State.DELIVERED, uid=uid)
    await store.statistics.flush()
    registry.remove("audit")
    await settled(store, State.FAILED)
    await store.statistics.flush()

    for window in Window:
        assert await total(store, "uid-of-billing", window=window) == (3, 1, 4, 3)
        assert await total(store, "uid-of-shipping", window=window) == (1, 0, 1, 1)
        assert await total(store, "orders", window=window) == (2, 1, 3, 2)


@pytest.mark.parametrize(("window", "width", "number"), [("1h", 60, 60), ("24h", 900, 96), ("7d", 7200, 84)])
async def test_a_window_ends_with_the_present_bucket(
    store: Store, clock: Clock, window: str, width: int, number: int
) -> None:
    """Buckets are aligned and complete; each has the attempts of one span of time."""
    clock.now = clock.now // 7_200_000 * 7_200_000 + 61_000
    await settled(store, State.DELIVERED)
    clock.advance(width * 1000)
    await settled(store, State.FAILED)
    await store.statistics.flush()

    buckets = (await store.statistics.of("orders", Window(window))).buckets

    assert [begin for begin, _ in buckets] == [
        clock.now // 1000 // width * width - back * width for back in reversed(range(number))
    ]
    assert [numbers(bucket) for _, bucket in buckets[-3:]] == [(0, 0, 0, 0), (1, 0, 1, 1), (0, 1, 1, 0)]
    clock.advance((number - 1) * width * 1000)
    assert await total(store, window=Window(window)) == (0, 1, 1, 0)
    clock.advance(width * 1000)
    assert await total(store, window=Window(window)) == (0, 0, 0, 0)


@pytest.mark.both_engines
async def test_flushes_and_replicas_add_to_one_bucket(store: Store, neighbour: Store) -> None:
    """What two replicas settled within a minute is one sum, in all widths."""
    await settled(store, State.DELIVERED)
    await store.statistics.flush()
    await settled(neighbour, State.FAILED)
    await neighbour.statistics.flush()
    await settled(store, State.DELIVERED)
    await store.statistics.flush()

    assert await total(store) == (2, 1, 3, 2)
    assert await rows_of(store, "statistics") == len(Window)


async def test_a_delivery_that_was_discarded_meanwhile_has_only_its_attempt(store: Store) -> None:
    """The delivery did not become delivered, but the receiver got the attempt."""
    delivery = await accept_one(store, claimed=True)
    await store.discard("orders", "endpoint deleted")
    await store.settle([settlement(delivery, State.DELIVERED)])
    await store.statistics.flush()

    assert await total(store) == (0, 0, 1, 1)


async def test_a_stop_loses_no_count(open_store: Open) -> None:
    """Closing the store writes the counts in memory."""
    store = await open_store()
    await settled(store, State.DELIVERED)
    await store.close()

    assert await total(await open_store()) == (1, 0, 1, 1)


@pytest.mark.parametrize(("unknown", "counted"), [(False, 1), (True, 0)])
async def test_a_failed_write_is_repeated_unless_its_outcome_is_unknown(
    store: Store, monkeypatch: pytest.MonkeyPatch, *, unknown: bool, counted: int
) -> None:
    """The counts stay in memory after a failure. They are dropped if they may be in the database."""
    await settled(store, State.DELIVERED)

    async def fail(*_work: object, **_weight: int) -> None:
        raise OutcomeUnknown("lost during COMMIT", None) if unknown else StoreUnavailable("the disk is full")

    monkeypatch.setattr(store.transactions, "write", fail)
    with pytest.raises(StoreUnavailable):
        await store.statistics.flush()
    monkeypatch.undo()
    await settled(store, State.FAILED)
    await store.statistics.flush()

    assert await total(store) == (counted, 1, counted + 1, counted)


async def test_old_buckets_are_removed_and_an_endpoint_has_a_bounded_number(store: Store, clock: Clock) -> None:
    """However long an endpoint is busy, it has the buckets of the windows and one further of each width."""
    bound = sum(window.buckets + 1 for window in Window)
    delivery = NewDelivery("dlv_1", "orders", claimed=True)
    for _ in range(8 * 24 * 60 // 7):
        clock.advance(7 * MINUTE)
        store.statistics.count([settlement(delivery, State.PENDING)], ())
    await store.statistics.flush()
    before = {window: await total(store, window=window) for window in Window}
    assert await rows_of(store, "statistics") > bound

    while await store.statistics.prune(limit=100):
        pass

    assert await rows_of(store, "statistics") <= bound
    assert {window: await total(store, window=window) for window in Window} == before
    clock.advance(9 * 24 * HOUR)
    while await store.statistics.prune(limit=100):
        pass
    assert await rows_of(store, "statistics") == 0


async def test_a_transaction_writes_a_bounded_number_of_rows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of many endpoints are written in several transactions, and nothing is lost."""
    add, sizes = bucket_counts.add, list[int]()

    def measured(connection: Connection, cells: list[tuple[str | int, ...]]) -> None:
        sizes.append(len(cells))
        add(connection, cells=cells)

    monkeypatch.setattr(bucket_counts, "add", measured)
    uids = [f"uid-{number}" for number in range(statistics.CELLS_AT_ONCE + 1)]
    registry = store.statistics.registry
    registry.put_project("acme", "billing", ProjectSettings(uid="uid-of-billing"))
    for uid in uids:
        registry.put(subscriber(uid, "https://example.com/"))
    store.statistics.count(_results(uids), ())
    await store.statistics.flush()

    assert len(sizes) == 2
    assert max(sizes) <= 2 * statistics.CELLS_AT_ONCE * len(Window)
    assert await total(store, "uid-of-billing") == (len(uids), 0, len(uids), len(uids))


async def test_with_many_endpoints_only_minutes_that_ended_are_written(store: Store, clock: Clock) -> None:
    """A count is then written once; the present minute follows when it has ended."""
    clock.now = clock.now // MINUTE * MINUTE
    store.statistics.count(_results(["orders"]), ())
    await store.statistics.flush(includes_present=False)
    assert await total(store) == (0, 0, 0, 0)

    clock.advance(MINUTE)
    store.statistics.count(_results(["orders"]), ())
    await store.statistics.flush(includes_present=False)

    assert await busy_minutes(store) == {1: 1}


async def test_memory_has_a_bounded_number_of_cells(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound, results of further endpoints are not counted, and those of known ones are."""
    monkeypatch.setattr(statistics, "MOST_CELLS", 2)
    store.statistics.count(_results(["one", "two", "three", "two"]), ())
    await store.statistics.flush()

    assert [(await total(store, uid))[0] for uid in ("one", "two", "three")] == [1, 2, 0]


@pytest.mark.both_engines
async def test_counts_of_settled_results_equal_the_rows(store: Store) -> None:
    """A call with many results counts each of them."""
    new = event(*["orders"] * 40, claimed=True)
    await store.accept([new])
    await store.settle([settlement(delivery, State.DELIVERED) for delivery in new.deliveries])
    await store.statistics.flush()

    summed = await store.transactions.read(
        "test",
        lambda connection: connection.execute(select(func.sum(table.c.attempts)).group_by(table.c.width_s)).all(),
    )
    assert [row[0] for row in summed] == [len(ids([new]))] * len(Window)


def _results(uids: list[str]) -> list[Settlement]:
    return [settlement(NewDelivery("dlv_1", uid, claimed=True), State.DELIVERED) for uid in uids]
