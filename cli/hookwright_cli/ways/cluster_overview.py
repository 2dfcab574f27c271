"""The state of an installation for ``status``, and the metrics of its pods for ``metrics``."""

import os
from collections.abc import Iterator
from typing import Any

import httpx

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.deadline import DEADLINE
from hookwright_cli.ways.cluster_client import APPS, ClusterClient, core, resources
from hookwright_cli.ways.pod_access import PodTransport, ports_of
from hookwright_cli.ways.resource_forms import condition, endpoint_document
from hookwright_cli.ways.service_way import Document

COMPONENTS = "app.kubernetes.io/component in (operator, delivery, api)"
"""Selects the pods and Deployments of an installation."""
_METRICS_SECONDS = 20.0


def overview_of(cluster: ClusterClient, installation: str, namespace: str) -> Document:
    """Return the components of an installation, and projects with endpoints of an organization; empty for all."""
    projects: dict[tuple[str, str], Document] = {}
    for resource in _listed(cluster, "projects", namespace):
        meta, ready = resource["metadata"], condition(resource, "Ready")
        projects[meta["namespace"], meta["name"]] = {
            "namespace": meta["namespace"],
            "name": meta["name"],
            "exists": True,
            "ready": ready.get("status") == "True",
            "message": ready.get("message", "the operator has not reconciled it yet"),
            "endpoints": [],
        }
    for resource in _listed(cluster, "webhookendpoints", namespace):
        place = (resource["metadata"]["namespace"], resource["spec"]["projectRef"]["name"])
        missing = {"namespace": place[0], "name": place[1], "exists": False, "ready": False}
        missing["message"] = "it does not exist, but endpoints name it"
        project = projects.setdefault(place, {**missing, "endpoints": []})
        project["endpoints"].append({**endpoint_document(resource), "namespace": place[0]})
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
    components = [_component(deployment, pods) for deployment in deployments]
    if not components and (url := os.environ.get("HOOKWRIGHT_INTAKE_URL")):
        return [_answering(url)]
    return components or [{"name": "operator", "state": "missing", "message": f"no Deployment in {installation}"}]


def _component(deployment: dict[str, Any], pods: list[dict[str, Any]]) -> Document:
    spec, name = deployment["spec"], deployment["metadata"]["name"]
    labels = spec["selector"]["matchLabels"]
    members = [pod for pod in pods if labels.items() <= (pod["metadata"].get("labels") or {}).items()]
    replicas, ready = spec.get("replicas", 1), (deployment.get("status") or {}).get("readyReplicas", 0)
    state = "ready" if ready >= replicas > 0 else "stopped" if replicas == 0 else "unready"
    message = "; ".join(sorted({reason for pod in members if (reason := _waiting(pod))}))
    if state == "unready" and not message:
        message = str(condition(deployment, "Available").get("message", "no pod is ready"))
    return {
        "name": labels.get("app.kubernetes.io/component", name),
        "deployment": name,
        "state": state,
        "ready": ready,
        "wanted": replicas,
        "image": spec["template"]["spec"]["containers"][0]["image"],
        "restarts": sum(status.get("restartCount", 0) for pod in members for status in _containers(pod)),
        "message": message if state != "ready" else "",
    }


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return pod["status"].get("containerStatuses") or []


def _waiting(pod: dict[str, Any]) -> str:
    """Return why a pod does not run, empty if it does."""
    for status in _containers(pod):
        waiting = (status.get("state") or {}).get("waiting")
        if waiting and waiting.get("reason") != "ContainerCreating":
            return f"{waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
    scheduling = condition(pod, "PodScheduled")
    return f"{scheduling.get('reason')}: {scheduling.get('message')}" if scheduling.get("status") == "False" else ""


def _answering(url: str) -> Document:
    """Return an operator that is no Deployment, such as that of ``make up``."""
    try:
        httpx.get(url, timeout=5.0, trust_env=False)
    except httpx.HTTPError as error:
        return {"name": "operator", "state": "unready", "message": f"{url} does not answer: {error}"}
    return {"name": "operator", "state": "ready", "message": f"answers at {url}"}


def pod_metrics(cluster: ClusterClient, installation: str) -> Iterator[Document]:
    """Yield each pod with ``ready``, a ``message`` if it is not ready, and the lines of its ``metrics``."""
    for pod in cluster.items(core("pods", installation), COMPONENTS):
        name, phase, ports = pod["metadata"]["name"], pod["status"].get("phase"), ports_of(pod, "health")
        if ports and phase == "Running":
            yield {"id": name, **_metrics_of(cluster, installation, name, ports[0])}
        else:
            yield {"id": name, "ready": False, "message": f"pod {phase}", "metrics": []}


def _metrics_of(cluster: ClusterClient, namespace: str, pod: str, port: int) -> Document:
    try:
        with (
            DEADLINE.waiting(f"pod {namespace}/{pod}", _METRICS_SECONDS) as seconds,
            httpx.Client(
                transport=PodTransport(cluster.api, namespace, pod, port), base_url="http://pod", timeout=seconds
            ) as client,
        ):
            readiness, metrics = client.get("/readyz"), client.get("/metrics")
    except (httpx.HTTPError, OSError) as error:
        return {"ready": False, "message": f"no answer: {error}", "metrics": []}
    lines = [line for line in metrics.text.splitlines() if not line.startswith("#")]
    ready = readiness.is_success
    return {"ready": ready, "message": "" if ready else readiness.text.strip(), "metrics": lines}
