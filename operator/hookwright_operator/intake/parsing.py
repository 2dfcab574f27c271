"""Pure: parse the body and headers of a request into events, in each `Mode` (CloudEvents JSON event format 1.0.2)."""

import base64
import binascii
import hashlib
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from hookwright_crds.documents.event_bodies import EVENTS_BODY_LIMIT, MAX_EVENT_VALUES, MAX_VALUES
from hookwright_crds.event_type_fields import object_in
from hookwright_crds.events import (
    CLOUDEVENT_PREFIX,
    EVENT_TYPES,
    MAX_EVENTS,
    UnknownEventTypeError,
    event_type,
    is_own_type,
)
from hookwright_operator.intake.cloud_events import (
    MAX_ATTRIBUTE_BYTES,
    MAX_ATTRIBUTES,
    SPEC_VERSION,
    from_headers,
    number_of_attributes,
    passed_on,
)
from hookwright_operator.intake.content_mode import Mode, excerpt_of
from hookwright_operator.services.events import IncomingEvent
from hookwright_operator.store.records import SOURCE_END
from hookwright_runtime import exact_json
from hookwright_runtime.json_size import has_more_values, least_size, number_of_values
from hookwright_runtime.places import finished
from hookwright_runtime.problems import MAX_FAULTS, FieldFault, ProblemError, malformed_json
from hookwright_runtime.request_body import check_values, parse_json, too_many_values

MAX_EVENT_BYTES: Final = 256 * 1024
"""Most bytes of one event in the form that is sent."""
MAX_TEST_VALUES: Final = 10_000
"""Most JSON values of a test."""
PIECE_BYTES: Final = 8192
"""Bytes of events that are parsed at once; a longer event is parsed in up to three pieces."""
MAX_NAME_CHARACTERS: Final = 256
"""Most characters of an event id, of a messageId and of a CloudEvent's source."""

TEST_TYPE: Final = "delivered"
"""The event type of a test that names none."""
_TEST: Final = ("type", "payload")
_TOO_MANY: Final = "send fewer events, or smaller ones"
_NAME_RULE: Final = f"a string of 1 to {MAX_NAME_CHARACTERS} printable characters"


def parse(
    mode: Mode, body: bytes, headers: Mapping[str, str], own_types: Collection[str] = ()
) -> tuple[IncomingEvent, ...]:
    """Return all events of a request at once; arguments and errors are those of `parse_in_pieces`."""
    return finished(parse_in_pieces(mode, body, headers, own_types))


def parse_in_pieces(
    mode: Mode, body: bytes, headers: Mapping[str, str], own_types: Collection[str] = ()
) -> Generator[None, None, tuple[IncomingEvent, ...]]:
    """Return all events of a request from a generator, which yields where other requests may run.

    Args:
        mode: returned by `mode_of` for the same headers.
        body: the whole body of the request.
        headers: by lowercase name; those of the binary mode, and Idempotency-Key. With this key, an event without an id
            gets one from the key, the event's position and its content, so that a repetition is recognized.
        own_types: those of the organization, which are accepted beside the built-in ones.

    Raises:
        ProblemError: 400 malformed JSON; 413 too large; 422 not valid events. A 422 names each fault with
            its field, in a batch or array with its index as in ``[3].type``.
    """
    if len(body) > EVENTS_BODY_LIMIT:
        raise ProblemError(413, f"the body has {len(body)} bytes; at most {EVENTS_BODY_LIMIT} are accepted")
    check_values(body, MAX_VALUES, _TOO_MANY)
    faults, key = _Faults(body, own_types), headers.get("idempotency-key", "")
    read = partial(_binary, headers) if mode is Mode.BINARY else _plain if mode is Mode.PLAIN else _structured
    is_large = len(body) > PIECE_BYTES
    # The text of a CloudEvent may be longer than its data.
    check = partial(_check_text, is_sent=mode in (Mode.PLAIN, Mode.BINARY))
    if is_large and mode in (Mode.PLAIN, Mode.BATCH) and body.lstrip()[:1] == b"[":
        needs_check = len(body) > MAX_EVENT_BYTES or has_more_values(body, MAX_EVENT_VALUES)
        check_item = (lambda index, text: check(f"[{index}]", text)) if needs_check else None
        items = partial(exact_json.items, check=check_item, limit=MAX_EVENT_VALUES)
        return (yield from _all(_array(*parse_json(body, items)), read, faults, is_numbered=True, key=key))
    check("", body)
    value = parse_json(body)
    if is_large:
        yield
    if mode is Mode.BATCH or (mode is Mode.PLAIN and isinstance(value, list)):
        if not isinstance(value, list):
            raise _wrong_body("must be a JSON array of CloudEvents")
        return (yield from _all(_array(len(value), value), read, faults, is_numbered=True, key=key))
    return (yield from _all([value], read, faults, is_numbered=False, key=key))


