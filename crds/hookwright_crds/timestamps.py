"""Pure: times in requests and answers, by RFC 3339."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

EXPECTED_TIME: Final = "send a time from 1970 to 9999 with its zone (RFC 3339), such as 2030-01-31T12:00:00Z"

_TIMESTAMP: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt]([01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-5][0-9])"
)
_SECONDS: Final = slice(17, 19)
"""The place of the seconds in a time of this form."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_LAST_MS: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND


def timestamp(epoch_ms: int) -> str:
    """Return an RFC 3339 time in UTC with milliseconds."""
    moment = _EPOCH + timedelta(milliseconds=epoch_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def is_time(text: str) -> bool:
    """Return whether a text is an RFC 3339 time with a zone, from the year 1 to 9999."""
    return _moment(text) is not None


def time_of(text: str) -> int | None:
    """Return a time in milliseconds since the epoch, None if the text is no RFC 3339 time with a zone.

    A time before 1970 or after 9999 in UTC is None too, because `timestamp` cannot write all of them. A leap second
    counts as the second before it.
    """
    moment = _moment(text)
    if moment is None:
        return None
    epoch_ms = (moment - _EPOCH) // _MILLISECOND
    return epoch_ms if 0 <= epoch_ms <= _LAST_MS else None


def _moment(text: str) -> datetime | None:
    if not _TIMESTAMP.fullmatch(text):
        return None
    leap = text[_SECONDS] == "60"
    if leap:
        text = f"{text[: _SECONDS.start]}59{text[_SECONDS.stop :]}"
    try:
        moment = datetime.fromisoformat(text.upper())
        # A leap second ends a day in UTC (RFC 3339, section 5.7).
        wrong = leap and moment.astimezone(UTC).strftime("%H:%M") != "23:59"
    except (ValueError, OverflowError):
        return None
    return None if wrong else moment
