"""Statistics of endpoints and projects: results in each minute, each quarter of an hour and each two hours.

Results are added to counts in memory. Every few seconds, small transactions add these counts to the database, once for
the endpoint and once for its project. So a project with many endpoints is read as fast as one endpoint. A replica that
is killed loses the counts that it has not written; a replica that is stopped writes them.

The rows have no slot, unlike `counters`. A replica writes rarely, so two replicas seldom wait for each other.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import structlog

from hookwright_operator.registry import Registry
from hookwright_operator.store.database_errors import OutcomeUnknown
from hookwright_operator.store.latency_classes import LATENCY_BOUNDS_MS, class_of
from hookwright_operator.store.records import Bucket, Series, Settlement, State, Window
from hookwright_operator.store.sql import bucket_counts
from hookwright_operator.store.transactions import Transactions
from hookwright_runtime.errors import StoreUnavailable

log = structlog.get_logger(__name__)

FLUSH_SECONDS: Final = 5.0
"""Seconds between two writes of the counts in memory."""
FEW_CELLS: Final = 500
"""If memory has more cells, only those of minutes that have ended are written, so that each is written once."""
CELLS_AT_ONCE: Final = 128
"""Cells that one transaction writes; each is a row of the endpoint and one of its project, in every width."""
MOST_CELLS: Final = 20_000
"""Cells in memory; at this number results of further endpoints are not counted until the store accepts writes."""

_MINUTE: Final = 60
_DELIVERED, _FAILED, _ATTEMPTS, _LATENCIES = range(4)
_NUMBERS: Final = _LATENCIES + len(LATENCY_BOUNDS_MS)
_WIDTHS: Final = tuple(window.width_s for window in Window)

Cell = tuple[str, int]
"""An endpoint uid, and the begin of a minute in seconds since the epoch."""


class Statistics:
    """Settled results within the last 7 days; every call that awaits may raise StoreUnavailable.

    Attributes:
        registry: has the project of each endpoint. Results of an endpoint that it does not know count for no project.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self.registry = Registry()
        self._cells: dict[Cell, list[int]] = {}
        self._uncounted = 0

    def count(self, settlements: Iterable[Settlement], unchanged_ids: Collection[str]) -> None:
        """Count settlements that are stored.

        Args:
            settlements: each has made an attempt.
            unchanged_ids: the deliveries whose state did not change, because they were discarded or lost meanwhile.
        """
        cells, begin = self._cells, self._minute()
        for settlement in settlements:
            numbers = cells.get((settlement.endpoint_uid, begin))
            if numbers is None:
                if len(cells) >= MOST_CELLS:
                    self._uncounted += 1
                    continue
                numbers = cells[settlement.endpoint_uid, begin] = [0] * _NUMBERS
            numbers[_ATTEMPTS] += 1
            if settlement.state is State.DELIVERED:
                numbers[_LATENCIES + class_of(settlement.attempt.duration_ms)] += 1
            if settlement.state is not State.PENDING and settlement.delivery_id not in unchanged_ids:
                numbers[_DELIVERED if settlement.state is State.DELIVERED else _FAILED] += 1

    async def run(self) -> None:
        """Write the counts repeatedly, until cancelled."""
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            await self.flush(includes_present=len(self._cells) <= FEW_CELLS)

    async def flush(self, *, includes_present: bool = True) -> None:
        """Write the counts in memory. If a transaction fails, its counts stay in memory, unless it may have succeeded.

        Counts with an unknown outcome are dropped, because statistics must not count an attempt twice.

        Args:
            includes_present: also write the counts of the present minute.
        """
        if self._uncounted:
            log.warning("statistics incomplete, too many endpoints since the last write", uncounted=self._uncounted)
            self._uncounted = 0
        present = self._minute()
        waiting = sorted(cell for cell in self._cells if includes_present or cell[1] < present)
        for first in range(0, len(waiting), CELLS_AT_ONCE):
            cells = {cell: self._cells.pop(cell) for cell in waiting[first : first + CELLS_AT_ONCE]}
            rows = self._rows_of(cells)
            try:
                await self._transactions.write("statistics", partial(bucket_counts.add, cells=rows), weight=len(rows))
            except OutcomeUnknown:
                raise
            except StoreUnavailable:
                self._put_back(cells)
                raise

    async def of(self, uid: str, window: Window) -> Series:
        """Return the statistics of a window of time; counts in memory are not included.

        Args:
            uid: of an endpoint, or of a project.
            window: it ends with the present bucket, which is not complete.
        """
        width = window.width_s
        last = self._transactions.clock() // 1000 // width
        begins = [bucket * width for bucket in range(last - window.buckets + 1, last + 1)]
        read = partial(bucket_counts.buckets, uid=uid, width_s=width, begins=begins)
        counts = {begin: numbers for begin, *numbers in await self._transactions.read("statistics", read, of_log=True)}
        buckets = [counts.get(begin, [0] * _NUMBERS) for begin in begins]
        total = [sum(column) for column in zip(*buckets, strict=True)]
        return Series(window, _bucket(total), tuple(zip(begins, map(_bucket, buckets), strict=True)))

    async def prune(self, *, limit: int) -> int:
        """Remove buckets that no window has any more, up to a limit of each width; return how many were removed."""
        now = self._transactions.clock() // 1000
        before = {window.width_s: (now // window.width_s - window.buckets) * window.width_s for window in Window}
        drop = partial(bucket_counts.drop_old, before_s=before, limit=limit)
        return await self._transactions.write("prune_statistics", drop, weight=limit)

    def _minute(self) -> int:
        return self._transactions.clock() // 60_000 * _MINUTE

    def _rows_of(self, cells: Mapping[Cell, list[int]]) -> list[tuple[str | int, ...]]:
        """Return the rows of endpoints and of their projects, in every width."""
        projects: defaultdict[Cell, list[int]] = defaultdict(lambda: [0] * _NUMBERS)
        for (endpoint, begin), numbers in cells.items():
            if project := self.registry.project_uid_of(endpoint):
                _add(projects[project, begin], numbers)
        rows: defaultdict[tuple[int, int, str], list[int]] = defaultdict(lambda: [0] * _NUMBERS)
        for (uid, begin), numbers in (*cells.items(), *projects.items()):
            for width in _WIDTHS:
                _add(rows[width, begin // width * width, uid], numbers)
        return [(*key, *numbers) for key, numbers in rows.items()]

    def _put_back(self, cells: Mapping[Cell, list[int]]) -> None:
        for cell, numbers in cells.items():
            _add(self._cells.setdefault(cell, [0] * _NUMBERS), numbers)


def _add(sums: list[int], numbers: Sequence[int]) -> None:
    sums[:] = [total + number for total, number in zip(sums, numbers, strict=True)]


def _bucket(numbers: Sequence[int]) -> Bucket:
    delivered, failed, attempts, *latencies = numbers
    return Bucket(delivered, failed, attempts, tuple(latencies))
