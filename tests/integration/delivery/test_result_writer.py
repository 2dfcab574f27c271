"""Results of attempts are stored: those of one moment in one call, and each of them until it succeeds."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest
from structlog.testing import capture_logs
from support.dispatcher import Plan, Watcher, locked, now_ms, open_store, subscriber
from support.polling import until

from hookwright_operator.delivery.attempt_runner import Result, ResultWriter
from hookwright_operator.delivery.endpoint_queue import EndpointQueue
from hookwright_operator.delivery.queues import EndpointQueues
from hookwright_operator.delivery.shares import Bounds
from hookwright_operator.delivery.tasks import Tasks
from hookwright_operator.ids import delivery_id, message_id
from hookwright_operator.store.records import Attempt, NewDelivery, NewEvent, Settlement, State
from hookwright_operator.store.sql import read
from hookwright_operator.store.store import Store


@dataclass(slots=True)
class Stage:
    """Results of one endpoint over a real store."""

    store: Store
    tasks: Tasks = field(default_factory=Tasks)
    watcher: Watcher = field(default_factory=Watcher)
    queues: EndpointQueues = field(init=False)
    queue: EndpointQueue = field(init=False)
    results: ResultWriter = field(init=False)

    def __post_init__(self) -> None:
        """Create the queue and the writer of its results."""
        self.queues = EndpointQueues(Bounds(64, 1 << 20), now_ms, shared=False)
        self.queue = self.queues.put(subscriber("orders", "http://127.0.0.1:9/"))
        self.results = ResultWriter(self.store, self.queues, self.tasks, self.watcher)

    @property
    def stored(self) -> list[str]:
        """Return the ids of the deliveries whose results were reported as stored."""
        return [settlement.delivery_id for settlement in self.watcher.settled]

    @property
    def unstored(self) -> int:
        """Return how many results are unstored; the counts of the queue and of its shard are equal."""
        assert self.queues.owned_shards.under_way(self.queue.shard) == self.queue.settling
        return self.queue.settling

    async def claimed(self, number: int) -> list[str]:
        """Accept and claim so many deliveries, and return their ids."""
        new = [NewDelivery(delivery_id(), "orders", claimed=True) for _ in range(number)]
        await self.store.accept(
            [NewEvent(message_id(), "acme", "billing", None, "delivered", b"{}", (event,)) for event in new]
        )
        return [event.id for event in new]

    def add(self, delivery_id: str, *, started_ms: object = None) -> None:
        """Add the result of an attempt that delivered."""
        attempt = Attempt(1, cast("int", now_ms() if started_ms is None else started_ms), 3, 200)
        settlement = Settlement(delivery_id, "orders", attempt, State.DELIVERED)
        self.queues.owned_shards.begin(self.queue.shard)
        self.results.add(Result(self.queue, self.queue.endpoint, settlement))

    async def states(self, ids: Sequence[str]) -> list[State]:
        """Return the states of deliveries in the store."""
        records = [await self.store.read_log(read.delivery, its_id) for its_id in ids]
        return [record.state for record in records if record is not None]


@pytest.fixture
async def stage(database: Path) -> AsyncIterator[Stage]:
    """Yield results over a store that waits for a lock for 50 ms."""
    store = await open_store(database, Plan(), patience=0.05)
    stage = Stage(store)
    yield stage
    await stage.tasks.finish(0)
    await store.close()


@asynccontextmanager
async def refused(stage: Stage, database: Path, number: int) -> AsyncIterator[list[str]]:
    """Lock the store, and yield the ids of so many refused results."""
    ids = await stage.claimed(number)
    async with locked(database):
        for its_id in ids:
            stage.add(its_id)
        # The task of the first call has ended, so those of the single results have begun.
        await until(lambda: stage.queue.refused == len(ids) == len(stage.tasks))
        yield ids


async def test_results_of_one_turn_are_stored_by_one_call(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of attempts that end at once are stored by one call; later ones by another call."""
    ids = await stage.claimed(5)
    calls: list[int] = []
    settle = stage.store.settle

    async def counted(settlements: Sequence[Settlement]) -> None:
        calls.append(len(settlements))
        await settle(settlements)

    monkeypatch.setattr(stage.store, "settle", counted)
    for its_id in ids[:3]:
        stage.add(its_id)
    assert stage.unstored == 3
    await until(lambda: not stage.unstored)
    assert stage.stored == ids[:3]
    for its_id in ids[3:]:
        stage.add(its_id)
    await until(lambda: not stage.unstored)

    assert calls == [3, 2]
    assert stage.stored == ids
    assert await stage.states(ids) == [State.DELIVERED] * 5


async def test_a_result_that_cannot_be_stored_costs_those_beside_it_nothing(stage: Stage) -> None:
    """The bad result is logged and not retried; the others are stored, and the endpoint continues."""
    first, impossible, last = ids = await stage.claimed(3)
    with capture_logs() as logs:
        stage.add(first)
        stage.add(impossible, started_ms=object())  # no value of a column
        stage.add(last)
        await until(lambda: not stage.unstored)
        await until(lambda: not stage.tasks)

    assert stage.stored == [first, last]
    assert await stage.states(ids) == [State.DELIVERED, State.PENDING, State.DELIVERED]
    assert stage.queue.refused == 0
    assert [entry["event"] for entry in logs] == ["background task failed"]


async def test_while_the_store_is_away_the_endpoint_waits_from_the_first_refusal(stage: Stage, database: Path) -> None:
    """No attempt begins for the endpoint, because a crash would repeat it too; then every result is stored once."""
    async with refused(stage, database, 3) as ids:
        await asyncio.sleep(0.3)  # several refusals
        assert stage.queue.refused == len(ids)
        assert stage.unstored == 3
    await until(lambda: not stage.unstored)

    assert sorted(stage.stored) == sorted(ids)
    assert stage.queue.refused == 0
    records = [await stage.store.read_log(read.delivery, its_id) for its_id in ids]
    assert [len(record.attempts) for record in records if record is not None] == [1, 1, 1]


async def test_results_that_are_cut_short_are_over_and_not_stored(stage: Stage, database: Path) -> None:
    """At the end of the grace period, results that are not stored are dropped."""
    async with refused(stage, database, 2):
        assert stage.unstored == 2
        await stage.tasks.finish(0)

        assert stage.unstored == 0
        assert stage.stored == []
        assert stage.queue.refused == 0
