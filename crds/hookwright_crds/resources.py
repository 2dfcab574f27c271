"""Pure: the three kinds, spec and status, as pydantic models.

``kubectl explain`` prints the descriptions. The generated CRDs enforce the limits, so ``kubectl apply`` and the API
accept the same objects.
"""

import re
from enum import StrEnum
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StringConstraints, model_validator

from hookwright_crds.base import (
    NAME_PATTERN,
    Duration,
    Model,
    ObjectMeta,
    ProjectRef,
    ServerModel,
    Timestamp,
    parse_duration,
)
from hookwright_crds.conditions import Condition
from hookwright_crds.events import EVENT_TYPES
from hookwright_crds.keys import DIGEST_LENGTH, DIGEST_PATTERN, KEY_ID_PATTERN
from hookwright_crds.urls import MAX_URL_LENGTH, check_url

MAX_HEADERS: Final = 32
TIMEOUT_BOUNDS: Final = ("1s", "30s")
OVERLAP_BOUNDS: Final = ("0s", "168h")
TTL_BOUNDS: Final = ("1m", "168h")
RESERVED_HEADERS: Final = frozenset(
    {
        "connection", "content-encoding", "content-length", "content-type", "expect", "host", "keep-alive",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "user-agent",
        "webhook-id", "webhook-signature", "webhook-timestamp", "x-service-signature",
    }
)  # fmt: skip
"""Header names, lower case, that Hookwright or HTTP itself sets (RFC 9110, Standard Webhooks)."""
HEADER_NAME_PATTERN: Final = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}$"
HEADER_VALUE_PATTERN: Final = r"^[\x20-\x7e\x80-\xff]*$"
DIGEST_NAME_SENTENCE: Final = (
    "the name of an ApiKey with a digest is its keyId: 1 to 63 of a-z, 0-9 and '-', without '-' at either end"
)


class Names(Model):
    """The names of a kind on the command line and in paths."""

    kind: str
    plural: str
    singular: str
    short: str


def _known_event(name: str) -> str:
    if name not in EVENT_TYPES:
        raise ValueError(f"unknown event type; known are {', '.join(EVENT_TYPES)}")
    return name


EventType = Annotated[str, AfterValidator(_known_event), Field(json_schema_extra={"enum": [*EVENT_TYPES]})]


# ---------------------------------------------------------------------------------------- Project


class ProjectSpec(Model):
    """The spec of a Project, which a platform team writes."""

    display_name: str = Field(default="", description="Name shown to people.", max_length=253)


class ProjectStatus(ServerModel):
    """The status of a Project."""

    observed_generation: int = Field(default=0, description="The metadata.generation that this status describes.")
    api_keys: int = Field(default=0, description="How many ApiKeys belong to the project.")
    webhook_endpoints: int = Field(default=0, description="How many WebhookEndpoints belong to the project.")
    conditions: tuple[Condition, ...] = Field(default=(), description="Ready: the project accepts events.")


class Project(ServerModel):
    """A group of endpoints and keys within an organization (its namespace)."""

    names: ClassVar = Names(kind="Project", plural="projects", singular="project", short="hwproj")

    metadata: ObjectMeta
    spec: ProjectSpec = ProjectSpec()
    status: ProjectStatus = ProjectStatus()


# ----------------------------------------------------------------------------------------- ApiKey


class Handover(Model):
    """How a generated key is handed over to the person who requested it."""

    secret_name: str = Field(
        description="Name of the Secret that the operator creates; its field 'key' has the plaintext for the ttl.",
        min_length=1,
        max_length=253,
        pattern=NAME_PATTERN,
    )
    ttl: Duration = Field(default="1h", description="How long the Secret exists, from 1m to 168h.")

    @model_validator(mode="after")
    def _ttl_within_bounds(self) -> Self:
        low, high = (parse_duration(bound) for bound in TTL_BOUNDS)
        if not low <= parse_duration(self.ttl) <= high:
            raise ValueError(f"ttl must be from {TTL_BOUNDS[0]} to {TTL_BOUNDS[1]}")
        return self


