"""Pure: the public form of keys and endpoints, from the resources."""

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
        "events": list(endpoint.spec.events),
        "project": endpoint.spec.project_ref.name,
        "status": endpoint_status(endpoint),
        "created_at": timestamp(endpoint.metadata.creation_timestamp),
    }


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
