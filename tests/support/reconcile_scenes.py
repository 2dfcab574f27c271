"""Pure: objects for plans, plans as text, and the result of executing a plan."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hookwright_crds.base import ObjectMeta, OwnerReference
from hookwright_crds.keys import MintedKey, mint
from hookwright_crds.reading import UNDERSTOOD, Unsupported
from hookwright_crds.resources import (
    ApiKey,
    ApiKeyStatus,
    Project,
    ProjectStatus,
    WebhookEndpoint,
    WebhookEndpointStatus,
)
from hookwright_operator.reconcile.apikey import ObservedApiKey, plan_apikey
from hookwright_operator.reconcile.endpoint import NO_FAILURES, DueFailures, ObservedEndpoint, plan_endpoint
from hookwright_operator.reconcile.plan import (
    FINALIZER,
    Action,
    ApplyMetadata,
    ApplyStatus,
    CreateSecret,
    DeleteEndpoint,
    DeleteSecret,
    DiscardDeliveries,
    EmitEvent,
    Plan,
    Register,
    RemoveFinalizer,
    ReportToProject,
    RestoreSecret,
    UpdateSecret,
)
from hookwright_operator.reconcile.signing_secret import signing_secret_name
from hookwright_operator.registry import Endpoint, Health
from hookwright_operator.watch.objects import Parent, Secret, ours, owner_reference

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
BILLING = Parent("billing", "uid-billing")
SIGNING_SECRET = "whsec_" + "QUFB" * 11
OTHER_SECRET = "whsec_" + "QkJC" * 11
KEY = mint(lambda alphabet: alphabet[7], key_id="k7q")
SECOND_KEY = mint(lambda alphabet: alphabet[8], key_id="k7q")
THIRD_KEY = mint(lambda alphabet: alphabet[9], key_id="k7q")
_KEYS = (KEY, SECOND_KEY, THIRD_KEY)
GRACE = timedelta(seconds=30)


def after(**duration: float) -> datetime:
    """Return a time that is this duration after NOW."""
    return NOW + timedelta(**duration)


def metadata(name: str, **changes: Any) -> ObjectMeta:
    """Return metadata of an object that was created at NOW."""
    return ObjectMeta(
        name=name, namespace="acme", uid=f"uid-{name}", generation=1, resource_version="10", creation_timestamp=NOW
    ).model_copy(update=changes)


def project(**changes: Any) -> Project:
    """Return a Project that was not yet reconciled."""
    return Project(metadata=metadata("billing", **changes))


def endpoint(*, spec: Mapping[str, Any] | None = None, status: Mapping[str, Any] | None = None, **meta: Any) -> (
    WebhookEndpoint
):  # fmt: skip
    """Return an endpoint that was not yet reconciled; keywords change its metadata."""
    manifest = {"projectRef": {"name": "billing"}, "url": "https://example.com/", "events": ["delivered"]}
    return WebhookEndpoint.model_validate(
        {"metadata": metadata("orders", **meta), "spec": {**manifest, **(spec or {})}, "status": status or {}}
    )


def apikey(**spec: Any) -> ApiKey:
    """Return a key that was not yet reconciled, to be handed over for an hour; keywords change its spec."""
    manifest = {"projectRef": {"name": "billing"}, "handover": {"secretName": "ci-key", "ttl": "1h"}}
    return ApiKey.model_validate({"metadata": metadata("ci"), "spec": {**manifest, **spec}})


def signing_secret(**changes: Any) -> Secret:
    """Return the Secret that the operator created for the endpoint."""
    secret = Secret(
        namespace="acme",
        name=signing_secret_name("orders"),
        fields={"secret": SIGNING_SECRET},
        uid="uid-secret",
        owner_uid="uid-orders",
        owner_references=(owner_reference("WebhookEndpoint", metadata("orders"), controller=True),),
        labels=ours("uid-orders"),
    )
    return replace(secret, **changes)


def handover_secret(**changes: Any) -> Secret:
    """Return the Secret that the operator created for the key at NOW."""
    secret = Secret(
        namespace="acme",
        name="ci-key",
        fields={"key": KEY.plaintext},
        uid="uid-handover",
        owner_uid="uid-ci",
        owner_references=(owner_reference("ApiKey", metadata("ci"), controller=True),),
        labels=ours("uid-ci"),
        annotations={"hookwright.dev/remove-at": "2030-01-01T13:00:00Z"},
    )
    return replace(secret, **changes)


# ------------------------------------------------------------------------------------ plans as text


def in_words(plan: Plan) -> list[str]:
    """Return a line for each action."""
    return [_words(action) for action in plan.actions]


def writes(plan: Plan) -> list[Action]:
    """Return the actions that write to the API server or the store; the others change only this replica's memory."""
    kinds = (
        CreateSecret, RestoreSecret, DeleteSecret, ApplyMetadata, RemoveFinalizer, ApplyStatus, EmitEvent,
        ReportToProject, DiscardDeliveries, DeleteEndpoint,
    )  # fmt: skip
    return [action for action in plan.actions if isinstance(action, kinds)]


