"""Access to the intake with a kubeconfig: a token of a ServiceAccount, and a forwarded port.

The API server's RBAC alone decides: the user needs ``create`` on ``serviceaccounts/token`` and ``pods/portforward``,
and the ServiceAccount needs the rights on the intake. ``HOOKWRIGHT_INTAKE_URL`` and ``HOOKWRIGHT_INTAKE_TOKEN``
replace both, for example inside a pod or beside ``make up``.
"""

import os
from typing import Any

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.ways.cluster_client import ClusterClient, core
from hookwright_cli.ways.http_caller import HttpCaller

AUDIENCE = "hookwright"
PODS = "app.kubernetes.io/component in (operator, delivery)"
_TOKEN_SECONDS = 600


def open_intake(cluster: ClusterClient, installation: str, account: str, prefix: str) -> HttpCaller:
    """Return a client of the intake.

    Args:
        cluster: the cluster.
        installation: the namespace of the installation.
        account: ``NAME`` of a ServiceAccount in that namespace, or ``NAMESPACE/NAME``.
        prefix: of the path of each request.
    """
    token = os.environ.get("HOOKWRIGHT_INTAKE_TOKEN") or _token(cluster, installation, account)
    header = {"Authorization": f"Bearer {token}"}
    if url := os.environ.get("HOOKWRIGHT_INTAKE_URL"):
        return HttpCaller(url.rstrip("/") + prefix, header, place=f"the intake at {url}")
    from kubernetes.client import CoreV1Api

    from hookwright_cli.ways.port_forward import PodTransport

    pod, port = _pod_of_intake(cluster, installation)
    transport = PodTransport(CoreV1Api(cluster.api), installation, pod, port)
    place = f"the intake in pod {installation}/{pod}"
    return HttpCaller(f"http://intake{prefix}", header, transport=transport, place=place)


def _token(cluster: ClusterClient, installation: str, account: str) -> str:
    namespace, _, name = account.rpartition("/")
    namespace = namespace or installation
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": [AUDIENCE], "expirationSeconds": _TOKEN_SECONDS},
    }
    try:
        answer = cluster.request("POST", core("serviceaccounts", namespace, name) + "/token", body=body)
    except CommandError as error:
        if error.code is ExitCode.NOT_FOUND:
            error.hint = "`hookwright support-account` makes one; --service-account names another"
        raise
    return str(answer["status"]["token"])


def _pod_of_intake(cluster: ClusterClient, installation: str) -> tuple[str, int]:
    """Return a ready pod with an intake, and the port of the intake."""
    found: list[tuple[bool, str, int]] = []
    for pod in cluster.items(core("pods", installation), PODS):
        if not is_ready(pod) or pod["metadata"].get("deletionTimestamp"):
            continue
        delivers = pod["metadata"]["labels"]["app.kubernetes.io/component"] == "delivery"
        for container in pod["spec"]["containers"]:
            ports = [one["containerPort"] for one in container.get("ports") or () if one.get("name") == "intake"]
            found += [(not delivers, pod["metadata"]["name"], port) for port in ports]
    if not found:
        raise CommandError(
            f"no ready pod of the operator in namespace {installation}",
            ExitCode.UNAVAILABLE,
            hint="`hookwright status` shows the reason; --installation names another namespace",
        )
    _, name, port = min(found)
    return name, port


def is_ready(pod: dict[str, Any]) -> bool:
    """Return whether a pod is Ready."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