def parse_test(body: bytes, message_id: str, own_types: Mapping[str, str] = MappingProxyType({})) -> IncomingEvent:
    """Return the event of a test, which has ``test: true``.

    Args:
        body: JSON ``{type?, payload?}``; empty for a ``delivered`` event without further fields.
        message_id: used if the payload of a built-in type has no ``messageId``.
        own_types: those of the organization, each with the text of its example, the payload of a test without one.

    Raises:
        ProblemError: 400 malformed JSON; 413 too large; 422 with each fault.
    """
    check_values(body, MAX_TEST_VALUES)
    document = parse_json(body) if body.strip() else {}
    if not isinstance(document, dict):
        raise _wrong_body("must be a JSON object {type?, payload?}")
    faults = _Faults(body, own_types)
    check = _Check("", faults)
    for name in islice((name for name in document if name not in _TEST), MAX_FAULTS):
        check.fault(excerpt_of(name), "is unknown; send type and payload")
    kind = check.type("type", document["type"]) if "type" in document else ""
    payload = document["payload"] if "payload" in document else object_in(own_types.get(kind))
    if not isinstance(payload, dict):
        check.fault("payload", "must be a JSON object")
        payload = {}
    if "type" in payload:
        payload_type = check.type("payload.type", payload["type"])
        if kind and payload_type not in ("", kind):
            check.fault("payload.type", "contradicts type; omit it or send the same type")
        kind = kind or payload_type
    kind = kind or TEST_TYPE
    defaults = {} if is_own_type(kind) else {"messageId": message_id}
    id_, payload = _payload(kind, {**defaults, **payload}, check, "payload.messageId")
    event = IncomingEvent(None, kind, id_, exact_json.dumps({**payload, "test": True}))
    if faults.found:
        raise ProblemError(422, "no test was sent", errors=tuple(faults.found[:MAX_FAULTS]))
    if len(event.body) > MAX_EVENT_BYTES:
        raise _too_large("", len(event.body))
    return event


class _Faults:
    """The faults of all events of a request, and how many values these may still have."""

    __slots__ = ("_body", "_left", "found", "own_types")

    def __init__(self, body: bytes, own_types: Collection[str]) -> None:
        self.found: list[FieldFault] = []
        self.own_types = own_types
        self._body = body
        self._left: int | None = None

    def count(self, text: bytes) -> None:
        """Count the values of a JSON text that a string of the body contains.

        Raises:
            ProblemError: 422, there are too many, together with those of the body.
        """
        # Few requests have such a text, so the values of other bodies are not counted exactly.
        room = MAX_VALUES - number_of_values(self._body) if self._left is None else self._left
        self._left = room - number_of_values(text)
        if self._left < 0:
            raise too_many_values(MAX_VALUES, _TOO_MANY)


