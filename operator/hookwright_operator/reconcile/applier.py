"""Executes the actions of plans: on the API server, in the store, and in this replica's registry."""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from pydantic_core import to_json

from hookwright_crds import API_VERSION
from hookwright_crds.base import format_timestamp, secrets_path
from hookwright_crds.resources import Resource
from hookwright_crds.trimming import MORE_FINALIZERS
from hookwright_operator.reconcile.plan import (
    FINALIZER,
    Action,
    AllowEventType,
    AllowProject,
    ApplyMetadata,
    ApplyStatus,
    BlockEventType,
    BlockProject,
    CreateSecret,
    DeleteEndpoint,
    DeleteSecret,
    DiscardDeliveries,
    EmitEvent,
    Register,
    RegistryAction,
    RemoveFinalizer,
    ReportToProject,
    RestoreSecret,
    SecretAction,
    Unregister,
    UpdateSecret,
)
from hookwright_operator.reconcile.unpublished_health import UnpublishedHealth
from hookwright_operator.registry import Registry
from hookwright_operator.services.events import Events, IncomingEvent
from hookwright_operator.store.records import DELETED_REASON, SOURCE_END
from hookwright_operator.store.store import Store
from hookwright_operator.watch.cache import Cache
from hookwright_operator.watch.objects import Key, Secret
from hookwright_runtime.errors import KubeError, StoreError
from hookwright_runtime.kubernetes import KubernetesClient, Object
from hookwright_runtime.log_bounds import LogBound

log = structlog.get_logger(__name__)

_DISCARD_SECONDS: Final = 10.0
_REPEAT_EVENTS_AFTER: Final = timedelta(minutes=10)
_REMEMBERED_EVENTS: Final = 2048

AT_ONCE: Final = 20
A_SECOND: Final = 0.2
"""Events of one namespace that could not be written and are logged, at once and in the long run."""


