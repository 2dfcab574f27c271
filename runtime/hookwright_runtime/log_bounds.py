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


class LogBound:
    """The entries that each holder may log: some at once, then some a second.

    Args:
        burst: entries at once.
        rate: entries a second that are allowed again, up to ``burst``.
        report: called once a second with each holder and the number of its entries that `allow` refused. It runs on
            the event loop, without the context of a request.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        *,
        burst: int,
        rate: float,
        report: Callable[[str, int], None] = lambda _holder, _count: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._burst, self._rate, self._report, self._clock = burst, rate, report, clock
        self._room: dict[str, tuple[float, float]] = {}
        self._forget_at = float("-inf")
        self._omitted: Counter[str] = Counter()

    def take(self, holder: str, count: int = 1) -> int:
        """Return how many of the wanted entries the holder may log now."""
        now = self._clock()
        room = self._room_at(holder, now)
        grant = min(count, int(room))
        if len(self._room) >= _HOLDERS and now >= self._forget_at:
            self._room = {name: value for name, value in self._room.items() if self._room_at(name, now) < self._burst}
            self._forget_at = now + _REPORT_SECONDS
        self._room[holder] = (room - grant, now)
        return grant

    def allow(self, holder: str) -> bool:
        """Return whether the holder may log an entry now; count the entry as omitted otherwise."""
        if self.take(holder):
            return True
        if not self._omitted:
            asyncio.get_running_loop().call_later(_REPORT_SECONDS, self.flush, context=Context())
        self._omitted[holder] += 1
        return False

    def flush(self) -> None:
        """Report the omitted entries now."""
        omissions, self._omitted = self._omitted, Counter()
        for holder, count in omissions.items():
            self._report(holder, count)

    def _room_at(self, holder: str, now: float) -> float:
        room, since = self._room.get(holder, (float(self._burst), now))
        return min(self._burst, room + (now - since) * self._rate)
