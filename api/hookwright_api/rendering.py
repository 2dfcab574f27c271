"""Pure: the public form of keys and endpoints, from the resources."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from hookwright_crds.conditions import find
from hookwright_crds.resources import DeliveryCounts, WebhookEndpoint


def timestamp(moment: datetime | None) -> str | None:
    """Return ISO 8601 in UTC with ``Z``, in whole seconds, as Kubernetes keeps times."""
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def endpoint_status(endpoint: WebhookEndpoint) -> str:
    """Return the state of an endpoint in one word.

    ``pending``: the operator has not reconciled it yet. ``error``: no delivery is sent; the condition Ready has the
    reason. ``suspended``: deliveries stay pending. ``failing``: the last attempt got no 2xx answer. ``active``:
    otherwise.
    """
    ready = find(endpoint.status.conditions, "Ready")
    reachable = find(endpoint.status.conditions, "Reachable")
    if ready is None or ready.status == "Unknown":
        return "pending"
    if ready.status == "False":
        return "error"
    if endpoint.spec.suspend:
        return "suspended"
    return "failing" if reachable is not None and reachable.status == "False" else "active"


def endpoint_summary(endpoint: WebhookEndpoint) -> dict[str, Any]:
    """Return an endpoint in the form of lists, without its secret."""
    return {
        "id": endpoint.metadata.name,
        "url": endpoint.spec.url,
        "pull": {"lease": endpoint.spec.pull.lease} if endpoint.spec.pull else None,
        "events": list(endpoint.spec.events),
        "project": endpoint.spec.project_ref.name,
        "status": endpoint_status(endpoint),
        "created_at": timestamp(endpoint.metadata.creation_timestamp),
        **_settings(endpoint),
    }


def _settings(endpoint: WebhookEndpoint) -> dict[str, Any]:
    """Return how an endpoint is delivered to; of its headers only the names, because a value may be a credential."""
    spec = endpoint.spec
    return {
        "enabled": not spec.suspend,
        "description": spec.description,
        "header_names": sorted(spec.headers),
        "timeout": spec.timeout,
        "max_in_flight": spec.max_in_flight,
        "rate_limit": {"per_minute": spec.rate_limit.per_minute} if spec.rate_limit else None,
        "format": spec.format,
        "labels": own_labels(endpoint.metadata.labels),
        "expires_at": timestamp(spec.expires_at),
    }


def own_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that `/v1` shows and changes: those without a prefix.

    Source: Kubernetes, "Labels and Selectors": a key without a prefix is private to the user, and tools must use one.
    """
    return {name: value for name, value in sorted(labels.items()) if "/" not in name}


def endpoint_detail(endpoint: WebhookEndpoint) -> dict[str, Any]:
    """Return an endpoint with its conditions and delivery counts."""
    counts = endpoint.status.deliveries or DeliveryCounts()
    return {
        **endpoint_summary(endpoint),
        "conditions": [
            {"type": known.type, "status": known.status, "reason": known.reason, "message": known.message}
            for known in endpoint.status.conditions
        ],
        "deliveries": {
            "pending": counts.pending,
            "delivered": counts.delivered,
            "failed": counts.failed,
            "discarded": counts.discarded,
            "last_attempt_at": timestamp(counts.last_attempt_time),
            "last_status_code": counts.last_status_code,
        },
    }
