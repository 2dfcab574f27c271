"""Pure: what a plan is made of: frozen actions, in the order in which they are to be done.

An action that fails stops the plan; the key is reconciled again later, from what is then the case.
So the order matters: what must be true first (a finalizer, a Secret) stands before what relies on it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from hookwright_crds.base import ObjectMeta, OwnerReference
from hookwright_crds.resources import Kind
from hookwright_operator.registry import Endpoint

FINALIZER: Final = "hookwright.dev/deliveries"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "hookwright"
OWNER_UID: Final = "hookwright.dev/owner-uid"
"""Label on what the operator makes: the uid of the object that it was made for."""


@dataclass(frozen=True, slots=True)
class Key:
    """What is reconciled: one object by kind and name."""

    kind: Kind
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Secret:
    """A Secret as far as the operator made it, or as a plan wants it made.

    Attributes:
        fields: the decoded content.
        foreign: it stands where ours should be, but was not made by the operator for its owner.
        partial: only its name, labels and uid are known; it must be read before it is used.
    """

    namespace: str
    name: str
    fields: Mapping[str, str] = field(repr=False)
    uid: str = ""
    owner_uid: str = ""
    owner_references: tuple[OwnerReference, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    resource_version: str = ""
    foreign: bool = False
    partial: bool = False

    def owned_by(self, uid: str) -> bool:
        """Whether garbage collection takes the Secret when the object with this uid goes."""
        return any(reference.uid == uid for reference in self.owner_references)


@dataclass(frozen=True, slots=True)
class CreateSecret:
    """Create a Secret; where one of that name stands already, the plan stops and is made anew."""

    secret: Secret


@dataclass(frozen=True, slots=True)
class RestoreSecret:
    """Give a Secret its labels and ownerReferences back, its content untouched."""

    secret: Secret


@dataclass(frozen=True, slots=True)
class UpdateSecret:
    """Write a Secret's fields and annotations, if nobody changed it meanwhile.

    Attributes:
        gone: fields to be removed.
    """

    secret: Secret
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteSecret:
    """Delete a Secret that the operator made."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ApplyMetadata:
    """Apply our part of an object's metadata; what is left out of it and was ours is given up."""

    key: Key
    uid: str
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Let an object go.

    This is no apply: a finalizer that a restored backup wrote is not ours to give up by leaving it out,
    and the object would hang. Instead the remaining ones are written, if nothing changed meanwhile.
    """

    key: Key
    remaining: tuple[str, ...]
    resource_version: str


@dataclass(frozen=True, slots=True)
class ApplyStatus:
    """Apply the whole of our part of a status."""

    key: Key
    uid: str
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Announce:
    """Write a Kubernetes Event about an object.

    Attributes:
        always: also where the same words were written a short while ago.
        count: how often it happened, ``since`` the first time; None where that is now.
    """

    key: Key
    uid: str
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    always: bool = False
    count: int = 1
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class OpenProject:
    """Let the project accept events."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class CloseProject:
    """Let the project accept no more events."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Register:
    """Make an endpoint known to intake and delivery."""

    endpoint: Endpoint


@dataclass(frozen=True, slots=True)
class Unregister:
    """Take an endpoint away from intake and delivery."""

    uid: str


@dataclass(frozen=True, slots=True)
class DiscardDeliveries:
    """Discard an endpoint's pending deliveries.

    Attributes:
        essential: where the store is away, stop and try again; otherwise go on, and announce it.
    """

    key: Key
    uid: str
    essential: bool


Action = (
    CreateSecret
    | RestoreSecret
    | UpdateSecret
    | DeleteSecret
    | ApplyMetadata
    | RemoveFinalizer
    | ApplyStatus
    | Announce
    | OpenProject
    | CloseProject
    | Register
    | Unregister
    | DiscardDeliveries
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done for one object, and when to look at it again at the latest."""

    actions: tuple[Action, ...] = ()
    again_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Parent:
    """A Project as its children see it."""

    name: str
    uid: str


def owner_reference(kind: Kind, metadata: ObjectMeta | Parent, *, controller: bool) -> OwnerReference:
    """Return the reference by which garbage collection takes a child with its owner."""
    return OwnerReference(
        api_version="hookwright.dev/v1alpha1", kind=kind, name=metadata.name, uid=metadata.uid, controller=controller
    )


def ours(owner_uid: str) -> dict[str, str]:
    """Return the labels of what the operator makes for the object with this uid."""
    return {MANAGED_BY: MANAGER, OWNER_UID: owner_uid}