class _Check:
    """The faults of one event."""

    __slots__ = ("_at", "_faults")

    def __init__(self, at: str, faults: _Faults) -> None:
        self._at = at
        self._faults = faults

    def count(self, text: bytes) -> None:
        """Count the values of a JSON text that a string of the event contains."""
        self._faults.count(text)
        _check_text(self._at, text)

    def fault(self, field: str, message: str) -> None:
        path = f"{self._at}.{field}" if self._at and field else self._at or field
        self._faults.found.append(FieldFault(path, message))

    def name(self, field: str, value: object) -> str:
        """Return an id or a similar name, or "" after recording a fault."""
        if isinstance(value, str) and 0 < len(value) <= MAX_NAME_CHARACTERS and value.isprintable():
            return value
        self.fault(field, f"{_lack(value)}; send {_NAME_RULE}")
        return ""

    def type(self, field: str, value: object) -> str:
        """Return the event type, or "" after recording a fault."""
        if not exact_json.is_string(value):
            self.fault(field, f"{_lack(value)}; send one of {', '.join(EVENT_TYPES)}")
            return ""
        try:
            return event_type(value, self._faults.own_types)
        except UnknownEventTypeError as error:
            self.fault(field, str(error))
            return ""


def _all(
    values: Iterable[Any], read: Callable[[Any, _Check], IncomingEvent], faults: _Faults, *, is_numbered: bool, key: str
) -> Generator[None, None, tuple[IncomingEvent, ...]]:
    errors, events, size = faults.found, [], 0
    try:
        for index, value in enumerate(values):
            at = f"[{index}]" if is_numbered else ""
            event = read(value, _Check(at, faults))
            if len(event.body) > MAX_EVENT_BYTES:
                raise _too_large(at, len(event.body))
            if read is _plain and event.body and event.digest is None and (event.event_id is not None or key):
                if len(event.body) > PIECE_BYTES:
                    yield
                event = event._replace(digest=exact_json.digest({**value, "type": event.type}))
                if event.event_id is None:
                    derived_id = hashlib.sha256(f"{key} {index} {event.digest}".encode()).hexdigest()[:40]
                    event = event._replace(event_id=f"idem-{derived_id}")
            events.append(event)
            if len(errors) > MAX_FAULTS:
                break
            size += len(event.body)
            if size > PIECE_BYTES or not event.body:
                size = 0
                yield
    except exact_json.JsonError as error:
        raise malformed_json(str(error)) from None
    if errors:
        note = "; further faults are not listed" if len(errors) > MAX_FAULTS else ""
        raise ProblemError(422, f"nothing was accepted{note}", errors=tuple(errors[:MAX_FAULTS]))
    return tuple(events)


def _check_text(at: str, text: bytes, *, is_sent: bool = True) -> None:
    """Refuse the text of an event that would take long to decode; ``is_sent``: all of its fields are sent."""
    if has_more_values(text, MAX_EVENT_VALUES):
        raise _refusal(422, at, f"has more than {MAX_EVENT_VALUES} values")
    # The type is sent without its prefix.
    size = least_size(text) - len(CLOUDEVENT_PREFIX) if is_sent else 0
    if size > MAX_EVENT_BYTES:
        raise _too_large(at, f"at least {size}")


def _array(number: int, values: Iterable[Any]) -> Iterable[Any]:
    if not 0 < number <= MAX_EVENTS:
        raise _wrong_body(f"is an array of {number} events; send 1 to {MAX_EVENTS} at once")
    return values


def _plain(value: Any, check: _Check) -> IncomingEvent:
    if not isinstance(value, dict):
        check.fault("", "must be a JSON object {id?, type, messageId, ...}")
        return _PLACEHOLDER
    event_id = None if value.get("id") is None else check.name("id", value["id"])
    kind = check.type("type", value.get("type"))
    message_id, payload = _payload(kind, value, check, "messageId")
    body = exact_json.dumps(payload)
    # That of a long event is computed after a pause.
    digest = None if event_id is None or len(body) > PIECE_BYTES else exact_json.digest(payload)
    return IncomingEvent(event_id, kind, message_id, body, digest)


def _structured(value: Any, check: _Check) -> IncomingEvent:
    if not isinstance(value, dict):
        check.fault("", "must be a CloudEvent as a JSON object")
        return _PLACEHOLDER
    context = _context(value, check, "")
    return _carried(context, _data(value, check), check, "data.")


