"""Pure: the filters of the delivery log as a person chooses them, and moments that a person writes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta, timezone
from typing import Final, Self
from urllib.parse import urlencode

from hookwright_runtime.problems import FieldFault, invalid

PERIODS: Final = {
    "15m": ("Last 15 minutes", timedelta(minutes=15)),
    "1h": ("Last hour", timedelta(hours=1)),
    "24h": ("Last 24 hours", timedelta(hours=24)),
    "7d": ("Last 7 days", timedelta(days=7)),
    "30d": ("Last 30 days", timedelta(days=30)),
}
"""The titles and lengths of periods that end now."""
_MOST_OFFSET: Final = 14 * 60
_LONGEST: Final = 512
"""Most characters of a filter; the operator's own limits are lower."""


@dataclass(frozen=True, slots=True)
class DeliveryFilters:
    """The filters as texts of a form; an empty one has no effect.

    Attributes:
        period: a key of `PERIODS`; without effect if ``since`` is given.
        since: begin as the browser's field has it, without a zone.
        since_offset: minutes by which that is ahead of UTC; empty without a script, then it is UTC.
    """

    status: str = ""
    type: str = ""
    message_id: str = ""
    event_id: str = ""
    period: str = ""
    since: str = ""
    since_offset: str = ""
    until: str = ""
    until_offset: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        """Return the filters of a page's query."""
        return cls(**{field.name: query.get(field.name, "").strip()[:_LONGEST] for field in fields(cls)})

    @property
    def chosen(self) -> bool:
        """Whether a filter has an effect."""
        return any(asdict(self).values())

    @property
    def needs_search(self) -> bool:
        """Whether there is more than the state, for which the log of an endpoint has an index."""
        return any(value for name, value in asdict(self).items() if name != "status")

    def query(self, **more: str) -> str:
        """Return the query of a page with the same filters."""
        texts = {**asdict(self), **more}
        return urlencode({name: value for name, value in texts.items() if value})

    def conditions(self, now: datetime) -> dict[str, str]:
        """Return the conditions of ``GET /v1/deliveries``.

        Raises:
            ProblemError: 422, a time cannot be read.
        """
        since = self.since and _rfc3339(moment_of("since", self.since, self.since_offset))
        if not since and self.period in PERIODS:
            since = _rfc3339(now - PERIODS[self.period][1])
        until = self.until and _rfc3339(moment_of("until", self.until, self.until_offset))
        conditions = {name: getattr(self, name) for name in ("status", "type", "message_id", "event_id")}
        return {name: value for name, value in {**conditions, "since": since, "until": until}.items() if value}


def moment_of(field: str, text: str, offset: str) -> datetime:
    """Return the moment of a field for date and time.

    Args:
        field: its name in the error.
        text: the value, such as ``2026-01-31T12:00``.
        offset: minutes by which it is ahead of UTC; empty means none.

    Raises:
        ProblemError: 422.
    """
    try:
        minutes = int(offset or "0")
        ahead = timezone(timedelta(minutes=max(-_MOST_OFFSET, min(_MOST_OFFSET, minutes))))
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=ahead)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise invalid(FieldFault(field, "must be a date and a time, such as 2026-01-31T12:00")) from None


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
