"""Pure: the bodies of webhook endpoints. The types of their fields are those of the WebhookEndpoint's spec."""

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, field_validator, model_validator

from hookwright_crds.base import at_most
from hookwright_crds.derived_models import answer_of, patch_of, request_of
from hookwright_crds.documents.credential_bodies import (
    OAuth2Patch,
    OAuth2Request,
    SecretHeaderPatch,
    SecretHeaderRequest,
    TlsRequest,
)
from hookwright_crds.documents.forms import ID_EXAMPLE, TIME_EXAMPLE, Answer, Request, readable
from hookwright_crds.endpoint_fields import (
    HIDDEN_FIELDS,
    PUSH_ONLY_SENTENCE,
    EndpointFields,
    HeaderName,
    Overlap,
    check_consistent,
)
from hookwright_crds.resources import CREDENTIAL_FIELDS, MAX_SECRET_HEADERS, check_credentials
from hookwright_crds.tls import HTTPS_PATTERN, TLS_SENTENCE

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
    at_most(MAX_LABELS),
]
SecretHeaders = Annotated[
    dict[HeaderName, SecretHeaderRequest],
    Field(
        max_length=MAX_SECRET_HEADERS,
        description="Headers, such as a bearer token, whose values go into Secrets and are not shown: at most 8.",
        examples=[{"Authorization": {"prefix": "Bearer ", "value": "replace-me"}}],
    ),
    at_most(MAX_SECRET_HEADERS),
]
_OAUTH2: Final = (
    "An access token in every delivery, as Authorization: Bearer. The client's secret goes into a Secret of the "
    "endpoint."
)
Enabled = Annotated[StrictBool, Field(description="false pauses deliveries: they stay pending. true resumes them.")]


if TYPE_CHECKING:
    _RequestFields = EndpointFields
else:
    _RequestFields = request_of(EndpointFields, Request)
_PatchFields: Any = patch_of(EndpointFields, Request)
_AnswerFields: Any = answer_of(EndpointFields, Answer, without=HIDDEN_FIELDS)


class WebhookRequest(_RequestFields):
    """An endpoint to register: it has either a url or pull."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"url": "https://example.com/hooks", "events": ["delivered", "bounced"]}}
    )
    most_values = 300

    secret_headers: SecretHeaders = Field(default={})
    oauth2: OAuth2Request | None = Field(default=None, description=_OAUTH2)
    tls: TlsRequest | None = Field(default=None, description="Private certificate authorities, a client certificate.")
    enabled: Enabled = True
    labels: Labels = Field(default={})

    _readable = field_validator("description")(readable)
    _consistent = model_validator(mode="after")(check_consistent)

    @model_validator(mode="after")
    def _fitting_credentials(self) -> Self:
        check_credentials(self, [*self.secret_headers], has_oauth2=self.oauth2 is not None)
        for name in CREDENTIAL_FIELDS if self.pull is not None else ():
            if getattr(self, name):
                raise ValueError(PUSH_ONLY_SENTENCE.format(name))
        if self.tls is not None and not re.match(HTTPS_PATTERN, self.url or ""):
            raise ValueError(TLS_SENTENCE)
        return self


class WebhookPatch(_PatchFields):  # type: ignore[misc]
    """A JSON merge patch (RFC 7396) of an endpoint: an absent field stays, and null resets a field to its default.

    The result is validated like an endpoint to register, so events cannot be null, and one of url and pull
    is null. Of headers, secret_headers and labels only the named ones change; null removes one. A change of the scheme,
    host or port of url, or between url and pull, must name each present header, and give each secret value again; one
    of oauth2.token_url, the client's secret.
    """

    model_config = ConfigDict(
        json_schema_extra={"example": {"enabled": False, "rate_limit": None, "labels": {"team": "billing"}}}
    )
    most_values = 300

    secret_headers: dict[HeaderName, SecretHeaderPatch | None] | None = None
    oauth2: OAuth2Patch | None = None
    tls: TlsRequest | None = None
    enabled: Enabled | None = None
    labels: dict[LabelName, LabelValue | None] | None = None

    _readable = field_validator("description")(readable)


class RotationRequest(Request):
    """A rotation of the signing secret."""

    model_config = ConfigDict(json_schema_extra={"example": {"overlap": "24h"}})

    overlap: Overlap | None = Field(
        default=None,
        description="How long the replaced secret also signs, from 0s to 168h; 0s ends all replaced secrets. "
        "It becomes the endpoint's overlap; "
        "without it the present one stays, which is 24h by default.",
    )


Status = Literal["pending", "active", "suspended", "failing", "error"]


class WebhookAnswer(_AnswerFields):  # type: ignore[misc]
    """An endpoint in the form of lists."""

    id: str = Field(description="The WebhookEndpoint's name in Kubernetes.", examples=[ID_EXAMPLE])
    project: str = Field(examples=["billing"])
    status: Status = Field(
        description="pending: not yet reconciled. active: deliveries are sent. suspended: they stay pending. failing: "
        "the last attempt got no 2xx answer. error: not every delivery can be sent, and the "
        "condition Ready has the reason."
    )
    created_at: str = Field(examples=[TIME_EXAMPLE])
    enabled: bool = Field(description="false: somebody paused the deliveries. status has whether they are sent.")
    header_names: list[str] = Field(
        description="The names of the static headers. Their values are not shown, because a receiver may use one as a "
        "credential.",
        examples=[["X-Team"]],
    )
    secret_header_names: list[str] = Field(
        description="The names of the headers whose values are in Secrets or come from a token server; "
        "secret_headers and oauth2 set them.",
        examples=[["Authorization"]],
    )
    ca_certificate_names: list[str] = Field(
        description="The ConfigMaps with the certificate authorities that requests trust, in place of the system's; "
        "tls sets them.",
        examples=[["partner-ca"]],
    )
    client_certificate_name: str | None = Field(
        description="The Secret with the client certificate of requests; tls sets it.",
        examples=["partner-client"],
    )
    labels: dict[str, str] = Field(description="Labels without a prefix.", examples=[{"team": "billing"}])


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


class SigningSecret(Answer):
    """The signing secret of an endpoint in the form of the intake, with the ``spec.signing.rotation`` of its making."""

    secret: str
    rotation: int
    previous_signs_until: str | None


class SecretAnswer(Answer):
    """The signing secret of an endpoint."""

    id: str = Field(description="The WebhookEndpoint's name in Kubernetes.", examples=[ID_EXAMPLE])
    secret: str = Field(description="The secret that signs deliveries.", examples=["whsec_…"])
    previous_signs_until: str | None = Field(
        description="Until when a replaced secret also signs `webhook-signature`, and alone `X-Service-Signature`; "
        "null if none does. Further secrets in a Secret that you make sign `webhook-signature` only.",
        examples=[TIME_EXAMPLE],
    )


class TestAnswer(Answer):
    """The result of a test."""

    success: bool
    status_code: int = Field(alias="statusCode", description="0 if there was no HTTP answer.", examples=[200])
    error: str | None = Field(default=None, description="Error text; absent after a success.")
    delivery_id: str | None = Field(
        default=None,
        description="The id of the test in the delivery log; absent if the log could not be written.",
        examples=["dlv_01JK3V9Q4D1X7N0T5C8B2M6EYA"],
    )
