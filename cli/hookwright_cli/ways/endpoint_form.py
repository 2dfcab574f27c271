"""Pure: WebhookEndpoints and ApiKeys of the cluster in the form of ``/v1``, and back."""

from collections.abc import Mapping
from typing import Any

Document = dict[str, Any]

_SPEC_NAMES = {"max_in_flight": "maxInFlight", "expires_at": "expiresAt"}
_MADE_HERE = {"app.kubernetes.io/managed-by": "hookwright-cli"}
"""Labels of a new endpoint, so that the operator deletes it when it expires."""


def endpoint_document(written: Mapping[str, Any]) -> Document:
    """Return a WebhookEndpoint in the form of ``GET /v1/webhooks/{id}``."""
    meta, spec, status = written["metadata"], written["spec"], written.get("status") or {}
    counts, rate, pull = status.get("deliveries") or {}, spec.get("rateLimit"), spec.get("pull")
    return {
        "id": meta["name"],
        "url": spec.get("url"),
        "pull": {"lease": pull.get("lease", "30s")} if pull is not None else None,
        "events": list(spec["events"]),
        "project": spec["projectRef"]["name"],
        "status": state_of(written),
        "created_at": meta["creationTimestamp"],
        "enabled": not spec.get("suspend", False),
        "description": spec.get("description", ""),
        "header_names": sorted(spec.get("headers") or {}),
        "timeout": spec.get("timeout", "15s"),
        "max_in_flight": spec.get("maxInFlight", 8),
        "rate_limit": {"per_minute": rate["perMinute"]} if rate else None,
        "format": spec.get("format", "json"),
        "labels": {name: value for name, value in sorted((meta.get("labels") or {}).items()) if "/" not in name},
        "expires_at": spec.get("expiresAt"),
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
    spec: Document = {}
    for name, value in fields.items():
        if name == "enabled":
            spec["suspend"] = None if value is None else not value
        elif name == "rate_limit":
            spec["rateLimit"] = None if value is None else {"perMinute": value["per_minute"]}
        elif name != "labels":
            spec[_SPEC_NAMES.get(name, name)] = value
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
        "scopes": list(spec.get("scopes") or ("send", "read", "manage", "pull")),
        "created_at": meta["creationTimestamp"],
        "last_used_at": status.get("lastUsedAt"),
        "expires_at": spec.get("expiresAt"),
        "project": spec["projectRef"]["name"],
    }
