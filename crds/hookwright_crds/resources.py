"""Pure: the four kinds, spec and status, as pydantic models.

``kubectl explain`` prints the descriptions. The generated CRDs enforce the limits, so ``kubectl apply`` and the API
accept the same objects.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, StrictBool, StrictInt, model_validator

from hookwright_crds.base import (
    Duration,
    Model,
    ObjectMeta,
    ObjectName,
    ProjectRef,
    ServerModel,
    Timestamp,
    at_most,
    within,
)
from hookwright_crds.conditions import Condition
from hookwright_crds.credential_fields import OAuth2, SecretHeader
from hookwright_crds.endpoint_fields import (
    CLOUDEVENTS,
    OVERLAP_BOUNDS,
    RESERVED_HEADERS,
    EndpointFields,
    check_push_only,
)
from hookwright_crds.event_type_fields import EventTypeSpec
from hookwright_crds.events import OWN_TYPE_SENTENCE, may_name_own_type
from hookwright_crds.keys import DIGEST_LENGTH, DIGEST_PATTERN, KEY_ID_PATTERN, KeyScope, Scopes
from hookwright_crds.signing_fields import Signing
from hookwright_crds.tls import HTTPS_PATTERN, TLS_SENTENCE, Tls

TTL_BOUNDS: Final = ("1m", "168h")
PREVIOUS_KEYS: Final = 3
"""Replaced keys of an ApiKey that are valid at the same time, at most."""
ROTATION_SENTENCE: Final = "rotation needs handover; for a key with a digest, create a new ApiKey"
MAX_SECRET_HEADERS: Final = 8
HEADERS_ONCE_SENTENCE: Final = (
    "secretHeaders must set each header once, none that headers or extraSignature sets, and none that Hookwright or "
    "HTTP itself sets"
)
CREDENTIAL_FIELDS: Final = ("secret_headers", "oauth2")
"""Fields with credentials for the receiver, which an endpoint with ``pull`` does not have."""
AUTHORIZATION_SENTENCE: Final = (
    "oauth2 sets the header Authorization; omit it in headers, secretHeaders and extraSignature"
)
DIGEST_NAME_SENTENCE: Final = (
    "the name of an ApiKey with a digest is its keyId: 1 to 63 of a-z, 0-9 and '-', without '-' at either end"
)


class Names(Model):
    """The names of a kind on the command line and in paths."""

    kind: str
    plural: str
    singular: str
    short: str


# ---------------------------------------------------------------------------------------- Project


class DeliveryLogSettings(Model):
    """What the delivery log of a Project shows."""

    payloads: Literal["Keep", "Omit"] = Field(
        default="Keep",
        description="Keep: the log shows the bodies of events and the beginnings of receivers' answers. Omit: it shows "
        "neither, and answers are not stored. A change is in effect at once for everything that the log has.",
    )
    missed_events: Literal["Discard", "Keep"] = Field(
        default="Discard",
        description="Keep: an event without a subscriber is stored too, so that a replay can send it to an endpoint "
        "that is made later. It is kept as long as delivered events.",
    )


class ProjectSpec(Model):
    """The spec of a Project, which a platform team writes."""

    display_name: str = Field(default="", description="Name shown to people.", max_length=253)
    delivery_log: DeliveryLogSettings = Field(
        default=DeliveryLogSettings(), description="What the delivery log of the project shows."
    )


class ProjectStatus(ServerModel):
    """The status of a Project."""

    observed_generation: int = Field(default=-1, description="The metadata.generation that this status describes.")
    api_keys: int = Field(default=0, description="How many ApiKeys belong to the project.")
    webhook_endpoints: int = Field(default=0, description="How many WebhookEndpoints belong to the project.")
    conditions: tuple[Condition, ...] = Field(
        default=(), description="Ready: the project accepts events. Stalled: it waits for a change."
    )


class Project(ServerModel):
    """A group of endpoints and keys within an organization (its namespace)."""

    names: ClassVar = Names(kind="Project", plural="projects", singular="project", short="hwproj")

    metadata: ObjectMeta
    spec: ProjectSpec = ProjectSpec()
    status: ProjectStatus = ProjectStatus()


# ----------------------------------------------------------------------------------------- ApiKey


class Handover(Model):
    """How a generated key is handed over to the person who requested it."""

    secret_name: ObjectName = Field(
        description="Name of the Secret that the operator creates; its field 'key' has the plaintext for the ttl."
    )
    ttl: Annotated[Duration, within("ttl", TTL_BOUNDS)] = Field(
        default="1h", description="How long the Secret exists, from 1m to 168h."
    )


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
    rotation: StrictInt = Field(
        default=0,
        description="Increase it to generate a new key, which is handed over in the Secret of handover; the old key "
        "stays valid during the overlap. It cannot be decreased.",
        ge=0,
        le=1_000_000,
    )
    overlap: Annotated[Duration, within("overlap", OVERLAP_BOUNDS)] = Field(
        default="24h", description="How long a replaced key stays valid beside the new one, from 0s to 168h."
    )
    scopes: Scopes = Field(
        default=None,
        description="Rights of the key, each once; all, if not set. send: events and tests of endpoints. read: "
        "everything of the project. manage: create, change and delete endpoints, retry and replay deliveries. pull: "
        "take and acknowledge the messages of endpoints with pull.",
        min_length=1,
        max_length=len(KeyScope),
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.handover is None) == (self.digest is None):
            raise ValueError("exactly one of handover and digest must be set")
        if self.digest is not None and self.rotation:
            raise ValueError(ROTATION_SENTENCE)
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


class PreviousKey(ServerModel):
    """A replaced key, which is valid until a time."""

    digest: str = Field(description="sha256:<hex> of the replaced key.")
    until: Timestamp = Field(description="The time from which the replaced key is refused.")


class ApiKeyStatus(ServerModel):
    """The status of an ApiKey; it never contains the key."""

    observed_generation: int = Field(default=-1, description="The metadata.generation that this status describes.")
    key_id: str | None = Field(default=None, description="The public part of the key, which identifies it.")
    digest: str | None = Field(default=None, description="sha256:<hex> of the key; the key itself is not stored.")
    rotation: int = Field(default=0, description="The spec.rotation for which the key was generated.")
    previous: tuple[PreviousKey, ...] = Field(
        default=(), description="Replaced keys that are still valid, the newest first.", max_length=PREVIOUS_KEYS
    )
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


class WebhookEndpointSpec(EndpointFields):
    """The spec of an endpoint: its URL or ``pull``, its events, and how to deliver them."""

    project_ref: ProjectRef = Field(description="The Project whose events are delivered; it cannot be changed.")
    suspend: StrictBool = Field(default=False, description="true pauses deliveries, false resumes them.")
    signing: Signing = Field(default=Signing(), description="The signing secret, and its rotation.")
    secret_headers: Annotated[tuple[SecretHeader, ...], at_most(MAX_SECRET_HEADERS)] = Field(
        default_factory=tuple,
        description="Headers of every delivery whose values are in Secrets of yours, such as a bearer token: at most "
        "8. A changed Secret is used at once. Example: {name: Authorization, prefix: 'Bearer ', secretKeyRef: {name: "
        "billing-api, key: token}}",
        max_length=MAX_SECRET_HEADERS,
    )
    oauth2: OAuth2 | None = Field(
        default=None,
        description="An access token in every delivery, as Authorization: Bearer; renewed before it ends, and if the "
        "receiver answers 401 or 403. Example: {clientId: hookwright, clientSecretRef: {name: billing-api, key: "
        "secret}, tokenUrl: 'https://auth.example.com/oauth2/token'}",
    )
    tls: Tls | None = Field(
        default=None,
        description="Private certificate authorities of the receiver, and a client certificate. Example: "
        "{caCertificateRefs: [{name: partner-ca}], clientCertificateRef: {name: partner-client}}",
    )

    @property
    def secret_header_names(self) -> list[str]:
        """The names of the headers whose values come from Secrets or a token server."""
        names = [header.name for header in self.secret_headers]
        return sorted([*names, "Authorization"] if self.oauth2 is not None else names)

    @property
    def credential_names(self) -> set[str]:
        """The names of the Secrets and ConfigMaps that have its credentials."""
        references = [header.secret_key_ref for header in self.secret_headers]
        references += [self.oauth2.client_secret_ref] if self.oauth2 is not None else []
        return {reference.name for reference in (*references, *(self.tls.references if self.tls is not None else ()))}

    @property
    def urls(self) -> dict[str, str]:
        """The URLs that get requests, by field."""
        urls = {"spec.url": self.url, "spec.oauth2.tokenUrl": self.oauth2 and self.oauth2.token_url}
        return {field: url for field, url in urls.items() if url}

    @model_validator(mode="after")
    def _encrypted_with_tls(self) -> Self:
        if self.tls is not None and not re.match(HTTPS_PATTERN, self.url or ""):
            raise ValueError(TLS_SENTENCE)
        return self

    @model_validator(mode="after")
    def _fitting_credentials(self) -> Self:
        check_credentials(self, [header.name for header in self.secret_headers], has_oauth2=self.oauth2 is not None)
        check_push_only(self, CREDENTIAL_FIELDS)
        return self


def check_credentials(fields: EndpointFields, header_names: Sequence[str], *, has_oauth2: bool) -> None:
    """Return if the credentials of an endpoint set headers that nothing else sets, raise ValueError otherwise."""
    names = [name.lower() for name in header_names]
    taken_names = RESERVED_HEADERS | {name.lower() for name in fields.headers}
    if fields.extra_signature is not None:
        taken_names |= {fields.extra_signature.header.lower()}
    has_context_header = fields.format == CLOUDEVENTS and any(name.startswith("ce-") for name in names)
    if len(set(names)) < len(names) or not taken_names.isdisjoint(names) or has_context_header:
        raise ValueError(HEADERS_ONCE_SENTENCE)
    if has_oauth2 and "authorization" in taken_names.union(names):
        raise ValueError(AUTHORIZATION_SENTENCE)


class SecretKeyRef(ServerModel):
    """A field of a Secret in the same namespace."""

    name: str = Field(description="Name of the Secret.")
    key: str = Field(description="Field within the Secret.")


class DeliveryCounts(ServerModel):
    """Counts of deliveries; they are updated rarely, never per delivery."""

    pending: int = Field(default=0, description="Accepted, and not yet delivered, failed or discarded.")
    delivered: int = Field(default=0, description="Answered with a 2xx status, or acknowledged.")
    failed: int = Field(default=0, description="Failed after the last retry.")
    discarded: int = Field(default=0, description="Discarded because the endpoint was deleted or had expired.")
    last_attempt_time: Timestamp | None = Field(default=None, description="When the last attempt ended.")
    last_status_code: int | None = Field(
        default=None, description="HTTP status of the last attempt; 0 if there was no HTTP response."
    )


class WebhookEndpointStatus(ServerModel):
    """The status of an endpoint."""

    observed_generation: int = Field(default=-1, description="The metadata.generation that this status describes.")
    signing_secret_ref: SecretKeyRef | None = Field(default=None, description="Location of the signing secret.")
    rotation: int | None = Field(
        default=None, description="The spec.signing.rotation for which the signing secret was generated."
    )
    deliveries: DeliveryCounts | None = Field(default=None, description="Counts of deliveries; updated rarely.")
    conditions: tuple[Condition, ...] = Field(
        default=(),
        description="Ready: deliveries can be signed and sent. Reachable: the last attempt was answered 2xx, or the "
        "last message was acknowledged.",
    )


class WebhookEndpoint(ServerModel):
    """A receiver of a Project's events."""

    names: ClassVar = Names(kind="WebhookEndpoint", plural="webhookendpoints", singular="webhookendpoint", short="hwep")

    metadata: ObjectMeta
    spec: WebhookEndpointSpec
    status: WebhookEndpointStatus = WebhookEndpointStatus()


class EventTypeStatus(ServerModel):
    """The status of an EventType."""

    observed_generation: int = Field(default=-1, description="The metadata.generation that this status describes.")
    webhook_endpoints: int = Field(default=0, description="How many WebhookEndpoints name the type in spec.events.")
    conditions: tuple[Condition, ...] = Field(default=(), description="Ready: events of the type are accepted.")


class EventType(ServerModel):
    """An event type of the organization (its namespace) beside the built-in ones; its name is the type."""

    names: ClassVar = Names(kind="EventType", plural="eventtypes", singular="eventtype", short="hwtype")

    metadata: ObjectMeta
    spec: EventTypeSpec
    status: EventTypeStatus = EventTypeStatus()

    @model_validator(mode="after")
    def _named_as_an_own_type(self) -> Self:
        if not may_name_own_type(self.metadata.name):
            raise ValueError(OWN_TYPE_SENTENCE)
        return self


Kind = Literal["Project", "ApiKey", "WebhookEndpoint", "EventType"]
Resource = Project | ApiKey | WebhookEndpoint | EventType
KINDS: Final[tuple[type[Resource], ...]] = (Project, ApiKey, WebhookEndpoint, EventType)
