"""Pure: the bodies of event types."""

from typing import Any, Final

from pydantic import Field

from hookwright_crds.documents.forms import Answer
from hookwright_crds.events import CATALOGUE, Channel, example

_EXAMPLE_TYPE: Final = "bounced"


class EventTypeAnswer(Answer):
    """An event type."""

    type: str = Field(description="The name that producers send and endpoints subscribe to.", examples=[_EXAMPLE_TYPE])
    channel: Channel = Field(description="The messaging channel of the type.", examples=[Channel.EMAIL])
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
