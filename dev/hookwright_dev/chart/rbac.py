"""Pure: what the processes may do, taken from the manifests that development and its tests run with.

A rule about namespaced resources can be granted in a namespace alone; the others need a ClusterRole in any case. Where
an installation serves some namespaces only, the two kinds part.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import yaml

Rule: TypeAlias = dict[str, Any]
Roles: TypeAlias = dict[str, dict[str, list[Rule]]]

CLUSTER_SCOPED: Final = frozenset({"tokenreviews", "subjectaccessreviews", "namespaces", "customresourcedefinitions"})
_PREFIX: Final = "hookwright-"


class RbacError(ValueError):
    """The manifests hold a rule that the chart cannot take over; the message says which."""


def roles(documents: Iterable[Mapping[str, Any]]) -> Roles:
    """Return rules by role and by where they hold.

    The roles are named without ``hookwright-``; each has ``cluster`` (needs a ClusterRole), ``served`` (every namespace
    that is served) and ``own`` (the installation's namespace).

    Raises:
        RbacError: a rule mixes resources of namespaces and of the cluster.
    """
    found: Roles = {}
    for document in documents:
        if document["kind"] not in {"ClusterRole", "Role"}:
            continue
        name = document["metadata"]["name"].removeprefix(_PREFIX)
        places = found.setdefault(name, {"cluster": [], "served": [], "own": []})
        for rule in document["rules"]:
            places["own" if document["kind"] == "Role" else _place(name, rule)].append(rule)
    return found


def _place(name: str, rule: Rule) -> str:
    cluster_scoped = {resource in CLUSTER_SCOPED for resource in rule["resources"]}
    if len(cluster_scoped) > 1:
        raise RbacError(
            f"role {name}: the rule for {', '.join(rule['resources'])} mixes namespaced and cluster-scoped resources; "
            "write two rules"
        )
    return "cluster" if cluster_scoped.pop() else "served"


def read(texts: Iterable[str]) -> list[Mapping[str, Any]]:
    """Return every document of several YAML files."""
    return [document for text in texts for document in yaml.safe_load_all(text) if document]