@dataclass(slots=True)
class Applier:
    """The parts of the cluster and of this replica that plans change.

    Attributes:
        kube: a client that writes only while this replica leads.
        events: accepts operational events.
        check_resource_version: whether another replica may begin to lead during a write. Then a status or metadata is
            written only over the version in the cache.
    """

    kube: KubernetesClient
    cache: Cache
    registry: Registry
    store: Store
    unpublished_health: UnpublishedHealth
    clock: Callable[[], datetime]
    events: Events
    check_resource_version: bool
    _pending_discards: dict[Key, set[str]] = field(default_factory=dict)
    _emission_times: dict[str, datetime] = field(default_factory=dict)
    _log_bound: LogBound = field(default_factory=lambda: LogBound(burst=AT_ONCE, rate=A_SECOND, report=_report_omitted))

    async def apply(self, action: Action) -> bool:
        """Execute an action; return whether the API server's answer showed more than what was written."""
        match action:
            case AllowProject() | BlockProject() | AllowEventType() | BlockEventType() | Register() | Unregister():
                self.register(action)
            case DiscardDeliveries():
                await self._discard(action)
            case EmitEvent():
                await self._emit(action)
            case ReportToProject(key, uid, project, event_type, event_id, fields):
                # No id of a producer begins with a line break, so no producer can have used this one.
                content = to_json({"type": event_type, **fields})
                event = IncomingEvent(SOURCE_END + event_id, event_type, "", content)
                await self.events.accept_operational(key.namespace, project, event, about=uid)
            case CreateSecret() | RestoreSecret() | UpdateSecret() | DeleteSecret():
                return await self._write_secret(action)
            case RemoveFinalizer():
                await self._remove_finalizer(action)
            case DeleteEndpoint(key, uid, version):
                await self.kube.delete(key.path, uid=uid, resource_version=version)
            case ApplyMetadata(key):
                return await self._apply_object(key, key.path, _metadata_body(action))
            case ApplyStatus(key, uid, status):
                body = _identity(key, uid) | {"status": dict(status)}
                return await self._apply_object(key, f"{key.path}/status", body)
        return False

    def register(self, action: RegistryAction) -> None:
        """Execute an action on this replica's registry, as leader or follower."""
        match action:
            case AllowProject(namespace, name, settings):
                self.registry.put_project(namespace, name, settings)
            case BlockProject(namespace, name):
                self.registry.remove_project(namespace, name)
            case AllowEventType(namespace, name, example):
                self.registry.put_event_type(namespace, name, example)
            case BlockEventType(namespace, name):
                self.registry.remove_event_type(namespace, name)
            case Register(endpoint):
                self.registry.put(endpoint)
            case Unregister(uid):
                self.unregister(uid)

    def unregister(self, uid: str) -> None:
        """Unregister an endpoint; `discard_remaining` discards its deliveries after its deletion."""
        endpoint = self.registry.get(uid)
        if endpoint is not None:
            key = Key("WebhookEndpoint", endpoint.namespace, endpoint.name)
            self._pending_discards.setdefault(key, set()).add(uid)
        self.registry.remove(uid)
        self.unpublished_health.forget(uid)

    async def discard_remaining(self, key: Key, living: str) -> None:
        """Discard remaining deliveries of deleted endpoints, including those accepted during the deletion.

        Args:
            key: the key of the endpoints.
            living: uid of the endpoint that has this key now, empty if there is none.

        Raises:
            StoreError: the store reports an error, or needs more than `_DISCARD_SECONDS`; a later call does the rest.
        """
        remaining = self._pending_discards.get(key, set())
        for uid in remaining - {living}:
            await self._discard_in_time(uid, DELETED_REASON)
            remaining.discard(uid)
        if not remaining:
            self._pending_discards.pop(key, None)

    async def _write_secret(self, action: SecretAction) -> bool:
        match action:
            case CreateSecret(secret):
                answer = await self._create_secret(secret)
            case RestoreSecret(secret):
                answer = await self.kube.apply(secret.path, _secret_body(secret, with_fields=False))
            case UpdateSecret(secret, removed_fields):
                answer = await self.kube.merge(secret.path, _update_body(secret, removed_fields))
            case DeleteSecret(namespace, name, uid):
                await self.kube.delete(secrets_path(namespace, name), uid=uid)
                return False
        known = replace(secret, uid=answer["metadata"]["uid"], resource_version=answer["metadata"]["resourceVersion"])
        answered = self.cache.see_secret(answer)
        if answered == known:
            self.cache.answered.add(known.resource_version)
        return answered not in (None, known)

    async def _create_secret(self, secret: Secret) -> Object:
        try:
            return await self.kube.post(secrets_path(secret.namespace), _secret_body(secret, with_fields=True))
        except KubeError as error:
            if error.status == 409:
                # The Secret exists already: perhaps this operator created it before a crash. Read it, and plan again.
                self.cache.see_secret(await self.kube.get(secret.path))
            raise

    async def _apply_object(self, key: Key, path: str, body: dict[str, Any]) -> bool:
        before = self.cache.resource(key)
        if before is not None and self.check_resource_version:
            # The API server refuses a write that a paused replica began if its successor has written since.
            body["metadata"]["resourceVersion"] = before.metadata.resource_version
        answer = await self.kube.apply(path, body)
        is_new = self.cache.see(key.kind, answer) is not None
        news = is_new and _parts_of_others(before) != _parts_of_others(self.cache.resource(key))
        if is_new and not news:
            # The watch event of news is needed: the answer may be another client's write, on which others depend.
            self.cache.answered.add(answer["metadata"]["resourceVersion"])
        return news

    async def _remove_finalizer(self, action: RemoveFinalizer) -> None:
        path, remaining, version = action.key.path, action.remaining, action.resource_version
        try:
            if MORE_FINALIZERS in remaining:
                # The object has more finalizers than the cache keeps.
                meta = (await self.kube.get(path))["metadata"]
                remaining = tuple(name for name in meta.get("finalizers") or () if name != FINALIZER)
                version = meta["resourceVersion"]
            await self.kube.merge(path, {"metadata": {"finalizers": list(remaining), "resourceVersion": version}})
        except KubeError as error:
            if error.status != 404:
                raise

    async def _discard(self, action: DiscardDeliveries) -> None:
        reason = "endpoint expired" if action.is_expired else DELETED_REASON
        try:
            await self._discard_in_time(action.uid, reason, deleted=not action.is_expired)
        except StoreError:
            if action.essential:
                raise
            self._pending_discards.setdefault(action.key, set()).add(action.uid)
            message = (
                "The endpoint was deleted before all its pending deliveries were discarded, because the store is "
                "unavailable or slow. The operator continues to discard them."
            )
            await self._emit(EmitEvent(action.key, action.uid, "Warning", "DeliveriesNotDiscarded", message))

    async def _discard_in_time(self, uid: str, reason: str, *, deleted: bool = True) -> None:
        try:
            async with asyncio.timeout(_DISCARD_SECONDS):
                await self.store.discard(uid, reason, is_deleted=deleted)
        except TimeoutError as error:
            # A tenant decides how many deliveries these are, and they must not occupy a worker.
            seconds = f"{_DISCARD_SECONDS:.0f} seconds"
            raise StoreError(f"not all deliveries discarded in {seconds}, retrying") from error

    async def _emit(self, event: EmitEvent) -> None:
        """Write an Event; an equal text about the same object is not repeated within ten minutes."""
        now = self.clock()
        digest = hashlib.sha256(f"{event.uid} {event.reason} {event.message}".encode()).hexdigest()[:16]
        last = self._emission_times.get(digest)
        if last is not None and now - last < _REPEAT_EVENTS_AFTER and not event.always:
            return
        self._emission_times[digest] = now
        while len(self._emission_times) > _REMEMBERED_EVENTS:
            del self._emission_times[next(iter(self._emission_times))]
        try:
            await self.kube.post(f"/api/v1/namespaces/{event.key.namespace}/events", _event_body(event, now))
        except KubeError as error:
            namespace = event.key.namespace
            if self._log_bound.allow(namespace):
                log.warning(
                    "Event not written, skipping it",
                    namespace=namespace, reason=event.reason, name=event.key.name, error=str(error),
                )  # fmt: skip


