"""Pure: the strictly validated bodies of requests, and the bodies of answers for the OpenAPI description."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator
from pydantic.alias_generators import to_camel

from hookwright_api.auth.passwords import MAX_PASSWORD_LENGTH
from hookwright_crds.base import Timestamp
from hookwright_crds.events import EVENT_TYPES
from hookwright_crds.resources import EventType
from hookwright_crds.urls import MAX_URL_LENGTH, check_url
from hookwright_crds.users import MAX_EMAIL_LENGTH, normal_email

_ID_EXAMPLE = "wh-3k9x0q2m7a5d"
_TIME_EXAMPLE = "2026-01-31T12:00:00Z"


class Request(BaseModel):
    """Base of request bodies: unknown fields are refused, and no answer repeats the request."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Answer(BaseModel):
    """Base of answers."""

    model_config = ConfigDict(extra="forbid")


class CamelAnswer(BaseModel):
    """Base of answers with camelCase names."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, validate_by_name=True)


def _printable(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("must have only printable characters, and not only white space")
    return text


# ------------------------------------------------------------------------------------------- auth


class LoginRequest(Request):
    """The login of a user."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"email": "ada@example.com", "password": "correct horse battery staple"}}
    )

    email: Annotated[str, Field(max_length=MAX_EMAIL_LENGTH), AfterValidator(normal_email)]
    password: Annotated[SecretStr, Field(min_length=1, max_length=MAX_PASSWORD_LENGTH)]


class LoginUser(Answer):
    """The user of a session."""

    email: str = Field(examples=["ada@example.com"])
    organization: str = Field(description="The organization, which is a namespace.", examples=["acme"])


class LoginAnswer(CamelAnswer):
    """A session."""

    token: str = Field(description="Send it as Authorization: Bearer.", examples=["eyJhbGciOi…"])
    token_type: Literal["Bearer"]
    expires_at: str = Field(examples=[_TIME_EXAMPLE])
    user: LoginUser


class ProjectAnswer(CamelAnswer):
    """A project of the organization."""

    name: str = Field(examples=["billing"])
    display_name: str = Field(examples=["Billing"])


class MeAnswer(CamelAnswer):
    """The user of the session, and the accessible projects."""

    email: str = Field(examples=["ada@example.com"])
    organization: str = Field(examples=["acme"])
    projects: list[ProjectAnswer]
    expires_at: str = Field(examples=[_TIME_EXAMPLE])


# ------------------------------------------------------------------------------------------- keys


class KeyRequest(Request):
    """A key to create."""

    model_config = ConfigDict(json_schema_extra={"example": {"name": "CI sender"}})

    name: Annotated[
        str, Field(min_length=1, max_length=253, description="A name for people."), AfterValidator(_printable)
    ]
    expires_at: Timestamp | None = Field(default=None, description="When it expires; if omitted, never.")


class NewKeyAnswer(Answer):
    """A new key."""

    id: str = Field(examples=["k7q2m9x0a3b5"])
    name: str = Field(examples=["CI sender"])
    key: str = Field(
        description="The key itself: only in this answer, and stored nowhere.", examples=["hw_k7q2m9x0a3b5_…"]
    )
    created_at: str = Field(examples=[_TIME_EXAMPLE])


class KeyAnswer(Answer):
    """A key in the form of lists."""

    id: str = Field(examples=["k7q2m9x0a3b5"])
    name: str = Field(examples=["CI sender"])
    created_at: str = Field(examples=[_TIME_EXAMPLE])
    last_used_at: str | None = Field(description="Updated about once an hour.", examples=[_TIME_EXAMPLE])
    expires_at: str | None = Field(examples=[None])


class KeysAnswer(Answer):
    """The keys of a project."""

    data: list[KeyAnswer]


# --------------------------------------------------------------------------------------- webhooks


