"""Pure: the rights of the processes, read from the manifests that development and its tests use.

A rule about namespaced resources can be granted in a single namespace; other rules always need a ClusterRole. If an
installation serves only some namespaces, the chart separates the two kinds.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import yaml

Rule: TypeAlias = dict[str, Any]
Roles: TypeAlias = dict[str, dict[str, list[Rule]]]

REVIEWS: Final = frozenset({"tokenreviews", "subjectaccessreviews"})
CLUSTER_SCOPED: Final = REVIEWS | {"namespaces", "customresourcedefinitions"}
_PLACES: Final = ("cluster", "intake", "served", "users", "leader")
_PREFIX: Final = "hookwright-"


class RbacError(ValueError):
    """A rule in the manifests that the chart cannot use; the message names it."""


def roles(documents: Iterable[Mapping[str, Any]]) -> Roles:
    """Return rules by role and by scope.

    The roles are named without ``hookwright-``. Each has these scopes: ``cluster`` (needs a ClusterRole), ``intake``
    (the same, but only for pods with the intake), ``served`` (every served namespace), ``users`` (the namespace
    of users and session keys) and ``leader`` (the installation's namespace, if replicas elect a leader by a Lease).

    Raises:
        RbacError: a rule mixes resources of namespaces and of the cluster.
    """
    result: Roles = {}
    for document in documents:
        if document["kind"] not in {"ClusterRole", "Role"}:
            continue
        name = document["metadata"]["name"].removeprefix(_PREFIX)
        places = result.setdefault(name, {place: [] for place in _PLACES})
        for rule in document["rules"]:
            places[_place(name, rule, everywhere=document["kind"] == "ClusterRole")].append(rule)
    return result


def _place(name: str, rule: Rule, *, everywhere: bool) -> str:
    scopes = {_place_of(resource, everywhere=everywhere) for resource in rule["resources"]}
    if len(scopes) > 1:
        raise RbacError(
            f"role {name}: the rule for {', '.join(rule['resources'])} mixes resources of different scopes "
            f"({', '.join(sorted(scopes))}); write a rule for each"
        )
    return scopes.pop()


def _place_of(resource: str, *, everywhere: bool) -> str:
    if not everywhere:
        return "leader" if resource == "leases" else "users"
    if resource in REVIEWS:
        return "intake"
    return "cluster" if resource in CLUSTER_SCOPED else "served"


def read(texts: Iterable[str]) -> list[Mapping[str, Any]]:
    """Return every document of several YAML files."""
    return [document for text in texts for document in yaml.safe_load_all(text) if document]
