"""The rules by which GitOps tools judge live objects, written after their sources.

- ``prunes``: Argo CD's gitops-engine, ``pkg/cache/cluster.go``, ``GetManagedLiveObjs``: an object is considered for
  pruning only if it carries the application's mark and ``len(o.OwnerRefs) == 0``.
- ``kstatus``: Flux's and kpt's status, sigs.k8s.io/cli-utils, ``pkg/kstatus/status/generic.go`` and ``core.go``.
"""

from collections.abc import Iterable, Mapping
from typing import Any

APPLICATION = "app.kubernetes.io/instance"
"""The label by which Argo CD marks the objects of an application."""

Object = Mapping[str, Any]


def prunes(live: Iterable[Object], application: str, declared: Iterable[Object]) -> list[tuple[str, str]]:
    """Return kind and name of the live objects that Argo CD deletes, because Git does not declare them any more."""
    expected = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in declared}
    applied_objects = [
        manifest
        for manifest in live
        if manifest["metadata"].get("labels", {}).get(APPLICATION) == application
        and not manifest["metadata"].get("ownerReferences")
    ]
    names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in applied_objects]
    return [name for name in names if name not in expected]


def kstatus(live: Object) -> str:
    """Return Terminating, InProgress, Failed or Current."""
    metadata, status = live["metadata"], live.get("status") or {}
    if metadata.get("deletionTimestamp"):
        return "Terminating"
    if "observedGeneration" in status and status["observedGeneration"] != metadata.get("generation"):
        return "InProgress"
    conditions = {condition["type"]: condition["status"] for condition in status.get("conditions", [])}
    if conditions.get("Reconciling") == "True":
        return "InProgress"
    if conditions.get("Stalled") == "True":
        return "Failed"
    return "InProgress" if conditions.get("Ready", "True") != "True" else "Current"
