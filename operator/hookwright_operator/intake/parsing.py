"""Pure: parse the body and headers of a request into events.

Four modes: plain JSON, and CloudEvents 1.0 over HTTP in its binary, structured and batched content mode (CloudEvents
HTTP protocol binding 1.0.2, section 3; JSON event format 1.0.2).
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from hookwright_crds.events import EVENT_TYPES, UnknownEventTypeError, event_type
from hookwright_operator.intake import exact_json
from hookwright_operator.services.events import IncomingEvent
from hookwright_runtime.problems import FieldFault, ProblemError

MAX_BODY_BYTES: Final = 1024 * 1024
"""Most bytes of one request's body."""
MAX_EVENT_BYTES: Final = 256 * 1024
"""Most bytes of one event in the form that is sent."""
MAX_EVENTS: Final = 1000
"""Most events in one request."""
MAX_NAME_CHARACTERS: Final = 256
"""Most characters of an event id, of a messageId and of a CloudEvent's source."""
_MAX_FAULTS: Final = 50
"""Faults that one answer names; a batch could have thousands."""

_SPEC_VERSION: Final = "1.0"
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_ESCAPED: Final = re.compile(r"\\(.)")
_BINARY_HEADERS: Final = ("ce-specversion", "ce-type", "ce-id", "ce-source")
_NAME_RULE: Final = f"a string of 1 to {MAX_NAME_CHARACTERS} printable characters"


class Mode(Enum):
    """The content mode of a request."""

    PLAIN = "application/json"
    BINARY = "application/json with ce- headers"
    STRUCTURED = "application/cloudevents+json"
    BATCH = "application/cloudevents-batch+json"


_MEDIA_TYPES: Final = {mode.value: mode for mode in (Mode.PLAIN, Mode.STRUCTURED, Mode.BATCH)}


def mode_of(headers: Mapping[str, str]) -> Mode:
    """Return the content mode of a request.

    Args:
        headers: by lowercase name.

    Raises:
        ProblemError: 415, the media type, charset or content encoding is not supported.
    """
    given = headers.get("content-type", "")
    media, *parameters = (given,) if given in _MEDIA_TYPES else [part.strip() for part in given.lower().split(";")]
    mode = _MEDIA_TYPES.get(media)
    if mode is None:
        raise ProblemError(
            415, f"Content-Type is {_shown(given) if given else 'missing'}; send {', '.join(_MEDIA_TYPES)}"
        )
    for parameter in parameters:
        if parameter.startswith("charset=") and parameter[8:].strip('"') not in ("utf-8", "utf8"):
            raise ProblemError(415, f"Content-Type has {_shown(parameter)}; send charset=utf-8 or none")
    if headers.get("content-encoding", "identity") != "identity":
        raise ProblemError(
            415, f"Content-Encoding is {_shown(headers['content-encoding'])}; send the body without an encoding"
        )
    if mode is Mode.PLAIN and not headers.keys().isdisjoint(_BINARY_HEADERS):
        return Mode.BINARY
    return mode


def parse(mode: Mode, body: bytes, headers: Mapping[str, str]) -> tuple[IncomingEvent, ...]:
    """Return all events of a request, or raise an error.

    Args:
        mode: returned by `mode_of` for the same headers.
        body: the whole body of the request.
        headers: by lowercase name; only the binary mode reads them.

    Raises:
        ProblemError: 400 malformed JSON; 413 too large; 422 not valid events. A 422 names each fault with
            its field, in a batch or array with its index as in ``[3].type``.
    """
    if len(body) > MAX_BODY_BYTES:
        raise ProblemError(413, f"the body has {len(body)} bytes; at most {MAX_BODY_BYTES} are accepted")
    try:
        value = exact_json.loads(body)
    except exact_json.JsonError as error:
        raise ProblemError(400, f"the body is not a JSON text: {error}") from None
    if mode is Mode.BINARY:
        return _all([value], lambda value, check: _binary(headers, value, check), numbered=False)
    read = _plain if mode is Mode.PLAIN else _structured
    if mode is Mode.BATCH or (mode is Mode.PLAIN and isinstance(value, list)):
        return _all(_array(value), read, numbered=True)
    return _all([value], read, numbered=False)


class _Check:
    """The faults of one event."""

    __slots__ = ("_at", "_faults")

    def __init__(self, at: str, faults: list[FieldFault]) -> None:
        self._at = at
        self._faults = faults

    def fault(self, field: str, message: str) -> None:
        path = f"{self._at}.{field}" if self._at and field else self._at or field
        self._faults.append(FieldFault(path, message))

    def name(self, field: str, value: object) -> str:
        """Return an id or a similar name, or "" after recording a fault."""
        if isinstance(value, str) and 0 < len(value) <= MAX_NAME_CHARACTERS and value.isprintable():
            return value
        self.fault(field, f"{_lack(value)}; send {_NAME_RULE}")
        return ""

    def type(self, field: str, value: object) -> str:
        """Return the event type, or "" after recording a fault."""
        if not isinstance(value, str):
            self.fault(field, f"{_lack(value)}; send one of {', '.join(EVENT_TYPES)}")
            return ""
        try:
            return event_type(value)
        except UnknownEventTypeError as error:
            self.fault(field, str(error))
            return ""


