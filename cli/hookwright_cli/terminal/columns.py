"""Pure: the columns of each kind of object, and the style of each state."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from hookwright_cli.contract import EndpointField, shown_fields
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


def field(name: str) -> Callable[[Document, datetime], str]:
    """Return a reader of a field."""
    return lambda document, _: shown(document.get(name))


def _age(name: str) -> Callable[[Document, datetime], str]:
    return lambda document, now: age(document.get(name), now)


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


def _last(name: str) -> Callable[[Document, datetime], str]:
    def text(document: Document, _: datetime) -> str:
        attempts = document.get("attempts") or [{}]
        return shown(attempts[-1].get(name))

    return text


def _result(document: Document, _: datetime) -> str:
    """Return the error of the latest attempt, or its HTTP status."""
    attempts = document.get("attempts") or []
    if not attempts:
        return "-"
    code = attempts[-1].get("statusCode")
    return shown(attempts[-1].get("error") or (f"HTTP {code}" if code else ""))


def _type(document: Document, _: datetime) -> str:
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
        return ", ".join(f"{inner} {name.replace('_', ' ')}" for name, inner in value.items())
    return shown(value)


def _endpoint_column(field: EndpointField) -> Column:
    title = field.name.upper().replace("_", "-")
    return Column(title, lambda document, _: field_text(field, document), wide=field.name not in {"url", "events"})


def _pending(document: Document, _: datetime) -> str:
    return shown((document.get("deliveries") or {}).get("pending"))


ENDPOINTS = (
    Column("NAME", field("id")),
    Column("STATUS", field("status")),
    Column("PROJECT", field("project"), wide=True),
    *map(_endpoint_column, shown_fields()),
    Column("PENDING", _pending, wide=True),
    Column("AGE", _age("created_at")),
)
DELIVERIES = (
    Column("DELIVERY", field("id")),
    Column("STATE", field("status")),
    Column("TYPE", _type),
    Column("ENDPOINT", field("webhook"), wide=True),
    Column("EVENT", field("event_id"), wide=True),
    Column(
        "ATTEMPTS", lambda document, _: str(max([one["number"] for one in document.get("attempts") or ()], default=0))
    ),
    Column("RESULT", _result),
    Column("MS", _last("duration_ms"), wide=True),
    Column("NEXT", _age("next_attempt_at"), wide=True),
    Column("AGE", _age("accepted_at")),
)
ATTEMPTS = (
    Column("ATTEMPT", field("number")),
    Column("STARTED", field("started_at")),
    Column("MS", field("duration_ms")),
    Column("STATUS", field("statusCode")),
    Column("ERROR", field("error")),
    Column("RESPONSE", field("response")),
)
KEYS = (
    Column("ID", field("id")),
    Column("NAME", field("name")),
    Column("PROJECT", field("project"), wide=True),
    Column("SCOPES", field("scopes")),
    Column("LAST-USED", _age("last_used_at")),
    Column("EXPIRES", field("expires_at")),
    Column("AGE", _age("created_at")),
)
USERS = (
    Column("EMAIL", field("email")),
    Column("ORGANIZATION", field("organization")),
    Column("ROLE", field("role")),
    Column("AGE", _age("created_at")),
)
REPLAYS = (
    Column("REPLAY", field("id")),
    Column("STATUS", field("status")),
    Column("DONE", field("done")),
    Column("TOTAL", field("total")),
    Column("STATE", field("state")),
    Column("TYPES", field("types"), wide=True),
    Column("SINCE", field("since")),
    Column("UNTIL", field("until"), wide=True),
    Column("AGE", _age("begun_at")),
)
CONTEXTS = (
    Column("CURRENT", lambda document, _: "*" if document.get("current") else ""),
    Column("NAME", field("name")),
    Column("WAY", field("way")),
    Column("PLACE", field("place")),
    Column("PROJECT", field("project")),
    Column("USER", field("email")),
)
EVENT_TYPES = (
    Column("TYPE", field("type")),
    Column("CHANNEL", field("channel")),
    Column("MEANING", field("meaning")),
)
