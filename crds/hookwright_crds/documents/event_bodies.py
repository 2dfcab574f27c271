"""Pure: the bodies of events and of event types."""

from typing import Any, Final

from pydantic import Field

from hookwright_crds.documents.forms import Answer
from hookwright_crds.events import CATALOGUE, EVENT_TYPES, MAX_EVENTS, Channel, example

EVENTS_BODY_LIMIT: Final = 1024 * 1024
"""Most bytes of the body of a request with events."""
MAX_VALUES: Final = 100_000
"""Most JSON values of all events of a request; to parse as many numbers takes about 0.2 s."""
MAX_EVENT_VALUES: Final = 20_000
"""Most JSON values of one event, which is decoded without a pause for other requests."""
_EXAMPLE_TYPE: Final = "bounced"


class EventsAnswer(Answer):
    """The result for events."""

    accepted: int
    duplicates: int = Field(description="Events whose id was seen within 24 hours; they create no deliveries.")
    deliveries: int
    event_ids: list[str] = Field(
        description="The webhook-id of each event at its receivers; for a duplicate, that of the first event.",
        examples=[["msg_01JK3V9Q4D1X7N0T5C8B2M6EYA"]],
    )


class EventTypeAnswer(Answer):
    """An event type."""

    type: str = Field(description="The name to which endpoints subscribe.", examples=[_EXAMPLE_TYPE])
    channel: Channel = Field(
        description="The messaging channel of the type; hookwright: the operator sends it about another webhook of the "
        "project.",
        examples=[Channel.EMAIL],
    )
    meaning: str = Field(description="One sentence.", examples=[CATALOGUE[Channel.EMAIL][_EXAMPLE_TYPE]])
    example: dict[str, Any] = Field(
        description="An example of the body that receivers get. Producers choose the fields after messageId.",
        examples=[example(_EXAMPLE_TYPE)],
    )
    wildcards: list[str] = Field(
        description="The wildcards that include the type in `events` of a webhook.", examples=[["*"]]
    )


class EventTypesAnswer(Answer):
    """The catalogue of event types."""

    data: list[EventTypeAnswer] = Field(description="All event types, by channel.")


_TEST: Final[dict[str, Any]] = {
    "title": "TestRequest",
    "description": "The event of a test. Receivers get it with `test: true`.",
    "type": "object",
    "properties": {
        "type": {"type": "string", "enum": [*EVENT_TYPES], "description": "The event type; `delivered` without it."},
        "payload": {
            "type": "object",
            "description": "Fields of the event, up to 256 KiB. Without messageId, it begins with `test_`.",
            "additionalProperties": True,
        },
    },
    "additionalProperties": False,
    "example": {"type": "bounced", "payload": {"recipient": "ada@example.com"}},
}


def events_schemas() -> dict[str, Any]:
    """Return the JSON schemas of the bodies that the operator validates, by their names.

    Each has a name, because generators of clients make a usable type only for a named schema.
    """
    name = {"type": "string", "minLength": 1, "maxLength": 256}
    event = {
        "title": "Event",
        "description": "One event. Receivers get all of its fields.",
        "type": "object",
        "required": ["type", "messageId"],
        "properties": {
            "id": {
                "anyOf": [name, {"type": "null"}],
                "description": "Identifies repetitions within 24 hours; other content gets 409. null: it has no id.",
            },
            "type": {"type": "string", "enum": [*EVENT_TYPES], "description": "The event type."},
            "messageId": {**name, "description": "The message that the event is about."},
        },
        "additionalProperties": True,
        "example": {"id": "evt-1", "type": "delivered", "messageId": "m-42", "recipient": "ada@example.com"},
    }
    return {
        "Event": event,
        "TestRequest": _TEST,
        "EventList": {
            "title": "EventList",
            "description": "Several events, accepted as a whole or not at all.",
            "type": "array",
            "items": {"$ref": "#/components/schemas/Event"},
            "minItems": 1,
            "maxItems": MAX_EVENTS,
        },
        "EventsRequest": {
            "title": "EventsRequest",
            "description": "One event, or an array of them.",
            "oneOf": [{"$ref": "#/components/schemas/Event"}, {"$ref": "#/components/schemas/EventList"}],
        },
    }