class ApiKeySpec(Model):
    """The spec of an ApiKey: exactly one of ``handover`` and ``digest``."""

    project_ref: ProjectRef = Field(description="The Project that the key gives access to; it cannot be changed.")
    display_name: str = Field(default="", description="Name shown to people.", max_length=253)
    handover: Handover | None = Field(
        default=None, description="Let the operator generate the key and hand it over once in a Secret."
    )
    digest: str | None = Field(
        default=None,
        description="sha256:<hex> of a key that was generated elsewhere; its keyId is this object's name. "
        "The plaintext never enters the cluster.",
        max_length=DIGEST_LENGTH,
        pattern=DIGEST_PATTERN,
    )
    expires_at: Timestamp | None = Field(default=None, description="When the key expires; never, if not set.")

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.handover is None) == (self.digest is None):
            raise ValueError("exactly one of handover and digest must be set")
        return self


class HandoverState(StrEnum):
    """The phase of a handover."""

    PENDING = "Pending"
    DELIVERED = "Delivered"
    REMOVED = "Removed"


class HandoverStatus(ServerModel):
    """The state of the handover of a generated key."""

    state: HandoverState = Field(description="Pending, Delivered (the Secret exists) or Removed.")
    remove_at: Timestamp | None = Field(default=None, description="The time at which the operator removes the Secret.")


class ApiKeyStatus(ServerModel):
    """The status of an ApiKey; it never contains the key."""

    observed_generation: int = Field(default=0, description="The metadata.generation that this status describes.")
    key_id: str | None = Field(default=None, description="The public part of the key, which identifies it.")
    digest: str | None = Field(default=None, description="sha256:<hex> of the key; the key itself is not stored.")
    handover: HandoverStatus | None = Field(default=None, description="State of the handover.")
    last_used_at: Timestamp | None = Field(default=None, description="When the key was last used; updated rarely.")
    conditions: tuple[Condition, ...] = Field(default=(), description="Ready: the key gives access to its project.")


class ApiKey(ServerModel):
    """A credential of one Project."""

    names: ClassVar = Names(kind="ApiKey", plural="apikeys", singular="apikey", short="hwkey")

    metadata: ObjectMeta
    spec: ApiKeySpec
    status: ApiKeyStatus = ApiKeyStatus()

    @model_validator(mode="after")
    def _named_after_its_key(self) -> Self:
        if self.spec.digest is not None and not re.fullmatch(KEY_ID_PATTERN, self.metadata.name):
            raise ValueError(DIGEST_NAME_SENTENCE)
        return self


# -------------------------------------------------------------------------------- WebhookEndpoint

HeaderName = Annotated[str, StringConstraints(pattern=HEADER_NAME_PATTERN)]
HeaderValue = Annotated[str, StringConstraints(max_length=4096, pattern=HEADER_VALUE_PATTERN)]


class RateLimit(Model):
    """The rate limit of an endpoint."""

    per_minute: StrictInt = Field(
        description="Maximum attempts per minute, evenly spaced, from 1 to 60000.", ge=1, le=60_000
    )


class Signing(Model):
    """The rotation of the signing secret."""

    rotation: StrictInt = Field(
        default=0,
        description="Increase it to generate a new signing secret; the old secret also signs during the overlap.",
        ge=0,
        le=1_000_000,
    )
    overlap: Duration = Field(
        default="24h", description="How long a replaced secret still signs beside the new one, from 0s to 168h."
    )

    @model_validator(mode="after")
    def _overlap_within_bounds(self) -> Self:
        if parse_duration(self.overlap) > parse_duration(OVERLAP_BOUNDS[1]):
            raise ValueError(f"overlap must be from {OVERLAP_BOUNDS[0]} to {OVERLAP_BOUNDS[1]}")
        return self