def _binary(headers: Mapping[str, str], value: Any, check: _Check) -> IncomingEvent:
    context = _context(from_headers(headers), check, "ce-")
    return _carried(context, value, check, "")


class _Context(NamedTuple):
    """The context of a CloudEvent: its source and id, its event type, and its attributes as JSON."""

    identity: str
    kind: str
    attributes: str


def _context(event: Mapping[str, Any], check: _Check, prefix: str) -> _Context:
    """Validate the context attributes of a CloudEvent."""
    number = number_of_attributes(event)
    if number > MAX_ATTRIBUTES:
        check.fault("", f"has {number} attributes; at most {MAX_ATTRIBUTES} are accepted")
        return _Context("", "", "")
    version = event.get("specversion")
    if version != SPEC_VERSION:
        check.fault(f"{prefix}specversion", f'{_lack(version)}; send "{SPEC_VERSION}"')
    source = check.name(f"{prefix}source", event.get("source"))
    its_id = check.name(f"{prefix}id", event.get("id"))
    kind = check.type(f"{prefix}type", event.get("type"))
    attributes = {}
    for name, value, fault in passed_on(event):
        if value is not None:
            attributes[name] = value
        elif name not in ("source", "id", "type"):
            check.fault(f"{prefix}{name}", fault)
    text = exact_json.dumps(attributes)
    if len(text) > MAX_ATTRIBUTE_BYTES:
        check.fault("", f"has {len(text)} bytes of attributes; at most {MAX_ATTRIBUTE_BYTES} are accepted")
    return _Context(f"{source}{SOURCE_END}{its_id}", kind, text.decode())


def _data(event: Mapping[str, Any], check: _Check) -> Any:
    """Return the data of a CloudEvent in JSON format, or None after recording a fault."""
    data = event.get("data_base64")
    if data is None:
        return event.get("data")
    if event.get("data") is not None:
        check.fault("data_base64", "is present together with data; send only one of them")
        return None
    try:
        text = base64.b64decode(data, validate=True)
        check.count(text)
        return exact_json.loads(text)
    except (TypeError, binascii.Error, ValueError):
        check.fault("data_base64", "must be the base64 of a JSON object")
        return None


def _carried(context: _Context, data: Any, check: _Check, at: str) -> IncomingEvent:
    """Return the event in the data of a CloudEvent, whose fields are at ``at``."""
    kind = context.kind
    if not isinstance(data, dict):
        check.fault(at.removesuffix("."), "must be a JSON object")
        return _PLACEHOLDER
    if "type" in data and check.type(f"{at}type", data["type"]) not in ("", kind) and kind:
        check.fault(f"{at}type", "contradicts the type of the CloudEvent; omit it or send the same type")
    message_id, payload = _payload(kind, data, check, f"{at}messageId")
    return IncomingEvent(context.identity, kind, message_id, exact_json.dumps(payload), attributes=context.attributes)


def _payload(kind: str, fields: dict[str, Any], check: _Check, field: str) -> tuple[str, dict[str, Any]]:
    """Return the messageId, whose field has this name, and the payload to send; an own type needs no messageId."""
    if "messageId" not in fields and is_own_type(kind):
        message_id, payload = "", {"type": kind, **fields}
    else:
        message_id = check.name(field, fields.get("messageId"))
        payload = {"type": kind, "messageId": message_id, **fields}
    payload["type"] = kind
    return message_id, payload


_PLACEHOLDER: Final = IncomingEvent(None, "", "", b"")
"""Placeholder for an event that has faults and is not used."""


def _wrong_body(message: str) -> ProblemError:
    return ProblemError(422, f"the body {message}", errors=(FieldFault("", message),))


def _too_large(at: str, size: int | str) -> ProblemError:
    return _refusal(413, at, f"has {size} bytes in the form that is sent; at most {MAX_EVENT_BYTES} are accepted")


def _refusal(status: int, at: str, message: str) -> ProblemError:
    detail = f"event {at} {message}" if at else f"the event {message}"
    return ProblemError(status, detail, errors=(FieldFault(at, message),))


def _lack(value: object) -> str:
    return "is missing" if value is None else "is wrong"
