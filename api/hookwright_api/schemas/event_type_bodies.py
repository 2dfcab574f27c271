"""Pure: the bodies of event types and of the AsyncAPI description."""

from typing import Any, Final

from pydantic import Field

from hookwright_api.schemas.forms import ID_EXAMPLE, Answer, CamelAnswer
from hookwright_crds.events import CATALOGUE, Channel, example

_SHOWN: Final = "bounced"


class EventTypeAnswer(Answer):
    """An event type."""

    type: str = Field(description="The name that producers send and endpoints subscribe to.", examples=[_SHOWN])
    channel: Channel = Field(description="The messaging channel of the type.", examples=[Channel.EMAIL])
    meaning: str = Field(description="One sentence.", examples=[CATALOGUE[Channel.EMAIL][_SHOWN]])
    example: dict[str, Any] = Field(
        description="An example of the body that receivers get. Producers choose the fields after messageId.",
        examples=[example(_SHOWN)],
    )
    wildcards: list[str] = Field(
        description="The wildcards that include the type in `events` of a webhook.", examples=[["*"]]
    )


class EventTypesAnswer(Answer):
    """The catalogue of event types."""

    data: list[EventTypeAnswer] = Field(description="All event types, by channel.")


class AsyncapiAnswer(CamelAnswer):
    """An AsyncAPI 3.0.0 document. Its application is a receiver of the project's webhooks."""

    asyncapi: str = Field(description="The version of the specification.", examples=["3.0.0"])
    info: dict[str, Any] = Field(
        description="Title, version, and how many webhooks are missing.", examples=[{"title": "Webhooks of billing"}]
    )
    default_content_type: str = Field(description="Of every message.", examples=["application/json"])
    servers: dict[str, Any] = Field(
        description="By webhook, the host of its URL.",
        examples=[{ID_EXAMPLE: {"host": "example.com", "protocol": "https"}}],
    )
    channels: dict[str, Any] = Field(
        description="By webhook, the event types that it subscribes to.",
        examples=[{ID_EXAMPLE: {"title": ID_EXAMPLE, "address": None}}],
    )
    operations: dict[str, Any] = Field(
        description="By webhook, its one operation.",
        examples=[{ID_EXAMPLE: {"action": "receive"}}],
    )
    components: dict[str, Any] = Field(
        description="The message of each event type, with its headers and the schema of its payload.",
        examples=[{"messages": {_SHOWN: {"payload": {"type": "object"}}}}],
    )