_Read = Callable[[Any, _Check], IncomingEvent]


def _all(values: list[Any], read: _Read, *, numbered: bool) -> tuple[IncomingEvent, ...]:
    faults: list[FieldFault] = []
    events = []
    for index, value in enumerate(values):
        at = f"[{index}]" if numbered else ""
        event = read(value, _Check(at, faults))
        if len(event.body) > MAX_EVENT_BYTES:
            raise _too_large(at, len(event.body))
        events.append(event)
    if faults:
        more = f"; {len(faults) - _MAX_FAULTS} more are not listed" if len(faults) > _MAX_FAULTS else ""
        raise ProblemError(422, f"nothing was accepted{more}", errors=tuple(faults[:_MAX_FAULTS]))
    return tuple(events)


def _array(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong_body("must be a JSON array of CloudEvents")
    if not 0 < len(value) <= MAX_EVENTS:
        raise _wrong_body(f"is an array of {len(value)} events; send 1 to {MAX_EVENTS} at once")
    return value


def _plain(value: Any, check: _Check) -> IncomingEvent:
    if not isinstance(value, dict):
        check.fault("", "must be a JSON object {id?, type, messageId, ...}")
        return _NOTHING
    event_id = None if value.get("id") is None else check.name("id", value["id"])
    return _event(event_id, check.type("type", value.get("type")), value, check, "messageId")


def _structured(value: Any, check: _Check) -> IncomingEvent:
    if not isinstance(value, dict):
        check.fault("", "must be a CloudEvent as a JSON object")
        return _NOTHING
    event_id, kind = _attributes(value, check, "")
    return _carried(event_id, kind, _data(value, check), check, "data.")


def _binary(headers: Mapping[str, str], value: Any, check: _Check) -> IncomingEvent:
    attributes = {name.removeprefix("ce-"): _attribute(headers[name]) for name in _BINARY_HEADERS if name in headers}
    event_id, kind = _attributes(attributes, check, "ce-")
    return _carried(event_id, kind, value, check, "")


def _attributes(given: Mapping[str, Any], check: _Check, prefix: str) -> tuple[str, str]:
    """Validate the context attributes that every CloudEvent has; return its id and event type."""
    version = given.get("specversion")
    if version != _SPEC_VERSION:
        check.fault(f"{prefix}specversion", f'{_lack(version)}; send "{_SPEC_VERSION}"')
    check.name(f"{prefix}source", given.get("source"))
    return check.name(f"{prefix}id", given.get("id")), check.type(f"{prefix}type", given.get("type"))


def _data(event: Mapping[str, Any], check: _Check) -> Any:
    """Return the data of a CloudEvent in JSON format, or None after recording a fault."""
    encoded = event.get("data_base64")
    if encoded is None:
        return event.get("data")
    if event.get("data") is not None:
        check.fault("data_base64", "is present together with data; send only one of them")
        return None
    try:
        return exact_json.loads(base64.b64decode(encoded, validate=True))
    except (TypeError, binascii.Error, ValueError):
        check.fault("data_base64", "must be the base64 of a JSON object")
        return None


def _carried(event_id: str, kind: str, data: Any, check: _Check, at: str) -> IncomingEvent:
    """Return the event in the data of a CloudEvent, whose fields are at ``at``."""
    if not isinstance(data, dict):
        check.fault(at.removesuffix("."), "must be a JSON object that has messageId")
        return _NOTHING
    if "type" in data and check.type(f"{at}type", data["type"]) not in ("", kind) and kind:
        check.fault(f"{at}type", "contradicts the type of the CloudEvent; omit it or send the same type")
    return _event(event_id, kind, data, check, f"{at}messageId")


def _event(event_id: str | None, kind: str, given: dict[str, Any], check: _Check, field: str) -> IncomingEvent:
    message_id = check.name(field, given.get("messageId"))
    payload = {"type": kind, "messageId": message_id, **given}
    payload["type"] = kind
    return IncomingEvent(event_id, kind, message_id, exact_json.dumps(payload))


def _attribute(value: str) -> str:
    """Decode a header by HTTP binding 3.1.3.2: first quoted strings, then per cent signs, once.

    Returns:
        The attribute, or "" if the bytes are not UTF-8; no attribute may be empty.
    """
    bare = _QUOTED.sub(lambda match: _ESCAPED.sub(r"\1", match[0][1:-1]), value)
    try:
        return unquote_to_bytes(bare.encode("latin-1")).decode()
    except UnicodeDecodeError:
        return ""


_NOTHING: Final = IncomingEvent(None, "", "", b"")
"""Placeholder for an event that has faults and is not used."""


def _wrong_body(message: str) -> ProblemError:
    return ProblemError(422, f"the body {message}", errors=(FieldFault("", message),))


def _too_large(at: str, size: int) -> ProblemError:
    message = f"has {size} bytes in the form that is sent; at most {MAX_EVENT_BYTES} are accepted"
    return ProblemError(
        413, f"event {at} {message}" if at else f"the event {message}", errors=(FieldFault(at, message),)
    )


def _lack(value: object) -> str:
    return "is missing" if value is None else "is wrong"


def _shown(text: str) -> str:
    return repr(text[:64])