class WebhookEndpointSpec(Model):
    """The spec of an endpoint: its URL, its events, and how to deliver them."""

    project_ref: ProjectRef = Field(description="The Project whose events are delivered; it cannot be changed.")
    url: Annotated[str, AfterValidator(check_url)] = Field(
        description="URL of the receiver: an absolute https URL without userinfo or fragment "
        "(http only if the installation allows it).",
        min_length=1,
        max_length=MAX_URL_LENGTH,
    )
    events: tuple[EventType, ...] = Field(
        description="Event types to deliver, each once.", min_length=1, max_length=len(EVENT_TYPES)
    )
    suspend: StrictBool = Field(default=False, description="true pauses deliveries, false resumes them.")
    timeout: Duration = Field(default="15s", description="Timeout of one whole attempt, from 1s to 30s.")
    max_in_flight: StrictInt = Field(
        default=8,
        description="Maximum attempts in flight at once, from 1 to 64. After an attempt timed out, "
        "at most 2 are in flight until one succeeds.",
        ge=1,
        le=64,
    )
    headers: dict[HeaderName, HeaderValue] = Field(
        default_factory=dict,
        description="Static headers of every delivery; headers that Hookwright sets are refused. "
        "Do not put secrets here: everyone who can read this object, as with kubectl describe, sees the values.",
        max_length=MAX_HEADERS,
    )
    rate_limit: RateLimit | None = Field(
        default=None, description="Maximum rate of attempts to this endpoint; no limit if not set."
    )
    signing: Signing = Field(default=Signing(), description="Rotation of the signing secret.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if repeated := [event for event in dict.fromkeys(self.events) if self.events.count(event) > 1]:
            raise ValueError(f"events must not name an event type twice: {', '.join(repeated)}")
        low, high = (parse_duration(bound) for bound in TIMEOUT_BOUNDS)
        if not low <= parse_duration(self.timeout) <= high:
            raise ValueError(f"timeout must be from {TIMEOUT_BOUNDS[0]} to {TIMEOUT_BOUNDS[1]}")
        reserved = sorted(name for name in self.headers if name.lower() in RESERVED_HEADERS)
        if reserved:
            raise ValueError(f"headers must not set {', '.join(reserved)}, which Hookwright or HTTP itself sets")
        return self


class SecretKeyRef(ServerModel):
    """A field of a Secret in the same namespace."""

    name: str = Field(description="Name of the Secret.")
    key: str = Field(description="Field within the Secret.")


class DeliveryCounts(ServerModel):
    """Counts of deliveries; they are updated rarely, never per delivery."""

    pending: int = Field(default=0, description="Accepted, and not yet delivered, failed or discarded.")
    delivered: int = Field(default=0, description="Answered with a 2xx status.")
    failed: int = Field(default=0, description="Failed after the last retry.")
    discarded: int = Field(default=0, description="Discarded because the endpoint was deleted.")
    last_attempt_time: Timestamp | None = Field(default=None, description="When the last attempt ended.")
    last_status_code: int | None = Field(
        default=None, description="HTTP status of the last attempt; 0 if there was no HTTP response."
    )


class WebhookEndpointStatus(ServerModel):
    """The status of an endpoint."""

    observed_generation: int = Field(default=0, description="The metadata.generation that this status describes.")
    signing_secret_ref: SecretKeyRef | None = Field(default=None, description="Location of the signing secret.")
    deliveries: DeliveryCounts | None = Field(default=None, description="Counts of deliveries; updated rarely.")
    conditions: tuple[Condition, ...] = Field(
        default=(),
        description="Ready: deliveries can be signed and sent. Reachable: the last attempt was answered 2xx.",
    )


class WebhookEndpoint(ServerModel):
    """A receiver of a Project's events."""

    names: ClassVar = Names(kind="WebhookEndpoint", plural="webhookendpoints", singular="webhookendpoint", short="hwep")

    metadata: ObjectMeta
    spec: WebhookEndpointSpec
    status: WebhookEndpointStatus = WebhookEndpointStatus()


Kind = Literal["Project", "ApiKey", "WebhookEndpoint"]
KINDS: Final = (Project, ApiKey, WebhookEndpoint)
