"""Pure: the objects that a benchmark declares, and the numbers of requests in the API server's metrics."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hookwright_crds.events import EVENT_TYPES

API_VERSION: Final = "hookwright.dev/v1alpha1"
TYPES: Final = EVENT_TYPES
"""If each event goes to one endpoint, endpoint N of a project subscribes to type N only."""

WRITING: Final = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE"})
_WRITTEN: Final = frozenset({"projects", "apikeys", "webhookendpoints", "secrets", "events"})
_REQUESTS: Final = re.compile(r"^apiserver_request_total\{([^}]*)\} ([0-9.e+]+)$")
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


def project(namespace: str, name: str) -> dict[str, Any]:
    """Return a Project."""
    return _object("Project", namespace, name, {"displayName": name})


def endpoint(namespace: str, name: str, **spec: Any) -> dict[str, Any]:
    """Return a WebhookEndpoint; ``project`` names its Project."""
    return _object("WebhookEndpoint", namespace, name, {"projectRef": {"name": spec.pop("project")}, **spec})


def place(number: int) -> tuple[str, str]:
    """Return the project of endpoint ``number`` and the one event type that leads only to it."""
    return f"p-{number // len(TYPES)}", TYPES[number % len(TYPES)]


def writes(metrics: str) -> dict[str, int]:
    """Return how often Hookwright's resources, Secrets and Events were written, by ``verb resource/subresource``."""
    found: dict[str, int] = {}
    for labels, value in _requests(metrics.splitlines()):
        if labels.get("verb") in WRITING and labels.get("resource") in _WRITTEN and labels["code"].startswith("2"):
            what = "/".join(filter(None, (labels["resource"], labels.get("subresource"))))
            name = f"{labels['verb']} {what}"
            found[name] = found.get(name, 0) + value
    return found


def _requests(lines: Iterable[str]) -> Iterable[tuple[Mapping[str, str], int]]:
    for line in lines:
        match = _REQUESTS.match(line)
        if match:
            yield dict(_LABEL.findall(match[1])), int(float(match[2]))


def _object(kind: str, namespace: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": dict(spec),
    }
