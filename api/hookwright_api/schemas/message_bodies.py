"""Pure: the bodies of messages, which consumers take from endpoints with pull."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, ConfigDict, FailFast, Field

from hookwright_api.schemas.forms import TIME_EXAMPLE, Answer, Request, printable
from hookwright_crds.base import Duration, at_most, parse_duration
from hookwright_crds.endpoint_fields import lease_within_bounds
from hookwright_crds.request_limits import (
    DELAY_BOUNDS,
    LONGEST_REASON,
    MAX_MESSAGES,
    MAX_SETTLEMENT_VALUES,
    WAIT_BOUNDS,
)

_ID: Final = "dlv_01JK3V9Q4D1X7N0T5C8B2M6EYA.01JK3V9R0N6M2Q8W4T1Z7X3C5B"


def _wait_within_bounds(wait: str) -> str:
    if parse_duration(wait) > parse_duration(WAIT_BOUNDS[1]):
        raise ValueError(f"wait must be from {WAIT_BOUNDS[0]} to {WAIT_BOUNDS[1]}")
    return wait


def _delay_within_bounds(delay: str) -> str:
    if parse_duration(delay) > parse_duration(DELAY_BOUNDS[1]):
        raise ValueError(f"delay must be from {DELAY_BOUNDS[0]} to {DELAY_BOUNDS[1]}")
    return delay


Wait = Annotated[Duration, AfterValidator(_wait_within_bounds)]
MessageLease = Annotated[Duration, AfterValidator(lease_within_bounds)]
MessageIds = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=128)], ...],
    Field(min_length=1, max_length=MAX_MESSAGES, description="The ids of messages of this endpoint."),
    FailFast(),
    at_most(MAX_MESSAGES),
]


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
    most_values = MAX_SETTLEMENT_VALUES

    ids: MessageIds


class NackRequest(Request):
    """Messages that the consumer could not process."""

    model_config = ConfigDict(json_schema_extra={"example": {"ids": [_ID], "delay": "10s", "reason": "queue full"}})
    most_values = MAX_SETTLEMENT_VALUES

    ids: MessageIds
    delay: Annotated[Duration, AfterValidator(_delay_within_bounds)] | None = Field(
        default=None, description="When the next attempt is due, from 0s to 24h; without it, by the retry schedule."
    )
    reason: Annotated[str, Field(max_length=LONGEST_REASON), AfterValidator(printable)] | None = Field(
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
