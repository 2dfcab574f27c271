"""Pure: failed deliveries per endpoint, collected so that a failing endpoint gets one Event in ten minutes."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

INTERVAL: Final = timedelta(minutes=10)
"""Minimum time between two such Events of one endpoint."""


@dataclass(frozen=True, slots=True)
class FailedDeliveries:
    """Failed deliveries of one endpoint that are not yet reported in an Event.

    Attributes:
        number: how many.
        error: error of the last reported attempt, in plain words.
        since: time of the first report.
    """

    number: int
    error: str
    since: datetime


@dataclass(slots=True)
class FailureEvents:
    """The failures to report by endpoint uid, and the time of the last Event."""

    _untold: dict[str, FailedDeliveries] = field(default_factory=dict)
    _told_at: dict[str, datetime] = field(default_factory=dict)

    def add(self, uid: str, number: int, error: str, now: datetime) -> None:
        """Add failed deliveries."""
        before = self._untold.get(uid, FailedDeliveries(0, "", now))
        self._untold[uid] = FailedDeliveries(before.number + number, error or before.error, before.since)

    def due(self, uid: str, now: datetime) -> FailedDeliveries | None:
        """Return the failures to report now, None if there are none or if it is too early."""
        again_at = self.again_at(uid)
        return self._untold[uid] if again_at is not None and again_at <= now else None

    def again_at(self, uid: str) -> datetime | None:
        """Return the time of the next report, None if there is nothing to report."""
        untold, told_at = self._untold.get(uid), self._told_at.get(uid)
        if untold is None:
            return None
        return max(untold.since, told_at + INTERVAL) if told_at is not None else untold.since

    def told(self, uid: str, now: datetime) -> None:
        """Record that all failures were reported."""
        self._untold.pop(uid, None)
        self._told_at[uid] = now

    def forget(self, uid: str) -> None:
        """Forget a deleted endpoint."""
        self._untold.pop(uid, None)
        self._told_at.pop(uid, None)
