"""Pure: what the processes may do, taken from the manifests that development and its tests run with.

A rule about namespaced resources can be granted in a namespace alone; the others need a ClusterRole in any case. Where
an installation serves some namespaces only, the two kinds part.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import yaml

Rule: TypeAlias = dict[str, Any]
Roles: TypeAlias = dict[str, dict[str, list[Rule]]]

REVIEWS: Final = frozenset({"tokenreviews", "subjectaccessreviews"})
CLUSTER_SCOPED: Final = REVIEWS | {"namespaces", "customresourcedefinitions"}
_PLACES: Final = ("cluster", "intake", "served", "own", "leader")
_PREFIX: Final = "hookwright-"


class RbacError(ValueError):
    """The manifests hold a rule that the chart cannot take over; the message says which."""


def roles(documents: Iterable[Mapping[str, Any]]) -> Roles:
    """Return rules by role and by where they hold.

    The roles are named without ``hookwright-``; each has ``cluster`` (needs a ClusterRole), ``intake`` (the same, but
    only for who takes events in), ``served`` (every namespace that is served), ``own`` (the installation's namespace)
    and ``leader`` (the same, but only where processes settle by a Lease who leads).

    Raises:
        RbacError: a rule mixes resources of namespaces and of the cluster.
    """
    found: Roles = {}
    for document in documents:
        if document["kind"] not in {"ClusterRole", "Role"}:
            continue
        name = document["metadata"]["name"].removeprefix(_PREFIX)
        places = found.setdefault(name, {place: [] for place in _PLACES})
        for rule in document["rules"]:
            places[_place(name, rule, everywhere=document["kind"] == "ClusterRole")].append(rule)
    return found


def _place(name: str, rule: Rule, *, everywhere: bool) -> str:
    wanted = {_place_of(resource, everywhere=everywhere) for resource in rule["resources"]}
    if len(wanted) > 1:
        raise RbacError(
            f"role {name}: the rule for {', '.join(rule['resources'])} mixes what is granted in different places "
            f"({', '.join(sorted(wanted))}); write a rule for each"
        )
    return wanted.pop()


def _place_of(resource: str, *, everywhere: bool) -> str:
    if not everywhere:
        return "leader" if resource == "leases" else "own"
    if resource in REVIEWS:
        return "intake"
    return "cluster" if resource in CLUSTER_SCOPED else "served"


def read(texts: Iterable[str]) -> list[Mapping[str, Any]]:
    """Return every document of several YAML files."""
    return [document for text in texts for document in yaml.safe_load_all(text) if document]
