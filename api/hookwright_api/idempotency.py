"""Pure: POSTs that can be repeated for 24 hours, without stored answers.

A POST with an ``Idempotency-Key`` creates an object whose name follows from the key. Two replicas cannot create it
twice, because the API server refuses the second one. The object itself carries the digest of the request, which
distinguishes a repetition from another request with the same key.

The name of a webhook or an API key also follows from the credential. So another credential of the same project that
guesses the Idempotency-Key does not get the stored answer, which has the signing secret.

Source: draft-ietf-httpapi-idempotency-key-header-07; another request with the same key is a 422 (2.7).
"""

import hashlib
import json
import re
from collections.abc import Callable, Generator, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Protocol, TypeVar

from hookwright_crds.documents.event_bodies import MAX_EVENT_VALUES, MAX_VALUES
from hookwright_crds.events import MAX_EVENTS
from hookwright_runtime.json_size import end_of_value, has_more_values
from hookwright_runtime.problems import Code, FieldFault, ProblemError, invalid

HEADER: Final = "Idempotency-Key"
REQUEST_ANNOTATION: Final = "hookwright.dev/idempotency-request"
"""Annotation of a created object: the SHA-256 of the request that created it."""
CREATOR_ANNOTATION: Final = "hookwright.dev/created-by"
"""Annotation of a created object: the user or key that created it, as the audit log names it."""
LIFETIME: Final = timedelta(hours=24)
GENERATIONS: Final = 8
"""How often one key may create a new object, each time a day later, while its earlier objects still exist."""

_PIECE_CHARACTERS: Final = 16_384
"""Characters of events that get their ids without a pause for other requests, if an event is not longer."""
_ID_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_KEY: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?")

_canonical: Final = json.JSONEncoder(sort_keys=True, check_circular=False).encode
_number: Final = "\udc00".__add__
"""Returns a number as its text, because two texts can be one float. No string begins like it: the operator refuses half
a surrogate pair."""
_scan: Final = json.JSONDecoder(parse_float=_number, parse_int=_number).raw_decode
_SPACE: Final = re.compile(r"[ \t\n\r]*+")
_COLON: Final = re.compile(r"[ \t\n\r]*+:[ \t\n\r]*+")
_OTHER_MEMBERS: Final = re.compile(
    r"""(?:[\s,]*+(?!"id")"[^"\\]*+"\s*+:\s*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"|[-+.0-9a-zA-Z]++))*+[\s,]*+"""
)
"""Members before ``id`` whose names have no escape and whose values are neither objects nor arrays."""


def check_key(value: str | None) -> str | None:
    """Return the header's value; None if there is none.

    Raises:
        ProblemError: 422, it is empty, too long or not printable ASCII.
    """
    if value is None or _KEY.fullmatch(value):
        return value
    raise invalid(FieldFault(HEADER, "must be 1 to 255 printable ASCII characters"))


def bound_key(value: str | None, credential: str) -> str | None:
    """Return the header's value together with the credential that sent it; None if there is no header.

    Args:
        value: the header's value.
        credential: uid of the ApiKey, or of the user's Secret.

    Raises:
        ProblemError: as `check_key`.
    """
    key = check_key(value)
    return None if key is None else f"{credential}\0{key}"


def derived_id(length: int, *parts: str) -> str:
    """Return an id of ``[a-z0-9]`` that is derived from the parts, 5 bits per character."""
    number = int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest())
    characters = []
    for _ in range(length):
        number, rest = divmod(number, len(_ID_ALPHABET))
        characters.append(_ID_ALPHABET[rest])
    return "".join(characters)


