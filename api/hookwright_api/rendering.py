"""Pure: the public form of keys and endpoints, from the resources."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from hookwright_crds.base import format_timestamp
from hookwright_crds.conditions import find
from hookwright_crds.endpoint_fields import HIDDEN_FIELDS, EndpointFields
from hookwright_crds.resources import DeliveryCounts, WebhookEndpoint

_SPEC_FIELDS: Final = set(EndpointFields.model_fields)
"""The fields of a spec that have the same form on `/v1`."""


def timestamp(moment: datetime | None) -> str | None:
    """Return ISO 8601 in UTC with ``Z``, in whole seconds, as Kubernetes keeps times."""
    return None if moment is None else format_timestamp(moment)


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
    """Return an endpoint in the form of lists; of its headers only the names, because a value may be a credential."""
    return {
        "id": endpoint.metadata.name,
        "project": endpoint.spec.project_ref.name,
        "status": endpoint_status(endpoint),
        "created_at": timestamp(endpoint.metadata.creation_timestamp),
        **{name: value for name, value in own_fields(endpoint).items() if name not in HIDDEN_FIELDS},
        "header_names": sorted(endpoint.spec.headers),
        "labels": own_labels(endpoint.metadata.labels),
    }


def own_fields(endpoint: WebhookEndpoint) -> dict[str, Any]:
    """Return the fields of an endpoint that people set, with their names on `/v1`."""
    fields = endpoint.spec.model_dump(mode="json", include=_SPEC_FIELDS)
    return {**fields, "enabled": not endpoint.spec.suspend}


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
            {"type": entry.type, "status": entry.status, "reason": entry.reason, "message": entry.message}
            for entry in endpoint.status.conditions
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
