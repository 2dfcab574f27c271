"""Pure: the frozen actions of a plan, in the order of their execution.

A failed action stops the plan. The key is reconciled again later, from the state at that time. So the order matters: a
prerequisite (a finalizer, a Secret) comes before the actions that depend on it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal

from hookwright_crds.base import OwnerReference
from hookwright_crds.conditions import turned_false
from hookwright_crds.resources import ApiKeyStatus, EventTypeStatus, ProjectStatus, Resource, WebhookEndpointStatus
from hookwright_operator.registry import DEFAULT_SETTINGS, Endpoint, ProjectSettings
from hookwright_operator.watch.objects import Key, Secret, key_of, ours, owner_reference

FINALIZER: Final = "hookwright.dev/deliveries"
WRITE_REFUSED: Final = "WriteRefused"
"""The reason of an object for which the API server refuses a write."""
REFUSED_SENTENCE: Final = "The API server refuses a write of the operator, which tries again: "

Severity = Literal["Normal", "Warning"]


@dataclass(frozen=True, slots=True)
class CreateSecret:
    """Create a Secret; if the name is already in use, the plan stops and a new plan is made."""

    secret: Secret


@dataclass(frozen=True, slots=True)
class RestoreSecret:
    """Restore a Secret's labels and ownerReferences, without a change of its content."""

    secret: Secret


@dataclass(frozen=True, slots=True)
class UpdateSecret:
    """Write a Secret's fields and annotations, unless it was changed since it was read.

    Attributes:
        removed_fields: fields to remove.
    """

    secret: Secret
    removed_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteSecret:
    """Delete a Secret that the operator created."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ApplyMetadata:
    """Apply Hookwright's part of an object's metadata; the apply removes omitted fields that it owned."""

    key: Key
    uid: str
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove the finalizer, so that the object can be deleted.

    This is no apply. A restored backup may have written the finalizer, and then Hookwright does not own it: an apply
    without it would not remove it, and the deletion would hang. Instead a patch writes the other finalizers, if the
    object is unchanged.
    """

    key: Key
    remaining: tuple[str, ...]
    resource_version: str


@dataclass(frozen=True, slots=True)
class ApplyStatus:
    """Apply Hookwright's whole part of a status."""

    key: Key
    uid: str
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """Write a Kubernetes Event about an object.

    Attributes:
        always: also if the same text was written a short time ago.
        count: how often it happened; ``since``: the first time, None if that is now.
    """

    key: Key
    uid: str
    type: Severity
    reason: str
    message: str
    always: bool = False
    count: int = 1
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class ReportToProject:
    """Accept an operational event about an endpoint, for the other endpoints of its project that subscribe to it.

    Attributes:
        event_id: the same in each plan of the same transition, so that it is accepted once.
        fields: those of its body.
    """

    key: Key
    uid: str
    project: str
    event_type: str
    event_id: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AllowProject:
    """Accept events for a project, and apply its settings."""

    namespace: str
    name: str
    settings: ProjectSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class BlockProject:
    """Reject events for a project."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class AllowEventType:
    """Accept events of an own type."""

    namespace: str
    name: str
    example: str


@dataclass(frozen=True, slots=True)
class BlockEventType:
    """Refuse events of an own type."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Register:
    """Add an endpoint to the registry of intake and delivery."""

    endpoint: Endpoint


@dataclass(frozen=True, slots=True)
class Unregister:
    """Remove an endpoint from the registry of intake and delivery."""

    uid: str


@dataclass(frozen=True, slots=True)
class DiscardDeliveries:
    """Discard an endpoint's pending deliveries.

    Attributes:
        essential: if the store is unavailable, stop and try again; otherwise continue, and emit an Event.
        is_expired: the endpoint has expired and still exists; otherwise it is being deleted.
    """

    key: Key
    uid: str
    essential: bool
    is_expired: bool = False


@dataclass(frozen=True, slots=True)
class DeleteEndpoint:
    """Delete an endpoint, unless it was changed since it was read."""

    key: Key
    uid: str
    resource_version: str


SecretAction = CreateSecret | RestoreSecret | UpdateSecret | DeleteSecret
RegistryAction = AllowProject | BlockProject | AllowEventType | BlockEventType | Register | Unregister
"""An action on the registry of the replica that executes it, leader or not."""
Action = (
    SecretAction
    | RegistryAction
    | ApplyMetadata
    | RemoveFinalizer
    | ApplyStatus
    | EmitEvent
    | ReportToProject
    | DiscardDeliveries
    | DeleteEndpoint
)


@dataclass(frozen=True, slots=True)
class Plan:
    """The actions for one object.

    Attributes:
        again_at: the latest time of the next reconcile.
        counts_needed: whether the next reconcile needs counts that are read after these actions.
    """

    actions: tuple[Action, ...] = ()
    again_at: datetime | None = None
    counts_needed: bool = False


def event_of(resource: Resource, type_: Severity, reason: str, message: str, **details: Any) -> EmitEvent:
    """Return an Event about an object; ``details`` has the other fields of `EmitEvent`."""
    return EmitEvent(key_of(resource), resource.metadata.uid, type_, reason, message, **details)


def plan_status(
    resource: Resource,
    after: ProjectStatus | ApiKeyStatus | WebhookEndpointStatus | EventTypeStatus,
    types: Sequence[str] = ("Ready",),
) -> list[Action]:
    """Plan a changed status, and a Warning Event for each condition that became false, or false for another reason."""
    before = resource.status
    # The API writes the time of the last use. An apply without that field does not change it.
    own_status = before.model_copy(update={"last_used_at": None}) if isinstance(before, ApiKeyStatus) else before
    if after == own_status:
        return []
    changes = [turned_false(before.conditions, after.conditions, type_) for type_ in types]
    return [
        ApplyStatus(key_of(resource), resource.metadata.uid, after.to_kubernetes()),
        *(event_of(resource, "Warning", change.reason, change.message) for change in changes if change is not None),
    ]


def owned_secret(owner: Resource, name: str, fields: Mapping[str, str], annotations: Mapping[str, str]) -> Secret:
    """Return a new Secret that is deleted with its owner."""
    meta = owner.metadata
    return Secret(
        namespace=meta.namespace,
        name=name,
        fields=fields,
        owner_uid=meta.uid,
        owner_references=(owner_reference(key_of(owner).kind, meta, controller=True),),
        labels=ours(meta.uid),
        annotations=annotations,
    )


def plan_restoration(owner: Resource, secret: Secret) -> tuple[Secret, list[Action]]:
    """Plan the labels and the ownerReference of a Secret; return the Secret after that, and the actions."""
    uid = owner.metadata.uid
    if secret.owned_by(uid) and ours(uid).items() <= secret.labels.items():
        return secret, []
    draft = owned_secret(owner, secret.name, secret.fields, secret.annotations)
    result = replace(draft, uid=secret.uid, resource_version=secret.resource_version)
    return result, [RestoreSecret(result)]