def request_digest(body: Mapping[str, Any]) -> str:
    """Return the digest of a request: the SHA-256 of its content, independent of the order of fields."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()


def expired(created_at: datetime, now: datetime) -> bool:
    """Return whether a key that created an object at ``created_at`` may create a new one."""
    return now - created_at >= LIFETIME


class _Identity(Protocol):
    @property
    def created(self) -> datetime: ...


class _Identified(Protocol):
    """A record of the view, of which this module needs only the time of its creation."""

    @property
    def identity(self) -> _Identity: ...


R = TypeVar("R", bound=_Identified)


def found_or_free(names: Iterable[str], find: Callable[[str], R | None], now: datetime) -> tuple[str, R | None]:
    """Return the object that a key created within its lifetime, with its name; else a free name and None.

    Args:
        names: of all generations, the oldest first. Older objects may be deleted already, so each one is looked at
            before a free name is taken.
        find: returns the object of a name, None if there is none.
        now: the present time.

    Raises:
        ProblemError: 409, no name is free.
    """
    objects = {name: find(name) for name in names}
    for name, record in objects.items():
        if record is not None and not expired(record.identity.created, now):
            return name, record
    for name, record in objects.items():
        if record is None:
            return name, None
    raise ProblemError(409, f"this {HEADER} was used too often; use a new one")


def generations(length: int, *parts: str) -> list[str]:
    """Return the ids that follow from a key, of each generation."""
    return [derived_id(length, *parts, str(generation)) for generation in range(GENERATIONS)]


def check_same(annotations: Mapping[str, str], digest: str) -> None:
    """Return if the request is a repetition.

    Raises:
        ProblemError: 422, it is another request.
    """
    if annotations.get(REQUEST_ANNOTATION) != digest:
        raise key_reused()


def key_reused() -> ProblemError:
    """Return the 422 for a key of another request."""
    fault = FieldFault(HEADER, "was used within 24 hours for another request; use a new key")
    return invalid(fault, code=Code.IDEMPOTENCY_KEY_REUSED)


def rotated_since() -> ProblemError:
    """Return the 409 for a repetition whose signing secret is not the current one."""
    return ProblemError(
        409, f"the secret was replaced after the request with this {HEADER}; its secret is not the current one"
    )


class EventsShapeError(ValueError):
    """A text that is not an event or an array of events within the bounds of a request, so it gets no ids."""


def event_ids_in_pieces(body: bytes, *parts: str) -> Generator[None, None, bytes]:
    """Return the JSON of events with an id for each that has none or null, so that a repetition is recognized.

    The id is derived from the parts, the event's position and its content, with each number as its text. Another
    request with the same key has other ids, so none of its events is lost. Except for the ids the text is unchanged.
    The generator yields where other requests may run.

    Raises:
        EventsShapeError: the text, or an event of it, has too many values; it is neither a JSON object nor an array of
            at most `MAX_EVENTS` JSON objects; or the name ``id`` is repeated.
    """
    if has_more_values(body, MAX_VALUES):
        # The operator refuses so many values; to decode them here would keep the event loop busy.
        raise EventsShapeError(f"more than {MAX_VALUES} values")
    try:
        text = body.decode()
        spans = yield from _objects(text)
    except (ValueError, RecursionError) as error:
        raise EventsShapeError("the body must be one event or an array of events") from error
    pieces, at, pause_at = [], 0, _PIECE_CHARACTERS
    for index, (start, event) in enumerate(spans):
        if start > pause_at:
            pause_at = start + _PIECE_CHARACTERS
            yield
        if event.get("id") is not None:
            continue
        canonical = _canonical(event)
        event_id = f"idem-{derived_id(40, *parts, str(index), canonical)}"
        if "id" in event:
            null = _null_id(text, start)
            pieces += [text[at:null], f'"{event_id}"']
            at = null + len("null")
        else:
            pieces += [text[at : start + 1], f'"id":"{event_id}"', "," if event else ""]
            at = start + 1
    return "".join((*pieces, text[at:])).encode()


def _null_id(text: str, start: int) -> int:
    """Return the position of the null that is the ``id`` of an event that begins at ``start``.

    Raises:
        EventsShapeError: the first ``id`` is not null, so the name is repeated.
    """
    at = start + 1
    while True:
        name, end = _scan(text, _end(_OTHER_MEMBERS, text, at))
        value = _end(_COLON, text, end)
        if name == "id":
            break
        _, at = _scan(text, value)
    if not text.startswith("null", value):
        raise EventsShapeError("the name id is repeated")
    return value


def _objects(text: str) -> Generator[None, None, list[tuple[int, dict[str, Any]]]]:
    """Return each event with the position of its opening brace."""
    at = _end(_SPACE, text, 0)
    if text[at : at + 1] == "{":
        event, end = _event(text, at)
        if end > _PIECE_CHARACTERS:
            yield
        return [(at, event)]
    if text[at : at + 1] != "[":
        raise EventsShapeError("neither an object nor an array")
    events: list[tuple[int, dict[str, Any]]] = []
    at, pause_at = _end(_SPACE, text, at + 1), _PIECE_CHARACTERS
    while text[at : at + 1] != "]":
        if len(events) == MAX_EVENTS:
            # The operator refuses so many events; to parse the rest would only take time.
            raise EventsShapeError(f"more than {MAX_EVENTS} events")
        event, end = _event(text, at)
        if not isinstance(event, dict):
            raise EventsShapeError("not an object")
        events.append((at, event))
        at = _end(_SPACE, text, end)
        if text[at : at + 1] == ",":
            at = _end(_SPACE, text, at + 1)
        if at > pause_at:
            pause_at = at + _PIECE_CHARACTERS
            yield
    return events


def _event(text: str, at: int) -> tuple[Any, int]:
    """Return the event that begins at a position, and its end."""
    end = end_of_value(text, at, MAX_EVENT_VALUES)
    if has_more_values(text[at:end].encode(), MAX_EVENT_VALUES):
        raise EventsShapeError(f"an event has more than {MAX_EVENT_VALUES} values")
    return _scan(text, at)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return where the match of a pattern that begins at a position ends; the position if there is none."""
    match = pattern.match(text, at)
    return match.end() if match else at
