"""CPU of accepting an event that no attempt follows, and the part of it that makes the event findable by its ids."""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final
from unittest import mock

from hookwright_dev.bench import objects
from hookwright_dev.bench.cases.options import Options
from hookwright_dev.bench.errors import BenchError
from hookwright_dev.bench.filling import new_event
from hookwright_dev.bench.loader import Target
from hookwright_dev.bench.measures import CPU, PER_SECOND, PERCENT, Measure
from hookwright_dev.bench.site import NAMESPACE, running
from hookwright_operator.store.records import NewEvent
from hookwright_operator.store.sql import message_index
from hookwright_operator.store.store import Store

_GROUP: Final = 16
"""Events of a transaction: as many posts as the loader has under way."""
_PAIRS: Final = 1024


def measure(options: Options) -> list[Measure]:
    """Measure the operator with an endpoint with pull, then the store alone with and without its index of ids."""
    accepted, whole = _accepted(options.seconds)
    noted, arranged = asyncio.run(_indexed())
    return [
        Measure("acceptance.rate", "events accepted/s, one in a request, no attempts", accepted, PER_SECOND),
        Measure("acceptance.cpu", "CPU of the operator for them", whole, CPU),
        Measure("acceptance.search", "part of it that records ids for searches", 100 * noted / whole, PERCENT),
        Measure("acceptance.arranging", "CPU to arrange their ids later", arranged, CPU),
    ]


def _accepted(seconds: float) -> tuple[float, float]:
    """Return the accepted events a second, and the CPU seconds of the operator for 1,000 of them."""
    with running() as site:
        site.create([objects.project(NAMESPACE, "accepted")])
        site.create_ready([objects.endpoint(NAMESPACE, "inbox", project="accepted", pull={}, events=["delivered"])])
        meter = site.meter()
        report = site.loader.load([Target(site.intake("accepted"))], seconds=seconds, token=site.token, wait_seconds=0)
        return report.accepted_per_second, 1000 * meter.read().by_name["operator"] / report.accepted


async def _indexed() -> tuple[float, float]:
    """Return the CPU seconds for 1,000 events of recording their ids, and of arranging them later, on SQLite.

    Each transaction with ids is compared with one without them right before or after it, because a machine's speed
    changes.
    """
    with tempfile.TemporaryDirectory(prefix="hookwright-bench-") as folder:
        url = f"sqlite:///{Path(folder) / 'hookwright.db'}"
        store = await Store.open(url, instance="bench", lease_ms=60_000, clock=lambda: time.time_ns() // 1_000_000)
        try:
            noted = statistics.median([await _noted(store, first=turn % 2 == 0) for turn in range(_PAIRS)])
            began = time.process_time()
            if not await store.search.arrange():
                raise BenchError(f"{_PAIRS * _GROUP} events fill no segment of the search index")
            arranging = time.process_time() - began
        finally:
            await store.close()
    return 1000 * noted / _GROUP, 1000 * arranging / (message_index.SEGMENT / 2)


async def _noted(store: Store, *, first: bool) -> float:
    """Return the CPU seconds that a transaction takes longer with ids; ``first`` says whether that one comes first."""
    taken: dict[bool, float] = {}
    for indexed in (first, not first):
        line_of = message_index.line_of if indexed else _no_line
        with mock.patch.object(message_index, "line_of", new=line_of):
            taken[indexed] = await _accept(store)
    return taken[True] - taken[False]


def _no_line(_event: NewEvent) -> str:
    """Return the line of an event without ids, which the index leaves out."""
    return ""


async def _accept(store: Store) -> float:
    """Accept events in one transaction, and return its CPU seconds; all threads of this process count."""
    new = [new_event() for _ in range(_GROUP)]
    began = time.process_time()
    await store.accept(new)
    return time.process_time() - began
