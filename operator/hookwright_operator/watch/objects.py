"""Pure: keys and Secrets as the operator knows them, their paths, and the labels and owner references that it sets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, cast

from hookwright_crds import API_VERSION
from hookwright_crds.base import (
    CREDENTIAL_LABEL,
    MADE_BY_API,
    MANAGED_BY,
    MANAGER,
    ObjectMeta,
    OwnerReference,
    object_path,
    secrets_path,
)
from hookwright_crds.resources import KINDS, Kind, Resource
from hookwright_crds.trimming import is_offered

MODELS: Final[dict[Kind, type[Resource]]] = {cast("Kind", kind.names.kind): kind for kind in KINDS}

WatchedKind = Kind | Literal["ConfigMap"] | None
"""A watched kind; ConfigMap: those with certificates that tenants offer for deliveries; None: the labelled Secrets."""
WATCHED_KINDS: Final[tuple[WatchedKind, ...]] = (*MODELS, None, "ConfigMap")

OWNER_UID: Final = "hookwright.dev/owner-uid"
"""Label on objects that the operator creates: the uid of the owner."""

SELECTORS: Final = (f"{MANAGED_BY}={MANAGER}", f"{CREDENTIAL_LABEL}=true,{MANAGED_BY}!={MANAGER}")
"""Label selectors of the Secrets that the operator creates, and of what tenants offer for deliveries."""

CREDENTIALS: Final = "credentials"
"""The name of the watch of the Secrets that tenants offer, in metrics."""


class Key(NamedTuple):
    """The identity of a reconciled object: kind and name."""

    kind: Kind
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """The path of the object on the API server."""
        return object_path(plural(self.kind), self.namespace, self.name)


def key_of(resource: Resource) -> Key:
    """Return the key of an object."""
    return Key(cast("Kind", resource.names.kind), resource.metadata.namespace, resource.metadata.name)


def plural(kind: WatchedKind) -> str:
    """Return the name of a kind in paths."""
    if kind is None:
        return "secrets"
    return "configmaps" if kind == "ConfigMap" else str(MODELS[kind].names.plural)


@dataclass(frozen=True, slots=True)
class Secret:
    """A labelled Secret, in its current state or in the state of a plan.

    Attributes:
        fields: the decoded content.
        foreign: it has the name of the operator's Secret, but the operator did not create it for its owner.
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

    @property
    def path(self) -> str:
        """The path of the Secret on the API server."""
        return secrets_path(self.namespace, self.name)

    @property
    def is_credential(self) -> bool:
        """Whether its tenant offers it for deliveries."""
        return is_offered(self.labels)

    def owned_by(self, uid: str) -> bool:
        """Whether garbage collection deletes the Secret with the object of this uid."""
        return any(reference.uid == uid for reference in self.owner_references)


@dataclass(frozen=True, slots=True)
class Parent:
    """The fields of a Project that its children use."""

    name: str
    uid: str


def owner_reference(kind: Kind, metadata: ObjectMeta | Parent, *, controller: bool) -> OwnerReference:
    """Return the reference by which garbage collection deletes a child with its owner."""
    return OwnerReference(
        api_version=API_VERSION, kind=kind, name=metadata.name, uid=metadata.uid, controller=controller
    )


def project_references(metadata: ObjectMeta, project: Parent) -> tuple[OwnerReference, ...] | None:
    """Return the ownerReferences that an object must have, None if they are correct.

    An object that ``/v1`` created is deleted with its Project. An object that people declare has no ownerReference,
    because Argo CD prunes only objects without one.
    """
    projects = [owner for owner in metadata.owner_references if owner.kind == "Project" and owner.controller]
    if not MADE_BY_API.items() <= metadata.labels.items():
        return () if projects else None
    reference = owner_reference("Project", project, controller=True)
    return None if any(owner.uid == project.uid for owner in projects) else (reference,)


def ours(owner_uid: str) -> dict[str, str]:
    """Return the labels of objects that the operator creates for the object with this uid."""
    return {MANAGED_BY: MANAGER, OWNER_UID: owner_uid}
