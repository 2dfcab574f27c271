"""Readiness and metrics of the pods of an installation, through forwarded ports."""

from collections.abc import Iterator
from typing import Any

from hookwright_cli.deadline import DEADLINE
from hookwright_cli.ways.cluster_client import ClusterClient, core
from hookwright_cli.ways.cluster_overview import COMPONENTS
from hookwright_cli.ways.service_way import Document

_SECONDS = 20.0


def pod_metrics(cluster: ClusterClient, installation: str) -> Iterator[Document]:
    """Yield each pod with ``ready``, a ``message`` if it is not ready, and the lines of its ``metrics``."""
    for pod in cluster.items(core("pods", installation), COMPONENTS):
        name, ports = pod["metadata"]["name"], _ports(pod)
        if ports and pod["status"].get("phase") == "Running":
            yield {"id": name, **_answers(cluster, installation, name, ports[0])}
        else:
            yield {"id": name, "ready": False, "message": f"pod {pod['status'].get('phase')}", "metrics": []}


def _ports(pod: dict[str, Any]) -> list[int]:
    listed = [one for container in pod["spec"]["containers"] for one in container.get("ports") or ()]
    return [one["containerPort"] for one in listed if one.get("name") == "health"]


def _answers(cluster: ClusterClient, namespace: str, pod: str, port: int) -> Document:
    import httpx
    from kubernetes.client import CoreV1Api

    from hookwright_cli.ways.port_forward import PodTransport

    transport = PodTransport(CoreV1Api(cluster.api), namespace, pod, port)
    try:
        with (
            DEADLINE.waiting(f"pod {namespace}/{pod}", _SECONDS) as seconds,
            httpx.Client(transport=transport, base_url="http://pod", timeout=seconds) as client,
        ):
            readiness, metrics = client.get("/readyz"), client.get("/metrics")
    except (httpx.HTTPError, OSError) as error:
        return {"ready": False, "message": f"no answer: {error}", "metrics": []}
    lines = [line for line in metrics.text.splitlines() if not line.startswith("#")]
    ready = readiness.is_success
    return {"ready": ready, "message": "" if ready else readiness.text.strip(), "metrics": lines}
