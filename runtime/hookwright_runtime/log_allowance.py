"""Bounds of what one holder, such as a namespace, can add to the log."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from typing import Final

_HOLDERS: Final = 1024
"""Holders above which those with their whole allowance are forgotten."""
_REPORT_SECONDS: Final = 1.0


class LogAllowance:
    """Entries that each holder may log: some at once, then some a second.

    Args:
        burst: entries at once.
        rate: entries a second that are allowed again, up to ``burst``.
        clock: seconds that never go back.
    """

    def __init__(self, *, burst: int, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst, self._rate, self._clock = burst, rate, clock
        self._left: dict[str, tuple[float, float]] = {}
        self._forget_at = float("-inf")

    def take(self, holder: str, wanted: int = 1) -> int:
        """Return how many of the wanted entries the holder may log now."""
        now = self._clock()
        left = self._left_at(holder, now)
        granted = min(wanted, int(left))
        if len(self._left) >= _HOLDERS and now >= self._forget_at:
            self._forget(now)
        self._left[holder] = (left - granted, now)
        return granted

    def _left_at(self, holder: str, now: float) -> float:
        left, since = self._left.get(holder, (float(self._burst), now))
        return min(self._burst, left + (now - since) * self._rate)

    def _forget(self, now: float) -> None:
        self._left = {holder: kept for holder, kept in self._left.items() if self._left_at(holder, now) < self._burst}
        self._forget_at = now + _REPORT_SECONDS


class OmittedEntries:
    """Counts entries that were not logged, and reports the count of each holder, by default once a second.

    Args:
        report: called with a holder and its count, on the event loop and without the context of a request.
        seconds: from the first entry that is counted to the report.
    """

    def __init__(self, report: Callable[[str, int], None], *, seconds: float = _REPORT_SECONDS) -> None:
        self._report, self._seconds = report, seconds
        self._counts: Counter[str] = Counter()

    def add(self, holder: str) -> None:
        """Count an entry."""
        if not self._counts:
            asyncio.get_running_loop().call_later(self._seconds, self.flush, context=Context())
        self._counts[holder] += 1

    def flush(self) -> None:
        """Report all counts now."""
        counts, self._counts = self._counts, Counter()
        for holder, count in counts.items():
            self._report(holder, count)