class WebhookRequest(Request):
    """An endpoint to register."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"url": "https://example.com/hooks", "events": ["delivered", "bounced"]}}
    )

    url: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_URL_LENGTH,
            description="An absolute https URL without userinfo and fragment.",
        ),
        AfterValidator(check_url),
    ]
    events: list[EventType] = Field(
        min_length=1,
        max_length=len(EVENT_TYPES),
        description="The event types to deliver, each once.",
        json_schema_extra={"uniqueItems": True},
    )

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.events)) != len(self.events):
            raise ValueError("events must not name an event type twice")
        return self


Status = Literal["pending", "active", "suspended", "failing", "error"]


class WebhookAnswer(Answer):
    """An endpoint in the form of lists."""

    id: str = Field(description="The WebhookEndpoint's name in Kubernetes.", examples=[_ID_EXAMPLE])
    url: str = Field(examples=["https://example.com/hooks"])
    events: list[str] = Field(examples=[["delivered", "bounced"]])
    project: str = Field(examples=["billing"])
    status: Status = Field(
        description="pending: not yet reconciled. active: deliveries are sent. suspended: they stay pending. failing: "
        "the last attempt got no 2xx answer. error: no delivery can be sent, and the condition Ready has the reason."
    )
    created_at: str = Field(examples=[_TIME_EXAMPLE])


class NewWebhookAnswer(WebhookAnswer):
    """A new endpoint."""

    secret: str = Field(description="The secret that signs deliveries; not shown again.", examples=["whsec_…"])


class WebhooksAnswer(Answer):
    """The endpoints of a project."""

    data: list[WebhookAnswer]


class ConditionAnswer(Answer):
    """One condition of the WebhookEndpoint."""

    type: str = Field(examples=["Ready"])
    status: str = Field(examples=["True"])
    reason: str = Field(examples=["Delivering"])
    message: str


class CountsAnswer(Answer):
    """Counts of deliveries, updated about twice a minute."""

    pending: int
    delivered: int
    failed: int
    discarded: int
    last_attempt_at: str | None
    last_status_code: int | None = Field(description="0 if there was no HTTP answer.")


class WebhookDetailAnswer(WebhookAnswer):
    """An endpoint with its conditions and counts."""

    conditions: list[ConditionAnswer]
    deliveries: CountsAnswer


class TestAnswer(CamelAnswer):
    """The result of a test."""

    success: bool
    status_code: int = Field(description="0 if there was no HTTP answer.", examples=[200])
    error: str | None = Field(default=None, description="Error text; absent after a success.")


# ------------------------------------------------------------------------------ deliveries, events


class AttemptAnswer(CamelAnswer):
    """One attempt."""

    number: int
    started_at: str
    duration_ms: int
    status_code: int = Field(description="0 if there was no HTTP answer.")
    error: str
    response: str = Field(description="The beginning of the receiver's answer.")


class DeliveryAnswer(CamelAnswer):
    """One delivery: one event for one endpoint."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(examples=["dlv_01JK3V9Q4D1X7N0T5C8B2M6EYA"])
    event_id: str
    type: str = Field(examples=["delivered"])
    status: Literal["pending", "delivered", "failed", "discarded"]
    reason: str
    accepted_at: str
    attempts: list[AttemptAnswer]
    next_attempt_at: str | None = None


class DeliveriesAnswer(Answer):
    """A page of the delivery log, newest first. It may have fewer deliveries than the limit, or none."""

    data: list[DeliveryAnswer]
    next: str | None = Field(
        description="The cursor of the next page, also after a short or empty page; null on the last one."
    )


class RetryAnswer(Answer):
    """A delivery that is sent again."""

    id: str
    status: Literal["pending"]


class EventsAnswer(Answer):
    """The result for events."""

    accepted: int
    duplicates: int = Field(description="Events whose id was seen within 24 hours; they create no deliveries.")
    deliveries: int


def event_schema() -> dict[str, Any]:
    """Return the JSON schema of the body of POST /v1/events."""
    name = {"type": "string", "minLength": 1, "maxLength": 256}
    event = {
        "type": "object",
        "required": ["type", "messageId"],
        "properties": {
            "id": {**name, "description": "Identifies repetitions within 24 hours."},
            "type": {"type": "string", "enum": [*EVENT_TYPES]},
            "messageId": name,
        },
        "additionalProperties": True,
        "example": {"id": "evt-1", "type": "delivered", "messageId": "m-42", "recipient": "ada@example.com"},
    }
    return {"oneOf": [event, {"type": "array", "items": event, "minItems": 1, "maxItems": 1000}]}
