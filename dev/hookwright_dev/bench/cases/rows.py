"""Times of a claim and of the log's searches with 100,000 deliveries and with many more; they should be equal."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

from hookwright_dev.bench.cases.options import Options
from hookwright_dev.bench.figures import MILLISECONDS, TIMES, Measure
from hookwright_dev.bench.filling import (
    CROWDED,
    ENDPOINTS,
    POSTGRES,
    Filled,
    endpoint_uid,
    filled_postgres,
    filled_sqlite,
    producer_id,
)
from hookwright_dev.cluster.postgres import postgres_server
from hookwright_dev.errors import BenchError
from hookwright_operator.store.records import Search, State
from hookwright_operator.store.sql import search
from hookwright_operator.store.store import Store

_REPETITIONS: Final = 25
_GROUP: Final = 64
_LEASE_MS: Final = 600_000
_TITLES: Final = {
    "claim": f"claim {_GROUP} of as many endpoints",
    "by_message": "search of a message id",
    "by_event": "search of a producer's event id",
    "of_project": "a page of the project, of one type",
    "failed_of_project": "a page of what failed of the project, with a status code",
    "of_few": "a page of five endpoints that have a tenth of all each",
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
    """A claim, and the searches; each turn uses other deliveries."""

    def __init__(self, store: Store, database: Filled) -> None:
        self._store, self._database = store, database

    async def claim(self, turn: int) -> None:
        first = CROWDED + turn * _GROUP
        spread = [CROWDED + (first + number) % (ENDPOINTS - CROWDED) for number in range(_GROUP)]
        claims = await self._store.claim([(endpoint_uid(number), 1) for number in spread])
        _expect("claimed", len(claims), _GROUP)

    async def by_message(self, turn: int) -> None:
        await self._search(1, message_id=producer_id(self._old(turn)))

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


def _expect(subject: str, number: int, expected: int) -> None:
    if number != expected:
        raise BenchError(f"{subject}: got {number}, expected {expected}")


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
