"""Evidence from the cluster about a failed test."""

from typing import Final

from e2e.installing import NAMESPACE

from hookwright_dev.cluster.kubectl import Cluster

LOG_LINES: Final = 60


def evidence(cluster: Cluster) -> list[tuple[str, str]]:
    """Return titles and texts: the objects, Events, descriptions and logs of the installation and its organizations."""
    parts = [("kubectl get hookwright -A -o wide", _tell(cluster, "get", "hookwright", "-A", "-o", "wide"))]
    names = _tell(cluster, "get", "namespaces", "-o", "jsonpath={.items[*].metadata.name}").split()
    for namespace in [name for name in names if name == NAMESPACE or name.startswith("e2e-")]:
        here = ("-n", namespace)
        parts += [
            (f"objects in {namespace}", _tell(cluster, "get", "all,pvc,pdb", "-o", "wide", *here)),
            (f"Events in {namespace}", _tell(cluster, "get", "events", "--sort-by=.lastTimestamp", *here)),
        ]
        for pod in _tell(cluster, "get", "pods", "-o", "name", *here).split():
            logs = ("logs", pod, "--all-containers", f"--tail={LOG_LINES}", *here)
            parts += [
                (f"{pod} in {namespace}", _tell(cluster, "describe", pod, "--show-events=false", *here)),
                (f"log of {pod}", _tell(cluster, *logs)),
                (f"log of {pod} before its restart", _tell(cluster, *logs, "--previous")),
            ]
    return [(title, text) for title, text in parts if text.strip()]


def _tell(cluster: Cluster, *arguments: str) -> str:
    """Return kubectl's output with its errors, except the error that a pod had no restart."""
    result = cluster.kubectl(*arguments, check=False, timeout=30)
    return result.stdout if "--previous" in arguments else result.stdout + result.stderr
