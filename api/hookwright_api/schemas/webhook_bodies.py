"""Pure: the bodies of webhook endpoints. The types of their fields are those of the WebhookEndpoint's spec."""

import re
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, model_validator

from hookwright_api.schemas.forms import ID_EXAMPLE, TIME_EXAMPLE, Answer, CamelAnswer, Request, readable
from hookwright_crds.endpoint_fields import (
    DEFAULT_LEASE,
    Description,
    Events,
    ExpiresAt,
    Format,
    HeaderName,
    Headers,
    HeaderValue,
    Lease,
    MaxInFlight,
    Overlap,
    PerMinute,
    Timeout,
    Url,
    check_format,
    check_target,
)
from hookwright_crds.resources import WebhookEndpointSpec

MAX_LABELS: Final = 32
"""Most labels of an endpoint; a label has at most 126 characters, so the API's view keeps all of them."""

_LABEL: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_FORM: Final = "1 to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"


def _label_name(name: str) -> str:
    if not _LABEL.fullmatch(name):
        raise ValueError(f"label names must be {_LABEL_FORM}; labels with a prefix and '/' belong to tools")
    return name


def _label_value(value: str) -> str:
    if value and not _LABEL.fullmatch(value):
        raise ValueError(f"label values must be empty, or {_LABEL_FORM}")
    return value


ReadableDescription = Annotated[Description, AfterValidator(readable)]
LabelName = Annotated[str, AfterValidator(_label_name)]
LabelValue = Annotated[str, AfterValidator(_label_value)]
Labels = Annotated[
    dict[LabelName, LabelValue],
    Field(
        max_length=MAX_LABELS,
        description="The object's labels without a prefix. Labels with a prefix, such as app.kubernetes.io/name, "
        "belong to tools: they are neither shown nor changed.",
        examples=[{"team": "billing"}],
    ),
]
Enabled = Annotated[StrictBool, Field(description="false pauses deliveries: they stay pending. true resumes them.")]


def _default(field: str) -> Any:
    return WebhookEndpointSpec.model_fields[field].get_default(call_default_factory=True)


class RateLimitBody(Request):
    """The rate limit of an endpoint."""

    per_minute: PerMinute


class PullBody(Request):
    """How consumers take the messages of an endpoint without a URL."""

    lease: Lease = DEFAULT_LEASE


