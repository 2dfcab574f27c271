"""Pure: the columns of each kind of object, and the style of each state."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from hookwright_cli.contract import SHOWN_FIELDS, EndpointField
from hookwright_cli.durations import age

Document = Mapping[str, Any]


class Column(NamedTuple):
    """A column: its title, its text for a document at a time, and whether only ``-o wide`` shows it."""

    title: str
    text: Callable[[Document, datetime], str]
    wide: bool = False


STYLES = {
    "active": "green", "ready": "green", "delivered": "green", "completed": "green", "valid": "green",
    "failing": "red", "error": "red", "failed": "red", "unready": "red", "missing": "red", "invalid": "red",
    "pending": "yellow", "suspended": "yellow", "running": "yellow", "stopped": "yellow", "unknown": "yellow",
    "discarded": "dim", "cancelled": "dim",
}  # fmt: skip
"""The style of a cell whose text is a state."""


def shown(value: Any) -> str:
    """Return a value as a cell."""
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ",".join(map(str, value)) or "-"
        case dict():
            return ",".join(f"{name}={inner}" for name, inner in value.items()) or "-"
        case _:
            return " ".join(str(value).split())


def deliveries_text(number: int) -> str:
    """Return a number of deliveries in words."""
    return "1 delivery" if number == 1 else f"{number} deliveries"


def columns(layout: str, **texts: Callable[[Document], str]) -> tuple[Column, ...]:
    """Return the columns of a table.

    Args:
        layout: each column as ``TITLE``, ``TITLE:field`` or ``TITLE:field:age``; ``+`` before it is for ``-o wide``.
        texts: the text of each ``TITLE`` without a field.
    """
    return tuple(_column(column, texts) for column in layout.split())


def _column(layout: str, texts: Mapping[str, Callable[[Document], str]]) -> Column:
    title, _, source = layout.removeprefix("+").partition(":")
    name, _, form = source.partition(":")

    def text(document: Document, now: datetime) -> str:
        if not name:
            return texts[title](document)
        return age(document.get(name), now) if form == "age" else shown(document.get(name))

    return Column(title, text, layout.startswith("+"))


def _latest(document: Document) -> dict[str, Any]:
    """Return the latest attempt of a delivery, empty if there is none."""
    return dict((document.get("attempts") or [{}])[-1])


def _result(document: Document) -> str:
    """Return the error of the latest attempt, or its HTTP status."""
    attempt = _latest(document)
    code = attempt.get("statusCode")
    return shown(attempt.get("error") or (f"HTTP {code}" if code else ""))


def _type(document: Document) -> str:
    """Return the event type; a test, which counts nowhere, has a mark."""
    return shown(document.get("type")) + (" (test)" if document.get("test") else "")


def field_text(field: EndpointField, document: Document) -> str:
    """Return the field of an endpoint as a cell; one with pull has no field that limits requests."""
    value = document.get(field.name)
    if document.get("pull") and field.name == "url":
        return "pulled by consumers"
    if document.get("pull") and field.push_only:
        return "-"
    if field.fields and value:
        parts = {name: inner for name, inner in value.items() if inner is not None}
        return ", ".join(f"{shown(inner)} {name.replace('_', ' ')}" for name, inner in parts.items())
    return shown(value)


def _endpoint_column(field: EndpointField) -> Column:
    title = field.name.upper().replace("_", "-")
    return Column(title, lambda document, _: field_text(field, document), wide=field.name not in {"url", "events"})


ENDPOINTS = (
    *columns("NAME:id STATUS:status +PROJECT:project"),
    *map(_endpoint_column, SHOWN_FIELDS),
    *columns(
        "+PENDING AGE:created_at:age", PENDING=lambda document: shown((document.get("deliveries") or {}).get("pending"))
    ),
)
DELIVERIES = columns(
    "DELIVERY:id MESSAGE:message_id RECIPIENT:recipient STATE:status RESULT +MS +NEXT:next_attempt_at:age TYPE "
    "ENDPOINT:webhook +EVENT:event_id +ATTEMPTS AGE:accepted_at:age",
    TYPE=_type,
    ATTEMPTS=lambda document: str(max([entry["number"] for entry in document.get("attempts") or ()], default=0)),
    RESULT=_result,
    MS=lambda document: shown(_latest(document).get("duration_ms")),
)
ATTEMPTS = columns("ATTEMPT:number STARTED:started_at MS:duration_ms STATUS:statusCode ERROR:error RESPONSE:response")
KEYS = columns(
    "ID:id NAME:name +PROJECT:project SCOPES:scopes LAST-USED:last_used_at:age EXPIRES:expires_at AGE:created_at:age"
)
USERS = columns("EMAIL:email ORGANIZATION:organization ROLE:role AGE:created_at:age")
REPLAYS = columns(
    "REPLAY:id STATUS:status DONE:done TOTAL:total STATE:state +TYPES:types SINCE:since +UNTIL:until AGE:begun_at:age"
)
CONTEXTS = columns(
    "CURRENT NAME:name WAY:way PLACE:place PROJECT:project USER:email",
    CURRENT=lambda document: "*" if document.get("current") else "",
)
EVENT_TYPES = columns("TYPE:type CHANNEL:channel +DEPRECATED:deprecated MEANING:meaning")
