"""Pure: deliveries that were given up, gathered so that an endpoint that keeps failing has one Event in ten minutes."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

INTERVAL: Final = timedelta(minutes=10)
"""What passes at least between two such Events of one endpoint."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Deliveries of one endpoint that were given up and not announced yet.

    Attributes:
        number: how many.
        error: of the last attempt that was heard of, in plain words.
        since: when the first of them was heard of.
    """

    number: int
    error: str
    since: datetime


@dataclass(slots=True)
class Failures:
    """What is to be announced, by endpoint uid, and when the last time was."""

    _untold: dict[str, GivenUp] = field(default_factory=dict)
    _told_at: dict[str, datetime] = field(default_factory=dict)

    def add(self, uid: str, number: int, error: str, now: datetime) -> None:
        """Add deliveries that were given up."""
        before = self._untold.get(uid, GivenUp(0, "", now))
        self._untold[uid] = GivenUp(before.number + number, error or before.error, before.since)

    def due(self, uid: str, now: datetime) -> GivenUp | None:
        """Return what is to be announced now, None where there is nothing or where it is too soon."""
        again_at = self.again_at(uid)
        return self._untold[uid] if again_at is not None and again_at <= now else None

    def again_at(self, uid: str) -> datetime | None:
        """Return when something is to be announced, None where there is nothing."""
        untold, told_at = self._untold.get(uid), self._told_at.get(uid)
        if untold is None:
            return None
        return max(untold.since, told_at + INTERVAL) if told_at is not None else untold.since

    def told(self, uid: str, now: datetime) -> None:
        """Take note that everything was announced."""
        self._untold.pop(uid, None)
        self._told_at[uid] = now

    def forget(self, uid: str) -> None:
        """Forget an endpoint that is gone."""
        self._untold.pop(uid, None)
        self._told_at.pop(uid, None)