class WebhookRequest(Request):
    """An endpoint to register: it has either a url or pull."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"url": "https://example.com/hooks", "events": ["delivered", "bounced"]}}
    )

    url: Url | None = Field(default=None, description="Where deliveries are sent; null for an endpoint with pull.")
    pull: PullBody | None = Field(
        default=None,
        description="Instead of a url: consumers take the messages. timeout, max_in_flight and rate_limit do not "
        "apply then.",
    )
    events: Events = Field(json_schema_extra={"uniqueItems": True})
    enabled: Enabled = True
    description: ReadableDescription = _default("description")
    headers: Headers = Field(default={})
    timeout: Timeout = _default("timeout")
    max_in_flight: MaxInFlight = _default("max_in_flight")
    rate_limit: RateLimitBody | None = Field(default=None, description="null: no limit.")
    format: Format = _default("format")
    labels: Labels = Field(default={})
    expires_at: ExpiresAt | None = Field(
        default=None,
        description="When the endpoint is deleted; null: never. Then it gets no more events, and its pending "
        "deliveries are discarded.",
        examples=[TIME_EXAMPLE],
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_format(self.format, self.headers)
        check_target(
            self.url,
            self.pull,
            timeout=self.timeout,
            max_in_flight=self.max_in_flight,
            rate_limit=self.rate_limit,
        )
        return self


class PullPatch(Request):
    """A change of pull."""

    lease: Lease | None = None


class RateLimitPatch(Request):
    """A change of the rate limit."""

    per_minute: PerMinute | None = None


class WebhookPatch(Request):
    """A JSON merge patch (RFC 7396) of an endpoint: an absent field stays, and null resets a field to its default.

    The result is validated like an endpoint to register, so events cannot be null, and one of url and pull
    is null.
    """

    model_config = ConfigDict(
        json_schema_extra={"example": {"enabled": False, "rate_limit": None, "labels": {"team": "billing"}}}
    )

    url: Url | None = None
    pull: PullPatch | None = None
    events: Events | None = None
    enabled: Enabled | None = None
    description: ReadableDescription | None = None
    headers: dict[HeaderName, HeaderValue | None] | None = Field(
        default=None, description="Only the named headers change; null removes one."
    )
    timeout: Timeout | None = None
    max_in_flight: MaxInFlight | None = None
    rate_limit: RateLimitPatch | None = None
    format: Format | None = None
    labels: dict[LabelName, LabelValue | None] | None = Field(
        default=None, description="Only the named labels change; null removes one."
    )
    expires_at: ExpiresAt | None = Field(default=None, examples=[TIME_EXAMPLE])


class RotationRequest(Request):
    """A rotation of the signing secret."""

    model_config = ConfigDict(json_schema_extra={"example": {"overlap": "24h"}})

    overlap: Overlap | None = Field(
        default=None,
        description="How long the replaced secret also signs, from 0s to 168h. It becomes the endpoint's overlap; "
        "without it the present one stays, which is 24h by default.",
    )


Status = Literal["pending", "active", "suspended", "failing", "error"]


class RateLimitAnswer(Answer):
    """The rate limit of an endpoint."""

    per_minute: int = Field(examples=[600])


class PullAnswer(Answer):
    """How consumers take the messages of an endpoint."""

    lease: str = Field(examples=["30s"])


class WebhookAnswer(Answer):
    """An endpoint in the form of lists."""

    id: str = Field(description="The WebhookEndpoint's name in Kubernetes.", examples=[ID_EXAMPLE])
    url: str | None = Field(description="null if consumers take the messages.", examples=["https://example.com/hooks"])
    pull: PullAnswer | None = Field(description="How consumers take messages; null if the endpoint has a url.")
    events: list[str] = Field(examples=[["delivered", "bounced"]])
    project: str = Field(examples=["billing"])
    status: Status = Field(
        description="pending: not yet reconciled. active: deliveries are sent. suspended: they stay pending. failing: "
        "the last attempt got no 2xx answer. error: no delivery can be sent, and the condition Ready has the reason."
    )
    created_at: str = Field(examples=[TIME_EXAMPLE])
    enabled: bool = Field(description="Whether deliveries are sent.")
    description: str
    header_names: list[str] = Field(
        description="The names of the static headers. Their values are not shown, because a receiver may use one as a "
        "credential.",
        examples=[["X-Team"]],
    )
    timeout: str = Field(examples=["15s"])
    max_in_flight: int = Field(examples=[8])
    rate_limit: RateLimitAnswer | None = Field(description="null: no limit.")
    format: str = Field(examples=["json"])
    labels: dict[str, str] = Field(description="Labels without a prefix.", examples=[{"team": "billing"}])
    expires_at: str | None = Field(
        description="When it expires; null: never. An endpoint that is declared in YAML stays, with the status error.",
        examples=[None],
    )


class NewWebhookAnswer(WebhookAnswer):
    """A new endpoint."""

    secret: str = Field(
        description="The secret that signs deliveries. Later only GET /v1/webhooks/{id}/secret shows it, to a session.",
        examples=["whsec_…"],
    )


class WebhooksAnswer(Answer):
    """The endpoints of a project, oldest first."""

    data: list[WebhookAnswer]
    next: str | None = Field(description="The cursor of the next page; null on the last one, and without a limit.")


class ConditionAnswer(Answer):
    """One condition of the WebhookEndpoint."""

    type: str = Field(examples=["Ready"])
    status: str = Field(examples=["True"])
    reason: str = Field(examples=["Delivering"])
    message: str


class CountsAnswer(Answer):
    """Counts of deliveries, updated 60 seconds after a change by default (HOOKWRIGHT_STATUS_INTERVAL)."""

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


class SecretAnswer(Answer):
    """The signing secret of an endpoint."""

    id: str = Field(description="The WebhookEndpoint's name in Kubernetes.", examples=[ID_EXAMPLE])
    secret: str = Field(description="The secret that signs deliveries.", examples=["whsec_…"])
    previous_signs_until: str | None = Field(
        description="Until when the replaced secret also signs; null if only this secret signs.",
        examples=[TIME_EXAMPLE],
    )


class TestAnswer(CamelAnswer):
    """The result of a test."""

    success: bool
    status_code: int = Field(description="0 if there was no HTTP answer.", examples=[200])
    error: str | None = Field(default=None, description="Error text; absent after a success.")
    delivery_id: str | None = Field(
        default=None,
        alias="delivery_id",
        description="The id of the test in the delivery log; absent if the log could not be written.",
        examples=["dlv_01JK3V9Q4D1X7N0T5C8B2M6EYA"],
    )
