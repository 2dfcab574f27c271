"""Pure: the bodies of messages, which consumers take from endpoints with pull."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, ConfigDict, FailFast, Field

from hookwright_crds.base import Duration, at_most, within
from hookwright_crds.documents.forms import TIME_EXAMPLE, Answer, Request, printable
from hookwright_crds.endpoint_fields import LEASE_BOUNDS

MAX_MESSAGES: Final = 1000
"""Most messages that one request takes or settles."""
DELAY_BOUNDS: Final = ("0s", "24h")
"""Shortest and longest delay until a refused message is due again, as durations."""
_ID: Final = "dlv_01JK3V9Q4D1X7N0T5C8B2M6EYA.01JK3V9R0N6M2Q8W4T1Z7X3C5B"


Wait = Annotated[Duration, within("wait", ("0s", "30s"))]
MessageLease = Annotated[Duration, within("lease", LEASE_BOUNDS)]
MessageIds = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=128)], ...],
    Field(min_length=1, max_length=MAX_MESSAGES, description="The ids of messages of this endpoint."),
    FailFast(),
    at_most(MAX_MESSAGES),
]


class TakeQuery(Request):
    """The query for messages."""

    limit: int = Field(default=100, ge=1, le=MAX_MESSAGES, description="Messages at most.")
    wait: Wait = Field(
        default="0s", description="How long to wait for the first message if none is due, from 0s to 30s."
    )
    lease: MessageLease | None = Field(
        default=None,
        description="How long no other consumer gets the messages, from 1s to 1h; by default the webhook's.",
    )


class MessageAnswer(Answer):
    """A message: a delivery that is leased to the consumer that took it."""

    id: str = Field(
        description="Acknowledges this lease of the message; the next consumer of the message gets another id.",
        examples=[_ID],
    )
    delivery_id: str = Field(description="The delivery in the log.", examples=[_ID.partition(".")[0]])
    type: str = Field(description="The event type.", examples=["delivered"])
    attempt: int = Field(description="1 for the first attempt since the delivery became pending.", examples=[1])
    lease_until: str = Field(
        description="Until when no other consumer gets the message. The attempt then fails if it is not settled.",
        examples=[TIME_EXAMPLE],
    )
    headers: dict[str, str] = Field(
        description="The headers that a request to a URL would have: signatures, content type, the webhook's own.",
        examples=[{"webhook-id": "msg_01JK3V9Q4D1X7N0T5C8B2M6EYA", "webhook-timestamp": "1769860800"}],
    )
    body: str = Field(
        description="The exact bytes that are signed: as text if body_encoding is utf-8, otherwise as base64.",
        examples=['{"type":"delivered","messageId":"m-42"}'],
    )
    body_encoding: Literal["utf-8", "base64"] = Field(examples=["utf-8"])


class MessagesAnswer(Answer):
    """Messages, those that are due longest first; none if the wait ended before a message was due."""

    data: list[MessageAnswer]


class AckRequest(Request):
    """Messages that the consumer has processed."""

    model_config = ConfigDict(json_schema_extra={"example": {"ids": [_ID]}})
    most_values = MAX_MESSAGES + 100

    ids: MessageIds


class NackRequest(Request):
    """Messages that the consumer could not process."""

    model_config = ConfigDict(json_schema_extra={"example": {"ids": [_ID], "delay": "10s", "reason": "queue full"}})
    most_values = MAX_MESSAGES + 100

    ids: MessageIds
    delay: Annotated[Duration, within("delay", DELAY_BOUNDS)] | None = Field(
        default=None, description="When the next attempt is due, from 0s to 24h; without it, by the retry schedule."
    )
    reason: Annotated[str, Field(max_length=500), AfterValidator(printable)] | None = Field(
        default=None, description="The error of the attempt in the delivery log."
    )


class MessageResultAnswer(Answer):
    """The result for one message."""

    id: str = Field(examples=[_ID])
    result: Literal["acked", "nacked", "lease_ended", "unknown"] = Field(
        description="acked and nacked: done, now or by an earlier request. lease_ended: the lease had ended, or the "
        "other request had settled it, and nothing changed. unknown: the endpoint has no such message."
    )
    repeated: bool = Field(description="Whether an earlier request acknowledged or refused the message like this one.")
    status: Literal["pending", "delivered", "failed", "discarded"] | None = Field(
        description="The state of the delivery now; null if the message is unknown."
    )
    next_attempt_at: str | None = Field(
        description="When a pending delivery is due again; null for other states and while a consumer has it."
    )


class MessageResultsAnswer(Answer):
    """The result for each id, in the order of the request."""

    data: list[MessageResultAnswer]
