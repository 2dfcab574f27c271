"""Pure: parse requests for messages, and the bodies that settle messages."""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from hookwright_crds.base import parse_duration
from hookwright_crds.endpoint_fields import LEASE_BOUNDS
from hookwright_crds.request_limits import (
    DEFAULT_MESSAGES,
    DELAY_BOUNDS,
    LONGEST_REASON,
    MAX_MESSAGES,
    MAX_SETTLEMENT_VALUES,
    WAIT_BOUNDS,
)
from hookwright_runtime import exact_json
from hookwright_runtime.problems import MAX_FAULTS, FieldFault, ProblemError, invalid
from hookwright_runtime.request_body import check_values, parse_json

NO_REASON: Final = "the consumer refused the message"
_LONGEST_ID: Final = 128
_MOST_SHOWN: Final = 64
"""Characters of an unknown name that an answer shows."""


class TakeQuery(NamedTuple):
    """A request for messages.

    Attributes:
        wait: seconds.
        lease_ms: None if the request names no lease.
    """

    limit: int
    wait: float
    lease_ms: int | None


class SettleBody(NamedTuple):
    """A request to settle messages.

    Attributes:
        ids: of the messages, as they were sent.
        delay_ms: when a refused message is due again; None: by the retry schedule.
        reason: why the consumer refuses them.
    """

    ids: tuple[str, ...]
    delay_ms: int | None = None
    reason: str = NO_REASON


def take_query(query: Callable[[str], str | None]) -> TakeQuery:
    """Return limit, wait and lease of a query.

    Raises:
        ProblemError: 422 with each fault.
    """
    faults: list[FieldFault] = []
    limit = query("limit") or str(DEFAULT_MESSAGES)
    if not (limit.isascii() and limit.isdecimal() and len(limit) <= 4 and 1 <= int(limit) <= MAX_MESSAGES):
        faults.append(FieldFault("limit", f"must be a number from 1 to {MAX_MESSAGES}"))
    wait_ms = _length("wait", query("wait"), WAIT_BOUNDS, faults)
    lease_ms = _length("lease", query("lease"), LEASE_BOUNDS, faults)
    if faults:
        raise invalid(*faults)
    return TakeQuery(int(limit), (wait_ms or 0) / 1000, lease_ms)


def settle_body(body: bytes, *, refuses: bool) -> SettleBody:
    """Return the request of a body ``{ids}``; of one that refuses messages ``{ids, delay?, reason?}``.

    Raises:
        ProblemError: 400 malformed JSON; 422 with each fault.
    """
    known = ("ids", "delay", "reason") if refuses else ("ids",)
    given = _object(body, known)
    unknown = islice((name for name in given if name not in known), MAX_FAULTS)
    faults = [FieldFault(name[:_MOST_SHOWN], "is unknown; omit it") for name in unknown]
    ids, reason = given.get("ids"), given.get("reason", NO_REASON)
    if not isinstance(ids, list) or not 1 <= len(ids) <= MAX_MESSAGES or not all(map(_is_id, ids)):
        faults.append(FieldFault("ids", f"must be an array of 1 to {MAX_MESSAGES} ids of messages"))
    if not isinstance(reason, str) or not 1 <= len(reason) <= LONGEST_REASON or not reason.isprintable():
        faults.append(FieldFault("reason", f"must be 1 to {LONGEST_REASON} printable characters"))
    delay_ms = _length("delay", given.get("delay"), DELAY_BOUNDS, faults)
    if faults:
        raise invalid(*faults[:MAX_FAULTS])
    assert isinstance(ids, list)
    return SettleBody(tuple(ids), delay_ms, str(reason))


def _object(body: bytes, known: tuple[str, ...]) -> Mapping[str, Any]:
    check_values(body, MAX_SETTLEMENT_VALUES)
    given = parse_json(body)
    if not isinstance(given, dict):
        raise ProblemError(422, f"the body must be a JSON object with {', '.join(known)}")
    return given


def _is_id(given: object) -> bool:
    return exact_json.is_string(given) and 1 <= len(given) <= _LONGEST_ID


def _length(name: str, given: object, bounds: tuple[str, str], faults: list[FieldFault]) -> int | None:
    """Return a duration in milliseconds, None if it is absent or wrong."""
    if given is None:
        return None
    low, high = (parse_duration(bound) for bound in bounds)
    try:
        length = parse_duration(given) if isinstance(given, str) and len(given) <= 18 else None
    except ValueError:
        length = None
    if length is None or not low <= length <= high:
        faults.append(FieldFault(name, f"must be a duration from {bounds[0]} to {bounds[1]}, such as {bounds[1]}"))
        return None
    return int(length.total_seconds() * 1000)