def _report_omitted(namespace: str, count: int) -> None:
    log.warning("unwritten Events not logged, the namespace has used up its lines", namespace=namespace, events=count)


def _parts_of_others(resource: Resource | None) -> Any:
    """Return what a write of the status does not change."""
    return resource and (resource.spec, resource.metadata.model_copy(update={"resource_version": ""}))


def _identity(key: Key, uid: str) -> dict[str, Any]:
    """Return the identity of an object; with its uid, so that an apply never creates a new object."""
    return {
        "apiVersion": API_VERSION,
        "kind": key.kind,
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid},
    }


def _references(references: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [reference.to_kubernetes() for reference in references]


def _metadata_body(action: ApplyMetadata) -> dict[str, Any]:
    """Return the apply of Hookwright's part of an object's metadata."""
    body = _identity(action.key, action.uid)
    body["metadata"] |= {
        "ownerReferences": _references(action.owner_references),
        "finalizers": list(action.finalizers),
        "annotations": dict(action.annotations),
    }
    return body


def _secret_body(secret: Secret, *, with_fields: bool) -> dict[str, Any]:
    """Return the body that creates a Secret, or, without its fields, the body that restores one."""
    metadata: dict[str, Any] = {
        "name": secret.name,
        "namespace": secret.namespace,
        "labels": dict(secret.labels),
        "ownerReferences": _references(secret.owner_references),
    }
    if secret.uid:
        metadata["uid"] = secret.uid
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    if with_fields:
        metadata["annotations"] = dict(secret.annotations)
        body["stringData"] = dict(secret.fields)
    return body


def _update_body(secret: Secret, removed_fields: tuple[str, ...]) -> dict[str, Any]:
    """Return the merge patch of a Secret's fields and annotations."""
    return {
        "metadata": {"annotations": dict(secret.annotations), "resourceVersion": secret.resource_version},
        "stringData": dict(secret.fields),
        "data": dict.fromkeys(removed_fields),
    }


def _event_body(event: EmitEvent, now: datetime) -> dict[str, Any]:
    """Return a Kubernetes Event."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{event.key.name[:200]}.", "namespace": event.key.namespace},
        "involvedObject": _identity(event.key, event.uid)["metadata"]
        | {"apiVersion": API_VERSION, "kind": event.key.kind},
        "type": event.type,
        "reason": event.reason,
        "message": event.message[:1024],
        "firstTimestamp": format_timestamp(event.since or now),
        "lastTimestamp": format_timestamp(now),
        "count": event.count,
        "source": {"component": "hookwright-operator"},
        "reportingComponent": "hookwright.dev/operator",
    }
