"""Pure: the bodies of events and of event types."""

from typing import Any, Final

from pydantic import Field

from hookwright_crds.documents.forms import Answer
from hookwright_crds.events import CATALOGUE, MAX_EVENTS, MAX_TYPE_LENGTH, Channel, example

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
        "project; own: an EventType of the organization.",
        examples=[Channel.EMAIL],
    )
    meaning: str = Field(description="One sentence.", examples=[CATALOGUE[Channel.EMAIL][_EXAMPLE_TYPE]])
    example: dict[str, Any] = Field(
        description="An example of the body that receivers get. Producers choose the fields after messageId; those of "
        "an own type are as its EventType has them.",
        examples=[example(_EXAMPLE_TYPE)],
    )
    wildcards: list[str] = Field(
        description="The wildcards that include the type in `events` of a webhook.", examples=[["*"]]
    )
    deprecated: bool = Field(description="true: new receivers should not use the type; it is delivered as before.")
    payload_schema: dict[str, Any] | None = Field(
        description="The JSON Schema of the body; null if the EventType has none, and for a built-in type."
    )


class EventTypesAnswer(Answer):
    """The event types of an organization."""

    data: list[EventTypeAnswer] = Field(description="The built-in types by channel, then own types by name.")


_TYPE: Final[dict[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_TYPE_LENGTH,
    "description": "A built-in event type that producers send, or the name of an EventType of the organization.",
}
_TEST: Final[dict[str, Any]] = {
    "title": "TestRequest",
    "description": "The event of a test. Receivers get it with `test: true`.",
    "type": "object",
    "properties": {
        "type": {**_TYPE, "description": f"{_TYPE['description']} Without it: `delivered`."},
        "payload": {
            "type": "object",
            "description": "Fields of the event, up to 256 KiB; without them, those of an own type's example. Without "
            "messageId, it begins with `test_`.",
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
        "required": ["type"],
        "properties": {
            "id": {
                "anyOf": [name, {"type": "null"}],
                "description": "Identifies repetitions within 24 hours; other content gets 409. null: it has no id.",
            },
            "type": _TYPE,
            "messageId": {**name, "description": "The message that the event is about; an own type needs none."},
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
