"""Pure: the kept fields of each object, frozen, and their parsing from the API server's JSON."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

from pydantic_core import to_json

from hookwright_api.webhook_document import endpoint_status, endpoint_summary
from hookwright_crds.base import MADE_BY_API, MANAGED_BY, ObjectMeta
from hookwright_crds.conditions import find
from hookwright_crds.event_type_fields import object_in
from hookwright_crds.events import EVERY_TYPE, Channel
from hookwright_crds.keys import KeyScope
from hookwright_crds.reading import read
from hookwright_crds.resources import ApiKey, DeliveryLogSettings, EventType, PreviousKey, Project, WebhookEndpoint
from hookwright_crds.sessions import SessionKey, parse_session_end, parse_session_keys
from hookwright_crds.trimming import secret_fields
from hookwright_crds.users import (
    EMAIL_FIELD,
    ORGANIZATION_FIELD,
    PASSWORD_HASH_FIELD,
    ROLE_FIELD,
    UserRole,
    normal_email,
    role_of,
)

Object = Mapping[str, Any]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity and version of an object.

    Attributes:
        version: the resourceVersion, which grows with every change (Kubernetes enhancement 5504).
        deleting: it was deleted and only finalizers keep it, so callers get a 404.
        declared_by: the tool that manages a declared object, by its label, otherwise "YAML"; empty if ``/v1`` created
            the object.
    """

    namespace: str
    name: str
    uid: str
    version: int
    created: datetime
    deleting: bool
    declared_by: str

    @classmethod
    def of(cls, resource: Object) -> "Identity":
        """Read an object's metadata."""
        return cls.from_meta(ObjectMeta.model_validate(resource["metadata"]))

    @classmethod
    def from_meta(cls, meta: ObjectMeta) -> "Identity":
        """Create one from parsed metadata."""
        return cls(
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            version=int(meta.resource_version or 0),
            created=meta.creation_timestamp or _EPOCH,
            deleting=meta.deletion_timestamp is not None,
            declared_by="" if MADE_BY_API.items() <= meta.labels.items() else meta.labels.get(MANAGED_BY, "YAML"),
        )


@dataclass(frozen=True, slots=True)
class ProjectRecord:
    """A Project."""

    identity: Identity
    display_name: str
    delivery_log: DeliveryLogSettings

    @classmethod
    def of(cls, resource: Object) -> "ProjectRecord":
        """Read a Project."""
        project, _ = read(Project, resource)
        return cls(Identity.from_meta(project.metadata), project.spec.display_name, project.spec.delivery_log)


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """An ApiKey.

    Attributes:
        key_id: the look-up id of a presented key; empty until the operator has created the key.
        digest: the expected digest of a presented key; empty until then too.
        confirmed: the operator confirms that the digest belongs to this ApiKey, so the key gives access to its project.
        scopes: the rights of the key, in the order of `KeyScope`.
        previous: the replaced keys of a generated key.
    """

    identity: Identity
    project: str
    display_name: str
    key_id: str
    digest: str = field(repr=False)
    expires_at: datetime | None
    last_used_at: datetime | None
    annotations: Mapping[str, str]
    confirmed: bool
    scopes: tuple[KeyScope, ...]
    previous: tuple[PreviousKey, ...] = field(repr=False)

    @classmethod
    def of(cls, resource: Object) -> "KeyRecord":
        """Read an ApiKey; its key id is the object's name for a declared digest, else the id in the status."""
        key, unsupported_fields = read(ApiKey, resource)
        is_declared = key.spec.digest is not None
        digest = (key.spec.digest if is_declared else key.status.digest) or ""
        ready = find(key.status.conditions, "Ready")
        return cls(
            identity=Identity.from_meta(key.metadata),
            project=key.spec.project_ref.name,
            display_name=key.spec.display_name,
            key_id=(key.metadata.name if is_declared else key.status.key_id) or "",
            digest=digest,
            expires_at=key.spec.expires_at,
            last_used_at=key.status.last_used_at,
            annotations=key.metadata.annotations,
            # A spec that this version does not understand may restrict the key.
            confirmed=not unsupported_fields.faults
            and ready is not None
            and ready.status == "True"
            and key.status.digest == digest,
            scopes=tuple(scope for scope in KeyScope if key.spec.scopes is None or scope in key.spec.scopes),
            previous=() if is_declared else key.status.previous,
        )

    @property
    def confirmed_digests(self) -> tuple[str, ...]:
        """The present and the replaced digests; none until the operator has confirmed them."""
        return (self.digest, *(key.digest for key in self.previous)) if self.confirmed else ()


