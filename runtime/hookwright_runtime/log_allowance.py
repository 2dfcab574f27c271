"""Bounds of what one holder, such as a namespace, can add to the log."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from typing import Final

_HOLDERS: Final = 1024
"""Holders above which those with their whole allowance are forgotten."""
_REPORT_SECONDS: Final = 1.0
_LONGEST: Final = 100


def shortened(text: str) -> str:
    """Return a text that a tenant chose, cut at about 100 bytes of JSON in ASCII, with an ellipsis if it is longer."""
    if len(text) <= _LONGEST and text.isascii() and text.isprintable():
        return text
    room = _LONGEST
    for place, character in enumerate(text):
        room -= len(json.dumps(character)) - 2
        if room < 0:
            return f"{text[:place]}…"
    return text


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
    """Counts entries that were not logged, and reports the count of each holder once a second.

    Args:
        report: called with a holder and its count, on the event loop and without the context of a request.
    """

    def __init__(self, report: Callable[[str, int], None]) -> None:
        self._report = report
        self._counts: Counter[str] = Counter()

    def add(self, holder: str) -> None:
        """Count an entry."""
        if not self._counts:
            asyncio.get_running_loop().call_later(_REPORT_SECONDS, self.flush, context=Context())
        self._counts[holder] += 1

    def flush(self) -> None:
        """Report all counts now."""
        counts, self._counts = self._counts, Counter()
        for holder, count in counts.items():
            self._report(holder, count)


class BoundedEntries:
    """Entries within the allowance of each holder; those above it are counted.

    Args:
        omitted: counts the entries above the allowance; several objects may share it.
        burst: entries of a holder at once.
        rate: entries of a holder a second that are allowed again, up to ``burst``.
    """

    def __init__(self, omitted: OmittedEntries, *, burst: int, rate: float) -> None:
        self._omitted, self._allowance = omitted, LogAllowance(burst=burst, rate=rate)

    def allow(self, holder: str) -> bool:
        """Return whether the holder may log an entry now; count the entry as omitted otherwise."""
        if self._allowance.take(holder):
            return True
        self._omitted.add(holder)
        return False
