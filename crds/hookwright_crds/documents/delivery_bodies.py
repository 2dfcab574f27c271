"""Pure: the bodies of the delivery log."""

from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from hookwright_crds.documents.forms import (
    ID_EXAMPLE,
    TIME_EXAMPLE,
    Answer,
    Moment,
    Request,
    check_order,
    printable,
)
from hookwright_crds.events import delivered_type

State = Literal["pending", "delivered", "failed", "discarded"]
Name = Annotated[str, Field(max_length=256), AfterValidator(printable)]
_EVENT_ID: Final = "msg_01JK3V9Q4D1X7N0T5C8B2M6EYA"
_WHY_OMITTED: Final = "Why the {} is not shown; absent if the project's log has payloads."


def _http_status(code: int) -> int:
    if 0 < code < 100:
        raise ValueError("is wrong; send an HTTP status, or 0 for attempts without a response")
    return code


Limit = Annotated[int, Field(ge=1, le=250)]


class LogQuery(Request):
    """The query for one page of the log of a webhook."""

    status: State | None = Field(None, description="Only deliveries in this state.")
    limit: Limit = Field(50, description="Deliveries on one page.")
    cursor: str | None = Field(None, max_length=512, description="The `next` of the previous page.")


class DeliveryConditions(Request):
    """The conditions of a search; all of them apply together."""

    message_id: Name | None = Field(None, description="The `messageId` of the event.", examples=["m-42"])
    event_id: Name | None = Field(
        None,
        description="The id of the event, which is `webhook-id`; or the `id` that its producer sent.",
        examples=[_EVENT_ID],
    )
    type: Annotated[str, Field(max_length=256), AfterValidator(delivered_type)] | None = Field(
        None, description="The event type.", examples=["delivered"]
    )
    status: State | None = Field(None, description="Only deliveries in this state.")
    status_code: Annotated[int, Field(ge=0, le=599), AfterValidator(_http_status)] | None = Field(
        None, description="The HTTP status of the latest attempt; 0: it had no HTTP answer.", examples=[500]
    )
    webhook: str | None = Field(None, max_length=253, description="The id of a webhook.", examples=[ID_EXAMPLE])
    since: Moment | None = Field(
        None, description="Only deliveries that were created at this time or later.", examples=[TIME_EXAMPLE]
    )
    until: Moment | None = Field(
        None, description="Only deliveries that were created at this time or earlier.", examples=[TIME_EXAMPLE]
    )
    limit: Limit = Field(50, description="Deliveries on one page.")
    cursor: str | None = Field(None, max_length=512, description="The `next` of the previous page.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        check_order(self.since, self.until)
        return self


class DeliverySearch(DeliveryConditions):
    """The conditions of a search with a recipient, which is personal and so is in no address."""

    most_values: ClassVar[int] = 20
    recipient: Name | None = Field(
        None, description="The `recipient` of the event, or its `to`, in any case.", examples=["ada@example.com"]
    )


class AttemptAnswer(Answer):
    """One attempt."""

    number: int
    started_at: str
    duration_ms: int
    status_code: int = Field(alias="statusCode", description="0 if there was no HTTP answer.")
    error: str
    response: str = Field(description="The beginning of the receiver's answer; empty if it is omitted.")
    response_omitted: str | None = Field(None, description=_WHY_OMITTED.format("beginning of the answer"))


class DetailedAttempt(AttemptAnswer):
    """One attempt with its headers."""

    request_headers: dict[str, str] | None = Field(
        description="The headers that were sent; the values of the webhook's own headers are hidden. Null if they are "
        "not known.",
    )
    signature_known: bool = Field(
        description="False if the signing secret was rotated since; then request_headers has no signatures.",
    )
    endpoint_changed: bool | None = Field(
        description="True if the URL or a header of the webhook has changed since; then request_headers has only those "
        "of the event. Null if that is not known.",
    )
    response_headers: dict[str, str] | None = Field(
        description="The headers of the answer, up to 2 KiB; cookies are hidden. Null without an answer.",
    )


class DeliveryAnswer(Answer):
    """One delivery: one event for one endpoint."""

    id: str = Field(examples=["dlv_01JK3V9Q4D1X7N0T5C8B2M6EYA"])
    event_id: str = Field(examples=[_EVENT_ID])
    message_id: str = Field(description="The `messageId` of the event.", examples=["m-42"])
    recipient: str | None = Field(
        None,
        description="The `recipient` of the event, or its `to`. Absent if neither is a text in the first 2 KiB, or if "
        "the project's log has no payloads.",
        examples=["ada@example.com"],
    )
    webhook: str = Field(description="The id of the webhook.", examples=[ID_EXAMPLE])
    type: str = Field(examples=["delivered"])
    status: State
    reason: str
    accepted_at: str
    attempts: list[AttemptAnswer]
    next_attempt_at: str | None = None
    test: bool = Field(
        default=False,
        description="true for a test, otherwise absent. A test has one attempt, counts nowhere, and cannot be retried.",
    )


class SentRequestAnswer(Answer):
    """The request of a delivery."""

    method: str | None = Field(description="null if a consumer took the message.", examples=["POST"])
    url: str | None = Field(
        description="The webhook's URL now; null if consumers take its messages.",
        examples=["https://example.com/hooks"],
    )
    body: str | None = Field(
        description="The exact text that is sent; null if it is omitted.",
        examples=['{"type":"delivered","messageId":"m-42"}'],
    )
    body_omitted: str | None = Field(None, description=_WHY_OMITTED.format("body"))


class DetailedDelivery(DeliveryAnswer):
    """One delivery with its request as it was sent."""

    request: SentRequestAnswer | None = None
    attempts: list[DetailedAttempt]  # type: ignore[assignment]


class DeliveriesAnswer(Answer):
    """A page of the delivery log, newest first. It may have fewer deliveries than the limit, or none."""

    data: list[DeliveryAnswer]
    next: str | None = Field(
        description="The cursor of the next page, also after a short or empty page; null on the last one."
    )
    examined_since: str | None = Field(
        None,
        description="Of a search with a next page: no delivery of this time or later is on a later page.",
        examples=[TIME_EXAMPLE],
    )


class EventAnswer(Answer):
    """One event with its deliveries."""

    id: str = Field(examples=[_EVENT_ID])
    project: str = Field(examples=["billing"])
    type: str = Field(examples=["delivered"])
    accepted_at: str = Field(examples=[TIME_EXAMPLE])
    body: str | None = Field(
        description="The exact text that is sent; null if it is omitted.",
        examples=['{"type":"delivered","messageId":"m-42"}'],
    )
    body_omitted: str | None = Field(None, description=_WHY_OMITTED.format("body"))
    cloudevent: dict[str, str] | None = Field(None, description="The context attributes, only of a CloudEvent.")
    deliveries: list[DeliveryAnswer] = Field(description="The newest deliveries, at most 100.")
    next: str | None = Field(
        description="If there are more: the cursor for `GET /v1/deliveries?event_id=<id>`, which lists the others."
    )


class DeliveryRetryAnswer(Answer):
    """A delivery that is sent again."""

    id: str
    status: Literal["pending"]
