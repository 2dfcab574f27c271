"""The state of an installation for ``status``, and the metrics of its pods for ``metrics``."""

import os
from collections.abc import Iterator
from typing import Any

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.deadline import DEADLINE
from hookwright_cli.ways.cluster_client import APPS, ClusterClient, core, resources
from hookwright_cli.ways.endpoint_form import condition, endpoint_document
from hookwright_cli.ways.service_way import Document

COMPONENTS = "app.kubernetes.io/component in (operator, delivery, api)"
"""Selects the pods and Deployments of an installation."""
_METRICS_SECONDS = 20.0


def overview_of(cluster: ClusterClient, installation: str, namespace: str) -> Document:
    """Return components, projects and endpoints.

    Args:
        cluster: the cluster.
        installation: the namespace of Hookwright.
        namespace: the organization; empty for all.
    """
    projects: dict[tuple[str, str], Document] = {}
    for one in _listed(cluster, "projects", namespace):
        place = (one["metadata"]["namespace"], one["metadata"]["name"])
        projects[place] = {
            "namespace": place[0],
            "name": place[1],
            "exists": True,
            "ready": condition(one, "Ready").get("status") == "True",
            "message": condition(one, "Ready").get("message", "the operator has not reconciled it yet"),
            "endpoints": [],
        }
    for one in _listed(cluster, "webhookendpoints", namespace):
        place = (one["metadata"]["namespace"], one["spec"]["projectRef"]["name"])
        missing = {"namespace": place[0], "name": place[1], "exists": False, "ready": False}
        missing["message"] = "it does not exist, but endpoints name it"
        known = projects.setdefault(place, {**missing, "endpoints": []})
        known["endpoints"].append({**endpoint_document(one), "namespace": place[0]})
    return {
        "way": "kubeconfig",
        "cluster": cluster.name,
        "installation": installation,
        "namespace": namespace or None,
        "components": _components(cluster, installation),
        "projects": [projects[place] for place in sorted(projects)],
    }


def _listed(cluster: ClusterClient, plural: str, namespace: str) -> list[dict[str, Any]]:
    try:
        return list(cluster.items(resources(plural, namespace)))
    except CommandError as error:
        if error.code is ExitCode.NOT_FOUND:
            error.hint = "the resource definitions of Hookwright are not installed in this cluster: docs/install.md"
        elif error.code is ExitCode.FORBIDDEN and not namespace:
            error.hint = "name the namespace that you may read: hookwright status -n NAMESPACE"
        raise


def _components(cluster: ClusterClient, installation: str) -> list[Document]:
    try:
        deployments = list(cluster.items(core("deployments", installation, group=APPS), COMPONENTS))
        pods = list(cluster.items(core("pods", installation), COMPONENTS))
    except CommandError as error:
        if error.code is not ExitCode.FORBIDDEN:
            raise
        return [{"name": "operator", "state": "unknown", "message": str(error)}]
    found = [_component(one, pods) for one in deployments]
    if not found and (url := os.environ.get("HOOKWRIGHT_INTAKE_URL")):
        return [_answering(url)]
    return found or [{"name": "operator", "state": "missing", "message": f"no Deployment in {installation}"}]


def _component(deployment: dict[str, Any], pods: list[dict[str, Any]]) -> Document:
    labels = deployment["spec"]["selector"]["matchLabels"]
    own = [pod for pod in pods if labels.items() <= (pod["metadata"].get("labels") or {}).items()]
    wanted = deployment["spec"].get("replicas", 1)
    ready = (deployment.get("status") or {}).get("readyReplicas", 0)
    reasons = sorted({reason for pod in own if (reason := _waiting(pod))})
    message = "; ".join(reasons)
    if ready < wanted and not message:
        unavailable = condition(deployment, "Available")
        message = str(unavailable.get("message", "no pod is ready"))
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    state = "ready" if ready >= wanted > 0 else "stopped" if wanted == 0 else "unready"
    return {
        "name": labels.get("app.kubernetes.io/component", deployment["metadata"]["name"]),
        "deployment": deployment["metadata"]["name"],
        "state": state,
        "ready": ready,
        "wanted": wanted,
        "image": image,
        "restarts": sum(
            status.get("restartCount", 0) for pod in own for status in pod["status"].get("containerStatuses") or ()
        ),
        "message": message if state != "ready" else "",
    }


def _waiting(pod: dict[str, Any]) -> str:
    """Return why a pod does not run, empty if it does."""
    for status in pod["status"].get("containerStatuses") or ():
        waiting = (status.get("state") or {}).get("waiting")
        if waiting and waiting.get("reason") != "ContainerCreating":
            return f"{waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
    scheduled = condition(pod, "PodScheduled")
    return f"{scheduled.get('reason')}: {scheduled.get('message')}" if scheduled.get("status") == "False" else ""


def _answering(url: str) -> Document:
    """Return an operator that is no Deployment, such as that of ``make up``."""
    import httpx

    try:
        httpx.get(url, timeout=5.0, trust_env=False)
    except httpx.HTTPError as error:
        return {"name": "operator", "state": "unready", "message": f"{url} does not answer: {error}"}
    return {"name": "operator", "state": "ready", "message": f"answers at {url}"}


def pod_metrics(cluster: ClusterClient, installation: str) -> Iterator[Document]:
    """Yield each pod with ``ready``, a ``message`` if it is not ready, and the lines of its ``metrics``."""
    for pod in cluster.items(core("pods", installation), COMPONENTS):
        name, ports = pod["metadata"]["name"], _ports(pod)
        if ports and pod["status"].get("phase") == "Running":
            yield {"id": name, **_metrics_of(cluster, installation, name, ports[0])}
        else:
            yield {"id": name, "ready": False, "message": f"pod {pod['status'].get('phase')}", "metrics": []}


def _ports(pod: dict[str, Any]) -> list[int]:
    listed = [one for container in pod["spec"]["containers"] for one in container.get("ports") or ()]
    return [one["containerPort"] for one in listed if one.get("name") == "health"]


def _metrics_of(cluster: ClusterClient, namespace: str, pod: str, port: int) -> Document:
    import httpx
    from kubernetes.client import CoreV1Api

    from hookwright_cli.ways.port_forward import PodTransport

    transport = PodTransport(CoreV1Api(cluster.api), namespace, pod, port)
    try:
        with (
            DEADLINE.waiting(f"pod {namespace}/{pod}", _METRICS_SECONDS) as seconds,
            httpx.Client(transport=transport, base_url="http://pod", timeout=seconds) as client,
        ):
            readiness, metrics = client.get("/readyz"), client.get("/metrics")
    except (httpx.HTTPError, OSError) as error:
        return {"ready": False, "message": f"no answer: {error}", "metrics": []}
    lines = [line for line in metrics.text.splitlines() if not line.startswith("#")]
    ready = readiness.is_success
    return {"ready": ready, "message": "" if ready else readiness.text.strip(), "metrics": lines}
