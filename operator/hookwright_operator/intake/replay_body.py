"""Pure: parse the bodies of requests that begin a replay."""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from hookwright_crds.events import EVENT_TYPES, UnknownEventTypeError, event_type
from hookwright_operator.intake.timestamps import EXPECTED_TIME, time_of, timestamp
from hookwright_operator.store.records import Choice, State
from hookwright_runtime import exact_json
from hookwright_runtime.problems import MAX_FAULTS, FieldFault, ProblemError
from hookwright_runtime.request_body import parse_json

STATES: Final = {
    "failed": (State.FAILED,),
    "delivered": (State.DELIVERED,),
    "all": (State.DELIVERED, State.FAILED),
    "missed": (),
}
"""The states of deliveries by the value of the field ``state``; missed events have no deliveries."""

_FIELDS: Final = ("since", "until", "state", "types", "dry_run")
_REQUIRED: Final = "since"
_MOST_SHOWN: Final = 64
"""Characters of an unknown name that an answer shows."""


class ReplayBody(NamedTuple):
    """A request for a replay.

    Attributes:
        since_ms: the begin of the time range, in milliseconds since the epoch.
        until_ms: its end, None if the request has none.
        dry_run: whether the deliveries are only counted.
    """

    since_ms: int
    until_ms: int | None
    choice: Choice
    dry_run: bool


def replay_of(body: bytes, *, now_ms: int) -> ReplayBody:
    """Return the request of a body ``{since, until?, state?, types?, dry_run?}``.

    Raises:
        ProblemError: 400 malformed JSON; 422 with each fault.
    """
    faults: list[FieldFault] = []
    given = _fields(body, faults)
    span = _span(given, faults, now_ms=now_ms)
    state, types, dry_run = given.get("state", "failed"), given.get("types", []), given.get("dry_run", False)
    if not isinstance(state, str) or state not in STATES:
        faults.append(FieldFault("state", f"is unknown; send one of {', '.join(STATES)}"))
    if not isinstance(types, list) or len(types) > len(EVENT_TYPES):
        faults.append(FieldFault("types", "must be an array of event types, each once; omit it for all types"))
        types = []
    if not isinstance(dry_run, bool):
        faults.append(FieldFault("dry_run", "must be true or false"))
    known = {_type(number, given_type, faults) for number, given_type in enumerate(types)}
    since_ms, until_ms = _checked(span, faults)
    return ReplayBody(since_ms, until_ms, Choice(STATES[state], tuple(sorted(known))), dry_run)


def _fields(body: bytes, faults: list[FieldFault]) -> Mapping[str, Any]:
    given = parse_json(body)
    if not isinstance(given, dict):
        fields = ", ".join(name if name == _REQUIRED else f"{name}?" for name in _FIELDS)
        message = f"must be a JSON object {{{fields}}}"
        raise ProblemError(422, f"the body {message}", errors=(FieldFault("", message),))
    *others, last = _FIELDS
    sendable = f"{', '.join(others)} and {last}"
    unknown = islice((name for name in given if name not in _FIELDS), MAX_FAULTS)
    faults += [FieldFault(name[:_MOST_SHOWN], f"is unknown; send {sendable}") for name in unknown]
    return given


def _span(given: Mapping[str, object], faults: list[FieldFault], *, now_ms: int) -> tuple[int | None, int | None]:
    since_ms = _time(given, "since", faults)
    until_ms = _time(given, "until", faults) if given.get("until") is not None else None
    if since_ms is not None and since_ms > now_ms:
        faults.append(FieldFault("since", f"is in the future; the time is now {timestamp(now_ms)}"))
    if since_ms is not None and until_ms is not None and until_ms < since_ms:
        faults.append(FieldFault("until", "is before since"))
    return since_ms, until_ms


def _checked(span: tuple[int | None, int | None], faults: list[FieldFault]) -> tuple[int, int | None]:
    since_ms, until_ms = span
    if faults or since_ms is None:
        raise ProblemError(422, "no replay was started", errors=tuple(faults[:MAX_FAULTS]))
    return since_ms, until_ms


def _time(given: Mapping[str, object], field: str, faults: list[FieldFault]) -> int | None:
    written = given.get(field)
    moment = time_of(written) if isinstance(written, str) else None
    if moment is not None:
        return moment
    faults.append(FieldFault(field, f"is {'missing' if written is None else 'wrong'}; {EXPECTED_TIME}"))
    return None


def _type(number: int, given: object, faults: list[FieldFault]) -> str:
    try:
        return event_type(given if exact_json.is_string(given) else "")
    except UnknownEventTypeError as error:
        faults.append(FieldFault(f"types[{number}]", str(error)))
        return ""