def status_of(plan: Plan) -> Mapping[str, Any]:
    """Return the status that a plan applies; it must apply one."""
    (manifest,) = [action.status for action in plan.actions if isinstance(action, ApplyStatus)]
    return manifest


def _words(action: Action) -> str:
    match action:
        case EmitEvent() | ReportToProject():
            if isinstance(action, ReportToProject):
                text = f"report {action.event_type}"
            else:
                text = f"{action.type} Event {action.reason}"
            return text
        case ApplyStatus():
            conditions = (
                f"{condition['type']}={condition['status']} {condition['reason']}"
                for condition in action.status["conditions"]
            )
            return f"status: {', '.join(conditions)}"
        case Register(condition):
            return f"register: {_sending(condition)}"
        case DiscardDeliveries():
            return "discard, and insist" if action.essential else "discard if the store is there"
        case RemoveFinalizer():
            return f"remove finalizer, keep {list(action.remaining)}"
        case _:
            return type(action).__name__


def _sending(known: Endpoint) -> str:
    if known.block_reason:
        return f"blocked by {known.block_reason}"
    if known.suspend:
        return "suspended"
    return "sends" if known.sendable else "has no secret"


# ------------------------------------------------------------------------------------ executed plans


@dataclass(frozen=True)
class Scene:
    """One object and its dependencies, changed by executed plans."""

    secret: Secret | None = None
    parent: Parent | None = BILLING
    health: Health | None = None
    emitted: tuple[str, ...] = ()
    minted: tuple[MintedKey, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class EndpointScene(Scene):
    """A scene with an endpoint."""

    endpoint: WebhookEndpoint = field(default_factory=endpoint)
    allow_http: bool = False
    max_timeout: float = 30
    registered: Endpoint | None = None
    failures: DueFailures = NO_FAILURES
    unsupported_parts: Unsupported = UNDERSTOOD
    refused_address: str = ""
    refused_write: str = ""
    kept_secrets: tuple[str, ...] = field(default=(), repr=False)
    credentials: Mapping[str, Secret] = field(default_factory=dict)
    authorities: Mapping[str, str] = field(default_factory=dict)
    own_types: Collection[str] = ()

    def plan(self, now: datetime = NOW) -> Plan:
        """Return the endpoint's plan."""
        observed = ObservedEndpoint(
            self.endpoint,
            self.parent,
            self.secret,
            self.health,
            self.allow_http,
            GRACE,
            self.max_timeout,
            self.failures,
            self.unsupported_parts,
            self.refused_address,
            self.refused_write,
            self.kept_secrets,
            self.credentials,
            self.authorities,
            self.own_types,
        )
        return plan_endpoint(observed, now=now, new_secret=lambda: OTHER_SECRET)

    def after(self, actions: Iterable[Action]) -> "EndpointScene":
        """Return the scene after the actions."""
        scene = self
        for action in actions:
            if isinstance(action, Register):
                scene = replace(scene, registered=action.endpoint)
            elif isinstance(action, ApplyStatus):
                status = WebhookEndpointStatus.model_validate(action.status)
                scene = replace(scene, endpoint=scene.endpoint.model_copy(update={"status": status}), health=None)
            elif isinstance(action, ApplyMetadata | RemoveFinalizer):
                meta = _metadata_after(scene.endpoint.metadata, action)
                scene = replace(scene, endpoint=scene.endpoint.model_copy(update={"metadata": meta}))
            elif isinstance(action, DeleteEndpoint):
                meta = scene.endpoint.metadata
                assert (action.uid, action.resource_version) == (meta.uid, meta.resource_version)
                scene = with_metadata(scene, deletion_timestamp=NOW)
            else:
                scene = replace(scene, **_common_after(scene, action))
        return scene

    def settled(self, now: datetime = NOW) -> "EndpointScene":
        """Return the scene after its whole plan."""
        return replace(self.after(self.plan(now).actions), health=None, failures=NO_FAILURES)


@dataclass(frozen=True)
class ApiKeyScene(Scene):
    """A scene with an ApiKey; its keys have a fixed order."""

    key: ApiKey = field(default_factory=apikey)
    duplicate: bool = False
    unsupported_parts: Unsupported = UNDERSTOOD
    refused_write: str = ""

    def plan(self, now: datetime = NOW) -> Plan:
        """Return the key's plan."""
        fresh: Iterator[MintedKey] = iter(_KEYS[len(self.minted) :])
        observed = ObservedApiKey(
            self.key, self.parent, self.secret, self.duplicate, self.unsupported_parts, self.refused_write
        )
        return plan_apikey(observed, now=now, mint=lambda _: next(fresh))

    def after(self, actions: Iterable[Action]) -> "ApiKeyScene":
        """Return the scene after the actions."""
        scene = self
        for action in actions:
            if isinstance(action, ApplyStatus):
                last_use = scene.key.status.last_used_at
                status = ApiKeyStatus.model_validate(action.status).model_copy(update={"last_used_at": last_use})
                scene = replace(scene, key=scene.key.model_copy(update={"status": status}))
            elif isinstance(action, ApplyMetadata):
                meta = _metadata_after(scene.key.metadata, action)
                scene = replace(scene, key=scene.key.model_copy(update={"metadata": meta}))
            else:
                scene = replace(scene, **_common_after(scene, action))
                if isinstance(action, CreateSecret | UpdateSecret):
                    scene = replace(scene, minted=(*scene.minted, _KEYS[len(scene.minted)]))
        return scene

    def settled(self, now: datetime = NOW) -> "ApiKeyScene":
        """Return the scene after its whole plan."""
        return self.after(self.plan(now).actions)


def project_after(observed: Project, plan: Plan) -> Project:
    """Return a Project after its plan."""
    for action in plan.actions:
        if isinstance(action, ApplyStatus):
            observed = observed.model_copy(update={"status": ProjectStatus.model_validate(action.status)})
    return observed


def _common_after(scene: Scene, action: Action) -> dict[str, Any]:
    match action:
        case CreateSecret(secret):
            assert scene.secret is None, "creating what exists is answered 409"
            return {"secret": replace(secret, uid="uid-new")}
        case RestoreSecret(secret):
            assert scene.secret is not None
            references = {
                reference.uid: reference for reference in (*scene.secret.owner_references, *secret.owner_references)
            }
            return {
                "secret": replace(
                    scene.secret,
                    labels={**scene.secret.labels, **secret.labels},
                    owner_uid=secret.owner_uid,
                    owner_references=tuple(references.values()),
                )
            }
        case UpdateSecret(secret, _):
            assert scene.secret is not None
            return {"secret": replace(scene.secret, fields=secret.fields, annotations=secret.annotations)}
        case DeleteSecret():
            assert scene.secret is not None
            assert action.uid == scene.secret.uid
            return {"secret": None}
        case EmitEvent():
            return {"emitted": (*scene.emitted, action.reason)}
    return {}


def _metadata_after(meta: ObjectMeta, action: ApplyMetadata | RemoveFinalizer) -> ObjectMeta:
    if isinstance(action, RemoveFinalizer):
        assert action.resource_version == meta.resource_version
        return meta.model_copy(update={"finalizers": action.remaining})
    references = (known for known in meta.owner_references if not (known.kind == "Project" and known.controller))
    return meta.model_copy(
        update={
            "owner_references": (*references, *action.owner_references),
            "finalizers": tuple(dict.fromkeys((*meta.finalizers, *action.finalizers))),
            "annotations": {**meta.annotations, **action.annotations},
        }
    )


def owned_by(parent: Parent) -> tuple[OwnerReference, ...]:
    """Return the ownerReferences of a Project's child."""
    return (owner_reference("Project", parent, controller=True),)


def steady_endpoint(**spec: Any) -> EndpointScene:
    """Return an endpoint without faults."""
    manifest = endpoint(spec=spec, finalizers=(FINALIZER,))
    return EndpointScene(endpoint=manifest, secret=signing_secret()).settled()


def steady_apikey(**spec: Any) -> ApiKeyScene:
    """Return a key that was handed over at NOW."""
    return ApiKeyScene(key=apikey(**spec)).settled()


def with_metadata(scene: EndpointScene, **changes: Any) -> EndpointScene:
    """Return the scene with other metadata of its endpoint."""
    meta = scene.endpoint.metadata.model_copy(update=changes)
    return replace(scene, endpoint=scene.endpoint.model_copy(update={"metadata": meta}))


def with_key_metadata(scene: ApiKeyScene, **changes: Any) -> ApiKeyScene:
    """Return the scene with other metadata of its key."""
    meta = scene.key.metadata.model_copy(update=changes)
    return replace(scene, key=scene.key.model_copy(update={"metadata": meta}))


def without_status(scene: EndpointScene) -> EndpointScene:
    """Return the scene with the endpoint's status wiped."""
    return replace(scene, endpoint=scene.endpoint.model_copy(update={"status": WebhookEndpointStatus()}))


def without_key_status(scene: ApiKeyScene, **kept: Any) -> ApiKeyScene:
    """Return the scene with the key's status wiped except for the given fields."""
    return replace(scene, key=scene.key.model_copy(update={"status": ApiKeyStatus(**kept)}))
