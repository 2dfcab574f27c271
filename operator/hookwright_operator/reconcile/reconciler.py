"""The only I/O of reconciling: reads the state and executes plans.

If several replicas serve one installation, the leader executes whole plans. The other replicas execute only the actions
for their own registry of projects and endpoints. The watch shows them the leader's writes.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

import structlog

from hookwright_crds.base import ObjectMeta
from hookwright_crds.keys import mint
from hookwright_crds.resources import ApiKey, HandoverState, Project, WebhookEndpoint
from hookwright_crds.trimming import MORE_FINALIZERS
from hookwright_operator import metrics
from hookwright_operator.delivery.http.signatures import new_secret
from hookwright_operator.reconcile.apikey import ObservedApiKey, identity_of, plan_apikey
from hookwright_operator.reconcile.endpoint import ObservedEndpoint, plan_endpoint
from hookwright_operator.reconcile.failure_events import FailureEvents
from hookwright_operator.reconcile.manifests import event_body, identity, metadata_body, secret_body, update_body
from hookwright_operator.reconcile.plan import (
    FINALIZER,
    Action,
    AllowProject,
    ApplyMetadata,
    ApplyStatus,
    BlockProject,
    CreateSecret,
    DeleteSecret,
    DiscardDeliveries,
    EmitEvent,
    Plan,
    Register,
    RemoveFinalizer,
    RestoreSecret,
    Unregister,
    UpdateSecret,
)
from hookwright_operator.reconcile.project import ObservedProject, plan_project
from hookwright_operator.reconcile.signing_secret import signing_secret_name
from hookwright_operator.registry import Health, Registry
from hookwright_operator.store.key_digests import Owner
from hookwright_operator.watch.cache import Cache, Resource
from hookwright_operator.watch.kubernetes_paths import events_path, resource_path, secrets_path
from hookwright_operator.watch.objects import Key, Secret
from hookwright_runtime.errors import KubeError, StoreError
from hookwright_runtime.kubernetes import KubernetesClient, Object

log = structlog.get_logger(__name__)

_DISCARD_SECONDS: Final = 10.0
_REPEAT_EVENTS_AFTER: Final = timedelta(minutes=10)
_REMEMBERED_EVENTS: Final = 2048


class Discarder(Protocol):
    """The part of the store that reconciling uses."""

    async def discard(self, endpoint_uid: str, reason: str) -> int:
        """Discard an endpoint's pending deliveries; return their number."""


class DigestOwners(Protocol):
    """The part of `KeyDigests` that reconciling uses."""

    async def owner_of(self, digest: str) -> tuple[str, str] | None:
        """Return namespace and name of the ApiKey that a digest belongs to."""

    async def claim(self, digest: str, owner: Owner, living: Callable[[], Collection[str]]) -> tuple[str, str]:
        """Record the owner of a digest unless it has one, and return its owner."""