@dataclass(frozen=True)
class EndpointRecord:
    """A WebhookEndpoint."""

    identity: Identity
    endpoint: WebhookEndpoint

    @classmethod
    def of(cls, resource: Object) -> "EndpointRecord":
        """Read a WebhookEndpoint."""
        endpoint, _ = read(WebhookEndpoint, resource)
        return cls(Identity.from_meta(endpoint.metadata), endpoint)

    @property
    def project(self) -> str:
        """The name of its Project."""
        return self.endpoint.spec.project_ref.name

    @cached_property
    def status(self) -> str:
        """The state in one word; see `endpoint_status`."""
        return endpoint_status(self.endpoint)

    @cached_property
    def target(self) -> str:
        """The URL of the receiver, or the name of an endpoint without one."""
        return self.endpoint.spec.url or self.identity.name

    @cached_property
    def searchable(self) -> str:
        """The texts that a person searches for, in lower case."""
        spec = self.endpoint.spec
        way = spec.url or "pulled by consumers"
        return "\n".join((way, self.identity.name, spec.description, *spec.events)).lower()

    @cached_property
    def rendered(self) -> bytes:
        """The endpoint in the form of lists, as JSON; rendered once per state, because lists are frequent."""
        return to_json(endpoint_summary(self.endpoint))


@dataclass(frozen=True)
class EventTypeRecord:
    """An EventType, and its form on `/v1`, in which the example and the schema are texts here."""

    identity: Identity
    document: Mapping[str, Any]

    @classmethod
    def of(cls, resource: Object) -> "EventTypeRecord":
        """Read an EventType."""
        event_type, _ = read(EventType, resource)
        spec, name = event_type.spec, event_type.metadata.name
        document = {
            "type": name,
            "channel": Channel.OWN,
            "meaning": spec.meaning,
            "example": spec.example or "",
            "wildcards": [EVERY_TYPE],
            "deprecated": spec.deprecated,
            "payload_schema": spec.payload_schema,
        }
        return cls(Identity.from_meta(event_type.metadata), document)

    @cached_property
    def rendered(self) -> bytes:
        """The document as JSON, with objects in place of their texts; it is rendered once per state."""
        type_ = {"type": self.document["type"]}
        example = type_ | object_in(self.document["example"]) | type_
        schema = self.document["payload_schema"]
        return to_json({**self.document, "example": example, "payload_schema": schema and object_in(schema)})


@dataclass(frozen=True, slots=True)
class UserRecord:
    """A user of the dashboard."""

    identity: Identity
    email: str
    organization: str
    password_hash: str = field(repr=False)
    role: UserRole

    @classmethod
    def of(cls, resource: Object) -> "UserRecord":
        """Read a user's Secret.

        Raises:
            ValueError: a field is missing or wrong, or the role is not known.
        """
        fields = secret_fields(resource)
        missing = [name for name in (EMAIL_FIELD, ORGANIZATION_FIELD, PASSWORD_HASH_FIELD) if not fields.get(name)]
        if missing:
            raise ValueError(f"the user's Secret lacks {', '.join(missing)}")
        return cls(
            identity=Identity.of(resource),
            email=normal_email(fields[EMAIL_FIELD]),
            organization=fields[ORGANIZATION_FIELD],
            password_hash=fields[PASSWORD_HASH_FIELD].strip(),
            role=role_of(fields.get(ROLE_FIELD)),
        )

    @property
    def fingerprint(self) -> str:
        """Value that changes with the password and reveals nothing about it."""
        return hashlib.sha256(self.password_hash.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class SessionKeysRecord:
    """The keys that sign session tokens, newest first."""

    identity: Identity
    keys: tuple[SessionKey, ...]

    @classmethod
    def of(cls, resource: Object) -> "SessionKeysRecord":
        """Read the Secret."""
        return cls(Identity.of(resource), parse_session_keys(secret_fields(resource)))


@dataclass(frozen=True, slots=True)
class EndedSessionsRecord:
    """The ends of sessions by the name of the user's Secret, in milliseconds since the epoch."""

    identity: Identity
    ends: Mapping[str, float]

    @classmethod
    def of(cls, resource: Object) -> "EndedSessionsRecord":
        """Read the Secret."""
        ends = {name: parse_session_end(text) for name, text in secret_fields(resource).items()}
        return cls(Identity.of(resource), ends)
