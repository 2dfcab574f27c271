"""Pure: the bodies of writes to the API server, from actions and Secrets."""

from datetime import datetime
from typing import Any

from hookwright_crds import API_VERSION
from hookwright_crds.base import format_timestamp
from hookwright_operator.reconcile.plan import ApplyMetadata, EmitEvent
from hookwright_operator.watch.objects import Key, Secret


def identity(key: Key, uid: str) -> dict[str, Any]:
    """Return the identity of an object; with its uid, so that an apply never creates a new object."""
    return {
        "apiVersion": API_VERSION,
        "kind": key.kind,
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid},
    }


def _references(references: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [reference.to_kubernetes() for reference in references]


def metadata_body(action: ApplyMetadata) -> dict[str, Any]:
    """Return the apply of Hookwright's part of an object's metadata."""
    body = identity(action.key, action.uid)
    body["metadata"] |= {
        "ownerReferences": _references(action.owner_references),
        "finalizers": list(action.finalizers),
        "annotations": dict(action.annotations),
    }
    return body


def secret_body(secret: Secret, *, with_fields: bool) -> dict[str, Any]:
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


def update_body(secret: Secret, removed_fields: tuple[str, ...]) -> dict[str, Any]:
    """Return the merge patch of a Secret's fields and annotations."""
    return {
        "metadata": {"annotations": dict(secret.annotations), "resourceVersion": secret.resource_version},
        "stringData": dict(secret.fields),
        "data": dict.fromkeys(removed_fields),
    }


def event_body(event: EmitEvent, now: datetime) -> dict[str, Any]:
    """Return a Kubernetes Event."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{event.key.name[:200]}.", "namespace": event.key.namespace},
        "involvedObject": identity(event.key, event.uid)["metadata"]
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
