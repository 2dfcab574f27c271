"""Pure: the objects that a benchmark declares."""

from collections.abc import Mapping
from typing import Any, Final

from hookwright_crds.events import EVENT_TYPES

API_VERSION: Final = "hookwright.dev/v1alpha1"
TYPES: Final = EVENT_TYPES
"""If each event goes to one endpoint, endpoint N of a project subscribes to type N only."""


def project(namespace: str, name: str) -> dict[str, Any]:
    """Return a Project."""
    return _object("Project", namespace, name, {"displayName": name})


def endpoint(namespace: str, name: str, **spec: Any) -> dict[str, Any]:
    """Return a WebhookEndpoint; ``project`` names its Project."""
    return _object("WebhookEndpoint", namespace, name, {"projectRef": {"name": spec.pop("project")}, **spec})


def place(number: int) -> tuple[str, str]:
    """Return the project of endpoint ``number`` and the one event type that leads only to it."""
    return f"p-{number // len(TYPES)}", TYPES[number % len(TYPES)]


def _object(kind: str, namespace: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": dict(spec),
    }
