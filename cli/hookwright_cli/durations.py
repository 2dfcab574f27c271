"""Pure: durations and times on the command line, and ages in tables."""

import re
from datetime import UTC, datetime, timedelta

from hookwright_cli.command_errors import CommandError, ExitCode

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(?:\d+[smhd])+")
_PART = re.compile(r"(\d+)([smhd])")


def moment(written: str, option: str, now: datetime) -> str:
    """Return an RFC 3339 time for a duration before now (``2h``, ``1h30m``) or for a time with its zone.

    Raises:
        CommandError: the text is neither of them.
    """
    if _DURATION.fullmatch(written):
        return rfc3339(now - timedelta(seconds=_total(written)))
    try:
        time = datetime.fromisoformat(written)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise CommandError(
            f"{option} {written!r} must be a duration such as 2h or 1h30m, or a time with its zone such as "
            f"{rfc3339(now)}",
            ExitCode.USAGE,
        )
    return rfc3339(time)


def expiry(written: str, option: str, now: datetime) -> str:
    """Return an RFC 3339 time for a duration from now on (``30d``) or for a time with its zone.

    Raises:
        CommandError: the text is neither of them.
    """
    if _DURATION.fullmatch(written):
        return rfc3339(now + timedelta(seconds=_total(written)))
    return moment(written, option, now)


def seconds_of(written: str, option: str) -> int:
    """Return the seconds of a duration such as ``15s`` or ``1m30s``.

    Raises:
        CommandError: the text is no duration.
    """
    if not _DURATION.fullmatch(written):
        raise CommandError(f"{option} {written!r} must be a duration such as 15s or 1m30s", ExitCode.USAGE)
    return _total(written)


def _total(written: str) -> int:
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(written))


def rfc3339(time: datetime) -> str:
    """Return a time in UTC with ``Z``, in whole seconds."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def age(written: str | None, now: datetime) -> str:
    """Return how long ago a time of an answer was, in the form of kubectl: ``5s``, ``12m``, ``3h``, ``9d``."""
    if not written:
        return "-"
    seconds = int((now - datetime.fromisoformat(written)).total_seconds())
    prefix = "in " if seconds < 0 else ""
    seconds = abs(seconds)
    for limit, divisor, unit in ((120, 1, "s"), (7200, 60, "m"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{prefix}{seconds // divisor}{unit}"
    return f"{prefix}{seconds // 86400}d"