@dataclass(slots=True)
class Reconciler:
    """The cluster and the operator's own state as reconciling reads and changes them.

    Attributes:
        health: news of endpoints to publish, by uid; removed when a status has them.
        counts_lost: called with the uid of an endpoint whose status has no counts of deliveries.
        leads: returns whether this replica writes to the cluster.
        check_resource_version: whether another replica may begin to lead during a write. Then a status or metadata is
            written only over the version in the cache.
    """

    kube: KubernetesClient
    cache: Cache
    registry: Registry
    store: Discarder
    digests: DigestOwners
    allow_http: bool
    finalizer_grace: timedelta
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    health: dict[str, Health] = field(default_factory=dict)
    counts_lost: Callable[[str], object] = lambda _: None
    leads: Callable[[], bool] = lambda: True
    check_resource_version: bool = False
    _undiscarded: dict[Key, set[str]] = field(default_factory=dict)
    _told: dict[str, datetime] = field(default_factory=dict)
    _failures: FailureEvents = field(default_factory=FailureEvents)

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one object; return the seconds until the next reconcile, or None."""
        resource = self.cache.resource(key)
        uid = resource.metadata.uid if resource is not None else ""
        self._unregister_gone(key, uid)
        again = await self._carry_out(key, resource) if resource is not None else None
        await self._discard_for_gone(key, uid)
        return again

    async def _carry_out(self, key: Key, resource: Resource) -> float | None:
        now, uid = self.clock(), resource.metadata.uid
        published = self.health.get(uid)
        leads = self.leads()
        if leads and published is not None and published.failures:
            self._failures.add(uid, published.failures, published.error, now)
            self.health[uid] = published = replace(published, failures=0)
        plan = await self._plan(key, resource, published, now, leads=leads)
        if not leads:
            self.health.pop(resource.metadata.uid, None)
            self._follow(plan)
            return (plan.again_at - now).total_seconds() if plan.again_at else None
        learnt = [await self._do(action) for action in plan.actions]
        if self._failures.due(uid, now):
            self._failures.told(uid, now)
        if isinstance(resource, WebhookEndpoint) and _lost_counts(resource):
            self.counts_lost(resource.metadata.uid)
        if published is not None and self.health.get(resource.metadata.uid) is published:
            del self.health[resource.metadata.uid]
        if any(learnt):
            # The watch shows nothing more than the answers, and the answers may show other clients' writes.
            return 0.0
        again_at = min((at for at in (plan.again_at, self._failures.again_at(uid)) if at), default=None)
        return (again_at - now).total_seconds() if again_at else None

    def _follow(self, plan: Plan) -> None:
        """Execute the actions for this replica, up to the first Secret that the leader must write."""
        for number, action in enumerate(plan.actions):
            match action:
                case AllowProject() | BlockProject() | Register() | Unregister():
                    self._do_here(action)
                case CreateSecret() | RestoreSecret() | UpdateSecret() | DeleteSecret():
                    self._hold(plan.actions[number:])
                    return

    def _hold(self, undone: tuple[Action, ...]) -> None:
        """Register an endpoint that has no Secret yet; its deliveries stay pending until the Secret exists."""
        coming = next((action.endpoint for action in undone if isinstance(action, Register)), None)
        if coming is not None and self.registry.get(coming.uid) is None:
            self.registry.put(replace(coming, secrets=()))

    async def _plan(self, key: Key, resource: Resource, health: Health | None, now: datetime, *, leads: bool) -> Plan:
        meta = resource.metadata
        unsupported = self.cache.unsupported(key)
        if isinstance(resource, Project):
            children = self.cache.children(meta.namespace, meta.name)
            keys = sum(child.kind == "ApiKey" for child in children)
            return plan_project(ObservedProject(resource, keys, len(children) - keys, unsupported), now=now)
        project = self.cache.project(meta.namespace, resource.spec.project_ref.name)
        if isinstance(resource, ApiKey):
            handover = resource.spec.handover
            told = resource.status.handover
            expected = leads and told is not None and told.state is HandoverState.DELIVERED
            secret = await self._secret(meta, handover.secret_name, expected=expected) if handover else None
            duplicate = leads and await self._duplicate(resource, secret)
            observed_key = ObservedApiKey(resource, project, secret, duplicate=duplicate, unsupported=unsupported)
            return plan_apikey(observed_key, now=now, mint=lambda: mint(secrets.choice))
        expected = leads and resource.status.signing_secret_ref is not None and meta.deletion_timestamp is None
        observed = ObservedEndpoint(
            endpoint=resource,
            project=project,
            secret=await self._secret(meta, signing_secret_name(meta.name), expected=expected),
            health=health,
            allow_http=self.allow_http,
            finalizer_grace=self.finalizer_grace,
            given_up=self._failures.due(meta.uid, now) if leads else None,
            unsupported=unsupported,
        )
        return plan_endpoint(observed, now=now, new_secret=lambda: new_secret(secrets.token_bytes))

    async def _duplicate(self, key: ApiKey, secret: Secret | None) -> bool:
        """Return whether the key's digest belongs to another ApiKey; record the key as owner if there is none.

        The owner is recorded before the status confirms the key, because the API accepts confirmed keys only.
        """
        known = identity_of(key, secret)
        if known is None or key.metadata.deletion_timestamp is not None:
            return False
        me = Owner(key.metadata.namespace, key.metadata.name)
        owner = await self.digests.owner_of(known.digest)
        if owner is None:
            first = self.cache.first_with_digest(known.digest)
            if first is not None and (first.namespace, first.name) != me:
                return True
            owner = await self.digests.claim(known.digest, me, lambda: self.cache.digests_in(me.namespace))
        return owner != me

    async def _secret(self, owner: ObjectMeta, name: str, *, expected: bool) -> Secret | None:
        known = self.cache.secret(owner.namespace, name, owner_uid=owner.uid)
        if known is None and not expected:
            return None
        if known is not None and not known.partial:
            return known
        # A watch by labels shows a Secret that lost them as deleted; only a read shows its true state.
        try:
            self.cache.see_secret(await self.kube.get(secrets_path(owner.namespace, name)), needed=True)
        except KubeError as error:
            if error.status != 404:
                raise
        return self.cache.secret(owner.namespace, name, owner_uid=owner.uid)

    def _unregister_gone(self, key: Key, uid: str) -> None:
        """Unregister deleted objects of this key, even if their finalizer was removed or their name is in use again."""
        if key.kind == "Project" and not uid:
            self.registry.remove_project(key.namespace, key.name)
        known = self.registry.find(key.namespace, key.name) if key.kind == "WebhookEndpoint" else None
        if known is not None and known.uid != uid:
            self._unregister(known.uid)

    def _unregister(self, uid: str) -> None:
        known = self.registry.get(uid)
        if known is not None:
            key = Key("WebhookEndpoint", known.namespace, known.name)
            self._undiscarded.setdefault(key, set()).add(uid)
        self.registry.remove(uid)
        self.health.pop(uid, None)
        self._failures.forget(uid)

    async def _discard_for_gone(self, key: Key, living: str) -> None:
        """Discard remaining deliveries of deleted endpoints, including those accepted during the deletion."""
        waiting = self._undiscarded.get(key, set())
        for uid in waiting - {living}:
            metrics.DELIVERIES.labels("discarded").inc(await self.store.discard(uid, "endpoint deleted"))
            waiting.discard(uid)
        if not waiting:
            self._undiscarded.pop(key, None)

    async def _do(self, action: Action) -> bool:
        """Execute an action; return whether the API server's answer showed news."""
        match action:
            case AllowProject() | BlockProject() | Register() | Unregister():
                self._do_here(action)
            case DiscardDeliveries():
                await self._discard(action)
            case EmitEvent():
                await self._announce(action)
            case CreateSecret() | RestoreSecret() | UpdateSecret() | DeleteSecret():
                return await self._do_secret(action)
            case ApplyMetadata() | RemoveFinalizer() | ApplyStatus():
                return await self._do_object(action)
        return False

    def _do_here(self, action: AllowProject | BlockProject | Register | Unregister) -> None:
        match action:
            case AllowProject(namespace, name):
                self.registry.put_project(namespace, name)
            case BlockProject(namespace, name):
                self.registry.remove_project(namespace, name)
            case Register(endpoint):
                self.registry.put(endpoint)
            case Unregister(uid):
                self._unregister(uid)

    async def _do_secret(self, action: CreateSecret | RestoreSecret | UpdateSecret | DeleteSecret) -> bool:
        match action:
            case CreateSecret(secret):
                return await self._create(secret)
            case RestoreSecret(secret):
                path = secrets_path(secret.namespace, secret.name)
                answer = await self.kube.apply(path, secret_body(secret, with_fields=False))
            case UpdateSecret(secret, gone):
                path = secrets_path(secret.namespace, secret.name)
                answer = await self.kube.merge(path, update_body(secret, gone))
            case DeleteSecret(namespace, name, uid):
                await self.kube.delete(secrets_path(namespace, name), uid=uid)
                return False
        return self.cache.see_secret(answer) is not None

    async def _create(self, secret: Secret) -> bool:
        try:
            made = await self.kube.post(secrets_path(secret.namespace), secret_body(secret, with_fields=True))
        except KubeError as error:
            if error.status == 409:
                # The Secret exists already: perhaps this operator created it before a crash. Read it, and plan again.
                path = secrets_path(secret.namespace, secret.name)
                self.cache.see_secret(await self.kube.get(path))
            raise
        return self.cache.see_secret(made) is not None

    async def _do_object(self, action: ApplyMetadata | RemoveFinalizer | ApplyStatus) -> bool:
        path, kind = resource_path(action.key), action.key.kind
        match action:
            case ApplyMetadata():
                answer = await self.kube.apply(path, self._over_what_is_known(action.key, metadata_body(action)))
            case RemoveFinalizer(_, remaining, version):
                try:
                    if MORE_FINALIZERS in remaining:
                        remaining, version = _other_finalizers(await self.kube.get(path))
                    kept = {"finalizers": list(remaining), "resourceVersion": version}
                    await self.kube.merge(path, {"metadata": kept})
                except KubeError as error:
                    if error.status != 404:
                        raise
                return False
            case ApplyStatus(key, uid, status):
                body = identity(key, uid) | {"status": dict(status)}
                answer = await self.kube.apply(f"{path}/status", self._over_what_is_known(key, body))
        return self.cache.see(kind, answer) is not None

    def _over_what_is_known(self, key: Key, body: dict[str, Any]) -> dict[str, Any]:
        known = self.cache.resource(key) if self.check_resource_version else None
        if known is not None:
            # The API server refuses a write that a paused replica began if its successor has written since.
            body["metadata"]["resourceVersion"] = known.metadata.resource_version
        return body

    async def _discard(self, action: DiscardDeliveries) -> None:
        try:
            async with asyncio.timeout(_DISCARD_SECONDS):
                discarded = await self.store.discard(action.uid, "endpoint deleted")
                metrics.DELIVERIES.labels("discarded").inc(discarded)
        except (StoreError, TimeoutError) as error:
            if action.essential:
                raise StoreError(f"pending deliveries not discarded, retrying: {error}") from error
            self._undiscarded.setdefault(action.key, set()).add(action.uid)
            message = (
                "The endpoint was deleted before its pending deliveries were discarded, because the store is "
                "unavailable; they are discarded when the store is available again."
            )
            await self._announce(EmitEvent(action.key, action.uid, "Warning", "DeliveriesNotDiscarded", message))

    async def _announce(self, event: EmitEvent) -> None:
        """Write an Event; an equal text about the same object is not repeated within ten minutes."""
        now = self.clock()
        digest = hashlib.sha256(f"{event.uid} {event.reason} {event.message}".encode()).hexdigest()[:16]
        last = self._told.get(digest)
        if last is not None and now - last < _REPEAT_EVENTS_AFTER and not event.always:
            return
        self._told[digest] = now
        while len(self._told) > _REMEMBERED_EVENTS:
            del self._told[next(iter(self._told))]
        try:
            await self.kube.post(events_path(event.key.namespace), event_body(event, now))
        except KubeError as error:
            log.warning("Event not written, skipping it", reason=event.reason, name=event.key.name, error=str(error))


def _other_finalizers(body: Object) -> tuple[tuple[str, ...], str]:
    """Return the finalizers of others (too many for the cache) and the resourceVersion of an object."""
    meta = body["metadata"]
    return tuple(name for name in meta.get("finalizers") or () if name != FINALIZER), meta["resourceVersion"]


def _lost_counts(endpoint: WebhookEndpoint) -> bool:
    """Return whether the status was wiped; a new endpoint has no counts either, but it has no finalizer yet."""
    return endpoint.status.deliveries is None and FINALIZER in endpoint.metadata.finalizers
