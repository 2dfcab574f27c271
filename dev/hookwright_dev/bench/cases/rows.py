"""Times of the store's operations with 100,000 deliveries and with many more; they should be equal."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

from hookwright_dev.bench.cases.options import Options
from hookwright_dev.bench.filling import (
    CROWDED,
    ENDPOINTS,
    POSTGRES,
    Filled,
    delivery_id,
    endpoint_uid,
    filled_postgres,
    filled_sqlite,
    new_event,
    producer_id,
)
from hookwright_dev.bench.measures import BYTES, MILLISECONDS, TIMES, Measure
from hookwright_dev.cluster.postgres import postgres_server
from hookwright_dev.errors import BenchError
from hookwright_operator.store.records import Attempt, Claimed, Search, Settlement, State
from hookwright_operator.store.sql import read, search
from hookwright_operator.store.store import Store

_REPETITIONS: Final = 25
_GROUP: Final = 64
_PRUNE_LIMIT: Final = 500
_LEASE_MS: Final = 600_000
_TITLES: Final = {
    "accept": f"accept {_GROUP} events",
    "claim": f"claim {_GROUP} of as many endpoints",
    "crowded": f"claim {_GROUP} of an endpoint that has a tenth of all",
    "settle": f"settle {_GROUP}",
    "next_due": f"when {ENDPOINTS:,} endpoints are due next",
    "log": "a page of the log of an endpoint that has a tenth of all",
    "old_log": "a page in the middle of it",
    "failed_log": "a page of what failed of it",
    "by_message": "search of a message id",
    "by_event": "search of a producer's event id",
    "of_project": "a page of the project, of one type",
    "failed_of_project": "a page of what failed of the project, with a status code",
    "of_few": "a page of five endpoints that have a tenth of all each",
    "prune": f"remove {_PRUNE_LIMIT} old deliveries",
}


def measure(options: Options) -> list[Measure]:
    """Measure both engines with each number of deliveries."""
    measures: list[Measure] = []
    for engine in ("PostgreSQL", "SQLite"):
        by_size: dict[int, dict[str, float]] = {}
        with _engine(engine) as fill:
            for rows in options.rows:
                with fill(rows) as database:
                    by_size[rows] = asyncio.run(_timed(database))
                    measures += _room(engine, database)
        measures += _measures(engine, by_size)
    return measures


@contextmanager
def _engine(engine: str) -> Iterator[Callable[[int], AbstractContextManager[Filled]]]:
    """Yield a function that creates a database with so many deliveries."""
    if engine == "SQLite":
        with tempfile.TemporaryDirectory(prefix="hookwright-bench-") as name:
            yield lambda rows: filled_sqlite(Path(name), rows)
        return
    with postgres_server(POSTGRES) as server:
        yield lambda rows: filled_postgres(server, rows)


async def _timed(database: Filled) -> dict[str, float]:
    """Return the median milliseconds of each operation."""
    store = await Store.open(
        database.url, instance="bench", lease_ms=_LEASE_MS, clock=lambda: time.time_ns() // 1_000_000
    )
    try:
        work = _Work(store, database)
        times: dict[str, list[float]] = {name: [] for name in _TITLES}
        for turn in range(_REPETITIONS):
            for name, durations in times.items():
                step: Callable[[int], Awaitable[None]] = getattr(work, name)
                began = time.perf_counter()
                await step(turn)
                durations.append(1000 * (time.perf_counter() - began))
        return {name: statistics.median(durations) for name, durations in times.items()}
    finally:
        await store.close()


class _Work:
    """Operations that an operator runs on its store; each turn uses other deliveries."""

    def __init__(self, store: Store, database: Filled) -> None:
        self._store, self._database = store, database
        self._claimed: list[Claimed] = []

    async def accept(self, _turn: int) -> None:
        await self._store.accept([new_event() for _ in range(_GROUP)])

    async def claim(self, turn: int) -> None:
        first = CROWDED + turn * _GROUP
        spread = [CROWDED + (first + number) % (ENDPOINTS - CROWDED) for number in range(_GROUP)]
        self._claimed = await self._store.claim([(endpoint_uid(number), 1) for number in spread])
        _expect("claimed", len(self._claimed), _GROUP)

    async def crowded(self, turn: int) -> None:
        claims = await self._store.claim([(endpoint_uid(turn % CROWDED), _GROUP)])
        _expect("claimed", len(claims), _GROUP)

    async def settle(self, _turn: int) -> None:
        attempt = Attempt(0, self._database.now_ms, 12, 200, "", "ok")
        await self._store.settle(
            [Settlement(delivery.id, delivery.endpoint_uid, attempt, State.DELIVERED, 0) for delivery in self._claimed]
        )

    async def next_due(self, _turn: int) -> None:
        _expect("endpoints that are due", len(await self._store.next_due()), ENDPOINTS)

    async def log(self, turn: int) -> None:
        await self._page(turn)

    async def old_log(self, turn: int) -> None:
        await self._page(turn, cursor=delivery_id(self._database.rows // 2 - turn * 1000))

    async def failed_log(self, turn: int) -> None:
        await self._page(turn, state=State.FAILED)

    async def by_message(self, turn: int) -> None:
        number = self._old(turn)
        await self._search(1, message_id=producer_id(number))

    async def by_event(self, turn: int) -> None:
        await self._search(1, event_id=producer_id(self._old(turn)))

    async def of_project(self, _turn: int) -> None:
        await self._search(50, event_type="delivered")

    async def failed_of_project(self, _turn: int) -> None:
        await self._search(None, state=State.FAILED, status_code=200)

    async def of_few(self, _turn: int) -> None:
        uids = [endpoint_uid(number) for number in range(CROWDED)]
        page, _ = await self._store.read_log(search.page, Search(uids, "acme"), limit=50)
        _expect("deliveries on a page", len(page), 50)

    def _old(self, turn: int) -> int:
        """Return an event of the middle of the database, whose place differs in each turn."""
        return self._database.rows // 2 - turn * 997

    async def _search(self, expected: int | None, **conditions: Any) -> None:
        """Search all endpoints of the project; ``expected`` is None if a page may be short."""
        uids = [endpoint_uid(number) for number in range(ENDPOINTS)]
        page, _ = await self._store.read_log(search.page, Search(uids, "acme", **conditions), limit=50)
        if expected is not None:
            _expect("deliveries on a page", len(page), expected)

    async def prune(self, _turn: int) -> None:
        count = await self._store.prune(
            delivered_before_ms=self._database.now_ms, failed_before_ms=0, limit=_PRUNE_LIMIT
        )
        _expect("rows removed", int(count >= 3 * _PRUNE_LIMIT), 1)

    async def _page(self, turn: int, *, state: State | None = None, cursor: str | None = None) -> None:
        page, _ = await self._store.read_log(read.log, endpoint_uid(turn % CROWDED), state=state, cursor=cursor)
        _expect("deliveries on a page", len(page), 50)


def _expect(subject: str, number: int, expected: int) -> None:
    if number != expected:
        raise BenchError(f"{subject}: got {number}, expected {expected}")


def _room(engine: str, database: Filled) -> list[Measure]:
    key, title = f"rows.{engine.lower()}.{database.rows}", f"{engine}, {database.rows:,} deliveries: room for each"
    return [Measure(f"{key}.bytes", title, database.size / database.rows, BYTES)]


def _measures(engine: str, by_size: Mapping[int, Mapping[str, float]]) -> list[Measure]:
    measures = [
        Measure(
            f"rows.{engine.lower()}.{rows}.{name}",
            f"{engine}, {rows:,} deliveries: {_TITLES[name]}",
            duration,
            MILLISECONDS,
        )
        for rows, times in by_size.items()
        for name, duration in times.items()
    ]
    smallest, largest = min(by_size), max(by_size)
    title = f"{engine}, a claim with {largest:,} deliveries against {smallest:,}"
    growth = by_size[largest]["claim"] / by_size[smallest]["claim"]
    return [*measures, Measure(f"rows.{engine.lower()}.growth", title, growth, TIMES)]
