"""Pure: durations and times on the command line, and ages in tables."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from hookwright_cli.command_errors import CommandError, ExitCode

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(?:\d+[smhd])+")


def moment(text: str, option: str, now: datetime, *, ahead: bool = False) -> str:
    """Return an RFC 3339 time for a duration before now or ahead (``2h``, ``1h30m``), or for a time with its zone."""
    if _DURATION.fullmatch(text):
        duration = timedelta(seconds=_total(text))
        return rfc3339(now + duration if ahead else now - duration)
    with suppress(ValueError):
        time = datetime.fromisoformat(text)
        if time.tzinfo is not None:
            return rfc3339(time)
    raise CommandError(
        f"{option} {text!r} must be a duration such as 2h or 1h30m, or a time with its zone such as {rfc3339(now)}",
        ExitCode.USAGE,
    )


def seconds_of(text: str, option: str) -> int:
    """Return the seconds of a duration such as ``15s`` or ``1m30s``."""
    if not _DURATION.fullmatch(text):
        raise CommandError(f"{option} {text!r} must be a duration such as 15s or 1m30s", ExitCode.USAGE)
    return _total(text)


def _total(text: str) -> int:
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)(\w)", text))


def rfc3339(time: datetime) -> str:
    """Return a time in UTC with ``Z``, in whole seconds."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def age(text: str | None, now: datetime) -> str:
    """Return how long ago a time of an answer was, in the form of kubectl: ``5s``, ``12m``, ``3h``, ``9d``."""
    if not text:
        return "-"
    seconds = int((now - datetime.fromisoformat(text)).total_seconds())
    prefix = "in " if seconds < 0 else ""
    unit = next((unit for unit in "smh" if abs(seconds) < _UNITS[unit] * (48 if unit == "h" else 120)), "d")
    return f"{prefix}{abs(seconds) // _UNITS[unit]}{unit}"
