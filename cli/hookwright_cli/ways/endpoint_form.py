"""Pure: WebhookEndpoints and ApiKeys of the cluster in the form of ``/v1``, and back."""

from collections.abc import Mapping
from typing import Any

from hookwright_cli.contract import endpoint_fields, key_scopes, shown_fields

Document = dict[str, Any]

_MADE_HERE = {"app.kubernetes.io/managed-by": "hookwright-cli"}
"""Labels of a new endpoint, so that the operator deletes it when it expires."""


def endpoint_document(written: Mapping[str, Any]) -> Document:
    """Return a WebhookEndpoint in the form of ``GET /v1/webhooks/{id}``."""
    meta, spec, status = written["metadata"], written["spec"], written.get("status") or {}
    counts = status.get("deliveries") or {}
    return {
        "id": meta["name"],
        "project": spec["projectRef"]["name"],
        "status": state_of(written),
        "created_at": meta["creationTimestamp"],
        **{field.name: field.of_spec(spec) for field in shown_fields()},
        "enabled": not spec.get("suspend", False),
        "header_names": sorted(spec.get("headers") or {}),
        "labels": {name: value for name, value in sorted((meta.get("labels") or {}).items()) if "/" not in name},
        "conditions": [
            {name: one.get(name, "") for name in ("type", "status", "reason", "message")}
            for one in status.get("conditions") or ()
        ],
        "deliveries": {
            **{name: counts.get(name, 0) for name in ("pending", "delivered", "failed", "discarded")},
            "last_attempt_at": counts.get("lastAttemptTime"),
            "last_status_code": counts.get("lastStatusCode"),
        },
    }


def condition(written: Mapping[str, Any], kind: str) -> Document:
    """Return one condition of an object, empty if it has none."""
    found = [one for one in (written.get("status") or {}).get("conditions") or () if one["type"] == kind]
    return dict(found[0]) if found else {}


def state_of(written: Mapping[str, Any]) -> str:
    """Return the state of an endpoint in one word, as ``/v1`` does."""
    ready = condition(written, "Ready").get("status", "Unknown")
    if ready == "Unknown":
        return "pending"
    if ready == "False":
        return "error"
    if written["spec"].get("suspend"):
        return "suspended"
    return "failing" if condition(written, "Reachable").get("status") == "False" else "active"


def endpoint_patch(fields: Mapping[str, Any]) -> Document:
    """Return the merge patch of a WebhookEndpoint for a merge patch of ``/v1``."""
    spec = {field.spec: field.to_spec(fields[field.name]) for field in endpoint_fields() if field.name in fields}
    if "enabled" in fields:
        spec["suspend"] = None if fields["enabled"] is None else not fields["enabled"]
    labels = {"metadata": {"labels": dict(fields["labels"])}} if fields.get("labels") else {}
    return {**labels, **({"spec": spec} if spec else {})}


def endpoint_manifest(name: str, project: str, fields: Mapping[str, Any]) -> Document:
    """Return a new WebhookEndpoint."""
    patch = endpoint_patch({key: value for key, value in fields.items() if value is not None})
    labels = {**patch.get("metadata", {}).get("labels", {}), **_MADE_HERE}
    return {
        "apiVersion": "hookwright.dev/v1alpha1",
        "kind": "WebhookEndpoint",
        "metadata": {"name": name, "labels": labels},
        "spec": {"projectRef": {"name": project}, **patch.get("spec", {})},
    }


def key_document(written: Mapping[str, Any]) -> Document:
    """Return an ApiKey in the form of the list of keys of ``/v1``."""
    meta, spec, status = written["metadata"], written["spec"], written.get("status") or {}
    return {
        "id": meta["name"],
        "name": spec.get("displayName", ""),
        "scopes": list(spec.get("scopes") or key_scopes()),
        "created_at": meta["creationTimestamp"],
        "last_used_at": status.get("lastUsedAt"),
        "expires_at": spec.get("expiresAt"),
        "project": spec["projectRef"]["name"],
    }
