"""Pure: the filters of the delivery log as a person chooses them, and moments that a person writes."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Final, Self

from hookwright_runtime.problems import FieldFault, invalid

_PERIODS: Final = {
    "15m": ("Last 15 minutes", timedelta(minutes=15)),
    "1h": ("Last hour", timedelta(hours=1)),
    "24h": ("Last 24 hours", timedelta(hours=24)),
    "7d": ("Last 7 days", timedelta(days=7)),
    "30d": ("Last 30 days", timedelta(days=30)),
}
"""The titles and lengths of periods that end now."""
PERIOD_TITLES: Final = {name: title for name, (title, _) in _PERIODS.items()}
_CONDITIONS: Final = ("status", "type", "message_id", "event_id")
_TIMES: Final = ("since", "until")
_FILTERS: Final = (*_CONDITIONS, *_TIMES, "period", "since_offset", "until_offset")
_LONGEST: Final = 512
"""Most characters of a filter; the operator's own limits are lower."""


class DeliveryFilters(dict[str, str]):
    """The filters as texts of a form, by name; an empty one has no effect.

    ``period`` is a key of `PERIOD_TITLES`, and has no effect if ``since`` is given. ``since`` and ``until`` are as the
    browser's field has them, without a zone. ``since_offset`` and ``until_offset`` are the minutes by which they are
    ahead of UTC; empty without a script, then they are UTC.
    """

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        """Return the filters of a page's query."""
        return cls({name: query.get(name, "").strip()[:_LONGEST] for name in _FILTERS})

    @property
    def needs_search(self) -> bool:
        """Whether there is more than the state, for which the log of an endpoint has an index."""
        return any(value for name, value in self.items() if name != "status")

    @property
    def are_set(self) -> bool:
        """Whether there is a filter."""
        return any(self.values())

    def conditions(self, now: datetime) -> dict[str, str]:
        """Return the conditions of ``GET /v1/deliveries``.

        Raises:
            ProblemError: 422, a time cannot be read.
        """
        moments = {name: moment_of(name, self[name], self[f"{name}_offset"]) for name in _TIMES if self[name]}
        if "since" not in moments and self["period"] in _PERIODS:
            moments["since"] = now - _PERIODS[self["period"]][1]
        times = {
            name: moment.isoformat(timespec="milliseconds").replace("+00:00", "Z") for name, moment in moments.items()
        }
        return {name: self[name] for name in _CONDITIONS if self[name]} | times


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
        ahead = timezone(timedelta(minutes=int(offset or "0")))
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=ahead)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise invalid(FieldFault(field, "must be a date and a time, such as 2026-01-31T12:00")) from None
