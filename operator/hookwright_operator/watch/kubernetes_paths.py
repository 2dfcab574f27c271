"""Pure: the paths of objects on the API server."""

from typing import Final

from hookwright_crds import API_VERSION
from hookwright_crds.base import MANAGED_BY
from hookwright_crds.resources import Kind
from hookwright_operator.watch.cache import MODELS
from hookwright_operator.watch.objects import MANAGER, Key

SELECTOR: Final = f"{MANAGED_BY}={MANAGER}"
"""Label selector of the Secrets that the operator creates."""


def plural(kind: Kind) -> str:
    """Return the name of a kind in paths."""
    return str(MODELS[kind].names.plural)


def resource_path(key: Key) -> str:
    """Return the path of one of Hookwright's objects."""
    return f"/apis/{API_VERSION}/namespaces/{key.namespace}/{plural(key.kind)}/{key.name}"


def resources_path(kind: Kind, namespace: str | None = None) -> str:
    """Return the path of the list of a kind, in one namespace or in all."""
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{API_VERSION}{within}/{plural(kind)}"


def secrets_path(namespace: str | None = None, name: str | None = None) -> str:
    """Return the path of a Secret, of the Secrets of a namespace, or of all Secrets."""
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"/api/v1{within}/secrets" + (f"/{name}" if name else "")


def events_path(namespace: str) -> str:
    """Return the path of a namespace's Events."""
    return f"/api/v1/namespaces/{namespace}/events"
