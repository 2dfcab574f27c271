"""Pure: the labels of endpoints that ``hookwright listen`` makes, and which of them are leftovers.

An endpoint has no time at which it ends, so a label has it. `listen` sets it again while it runs, and its next start
deletes the endpoints of the same user whose time has passed, for example after a crash.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

LISTENER = "hookwright-listener"
UNTIL = "hookwright-listens-until"
KEPT = timedelta(minutes=30)
"""How long an endpoint counts as used after its label was set."""
RENEWED = timedelta(minutes=10)
"""The label is set again after this time."""
_FORM = "%Y%m%dT%H%M%SZ"
_LONGEST = 63


def listener_of(user: str, host: str) -> str:
    """Return a user of a machine as the value of a label."""
    written = re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{user}.{host}")
    return written[:_LONGEST].strip("-_.") or "unknown"


def labels_of(listener: str, now: datetime) -> dict[str, str]:
    """Return the labels of an endpoint that is in use now."""
    return {LISTENER: listener, UNTIL: (now + KEPT).astimezone(UTC).strftime(_FORM)}


def leftovers(endpoints: Iterable[Mapping[str, Any]], listener: str, now: datetime) -> list[str]:
    """Return the names of a listener's endpoints whose time has passed. A label of another form is no time."""
    return [
        str(one["id"])
        for one in endpoints
        if (one.get("labels") or {}).get(LISTENER) == listener and _has_passed(str(one["labels"].get(UNTIL, "")), now)
    ]


def _has_passed(written: str, now: datetime) -> bool:
    try:
        return datetime.strptime(written, _FORM).replace(tzinfo=UTC) < now
    except ValueError:
        return False
