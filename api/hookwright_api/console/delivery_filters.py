"""Pure: the filters of the delivery log as a person chooses them, and moments that a person writes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta, timezone
from typing import Final, Self
from urllib.parse import urlencode

from hookwright_runtime.problems import FieldFault, ProblemError, invalid

PERIODS: Final = {
    "15m": ("Last 15 minutes", timedelta(minutes=15)),
    "1h": ("Last hour", timedelta(hours=1)),
    "24h": ("Last 24 hours", timedelta(hours=24)),
    "7d": ("Last 7 days", timedelta(days=7)),
}
"""The titles and lengths of periods that end now."""
_MOST_OFFSET: Final = 14 * 60
_LONGEST: Final = 512
"""Most characters of a filter; the operator's own limits are lower."""


@dataclass(frozen=True, slots=True)
class DeliveryFilters:
    """The filters; an empty one has no effect.

    Attributes:
        status: state of the delivery.
        type: event type.
        message_id: ``messageId`` of the event.
        event_id: id of the event.
        period: a key of `PERIODS`; without effect if ``since`` is given.
        since: begin as the browser's field has it, without a zone.
        since_offset: minutes by which that is ahead of UTC; empty without a script, then it is UTC.
        until: end, like ``since``.
        until_offset: like ``since_offset``.
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
        return cls(**{one.name: query.get(one.name, "").strip()[:_LONGEST] for one in fields(cls)})

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
        given = {**asdict(self), **more}
        return urlencode({name: value for name, value in given.items() if value})

    def conditions(self, now: datetime) -> dict[str, str]:
        """Return the conditions of ``GET /v1/deliveries``.

        Raises:
            ProblemError: 422, a time cannot be read.
        """
        since = self.since and rfc3339(moment_of("since", self.since, self.since_offset))
        if not since and self.period in PERIODS:
            since = rfc3339(now - PERIODS[self.period][1])
        until = self.until and rfc3339(moment_of("until", self.until, self.until_offset))
        wanted = {
            "status": self.status,
            "type": self.type,
            "message_id": self.message_id,
            "event_id": self.event_id,
            "since": since,
            "until": until,
        }
        return {name: value for name, value in wanted.items() if value}


def moment_of(field: str, written: str, offset: str) -> datetime:
    """Return the moment of a field for date and time.

    Args:
        field: its name in the error.
        written: the value, such as ``2026-01-31T12:00``.
        offset: minutes by which it is ahead of UTC; empty means none.

    Raises:
        ProblemError: 422.
    """
    try:
        minutes = int(offset or "0")
        ahead = timezone(timedelta(minutes=max(-_MOST_OFFSET, min(_MOST_OFFSET, minutes))))
        moment = datetime.fromisoformat(written)
        return (moment if moment.tzinfo else moment.replace(tzinfo=ahead)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise _wrong_time(field) from None


def _wrong_time(field: str) -> ProblemError:
    return invalid(FieldFault(field, "must be a date and a time, such as 2026-01-31T12:00"))


def rfc3339(moment: datetime) -> str:
    """Return a moment as ``/v1`` takes it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
