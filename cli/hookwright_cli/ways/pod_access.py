"""HTTP to pods through the API server, and access to the intake with a kubeconfig.

The API server's RBAC alone decides: the user needs ``create`` on ``serviceaccounts/token`` and ``pods/portforward``,
and the ServiceAccount needs the rights on the intake. ``HOOKWRIGHT_INTAKE_URL`` and ``HOOKWRIGHT_INTAKE_TOKEN``
replace both, for example inside a pod or beside ``make up``.
"""

import os
from typing import Any

import httpcore
import httpx
from kubernetes.client.exceptions import ApiException

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.ways.cluster_client import ClusterClient, core
from hookwright_cli.ways.resource_forms import condition
from hookwright_cli.ways.service_way import connect

_TOKEN_REQUEST = {
    "apiVersion": "authentication.k8s.io/v1",
    "kind": "TokenRequest",
    "spec": {"audiences": ["hookwright"], "expirationSeconds": 600},
}


class _ForwardedStream(httpcore.NetworkStream):
    """One forwarded connection. A caller handles its OSError and TimeoutError."""

    def __init__(self, forward: Any, connection: Any) -> None:
        self._forward, self._connection = forward, connection

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._connection.settimeout(timeout)
        return bytes(self._connection.recv(max_bytes))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._connection.settimeout(timeout)
        self._connection.sendall(buffer)

    def close(self) -> None:
        self._connection.close()
        self._forward.close()


class PodTransport(httpx.HTTPTransport, httpcore.NetworkBackend):
    """An httpx transport whose connections all lead to one port of one pod."""

    def __init__(self, api: Any, namespace: str, pod: str, port: int) -> None:
        self._pool = httpcore.ConnectionPool(network_backend=self)
        self._api, self._namespace, self._pod, self._port = api, namespace, pod, port

    def connect_tcp(
        self,
        host: str,  # noqa: ARG002 - the protocol of httpcore
        port: int,  # noqa: ARG002
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Any = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        """Open a connection to the port, whatever the URL says."""
        import websocket
        from kubernetes.stream.ws_client import portforward_call

        # The client of Kubernetes gives this connection no timeout.
        websocket.setdefaulttimeout(timeout)
        try:
            # Not by CoreV1Api, whose import takes a second because it loads the models of all kinds.
            path, query = f"{core('pods', self._namespace, self._pod)}/portforward", [("ports", str(self._port))]
            call = self._api.param_serialize("GET", path, query_params=query, auth_settings=["BearerToken"])
            forward = portforward_call(self._api.configuration, *call[:2], headers=call[2])
            forward.websocket.settimeout(None)
            return _ForwardedStream(forward, forward.socket(self._port))
        except (ApiException, OSError) as error:
            reason = str(getattr(error, "reason", None) or error).split("\n", 1)[0].strip()
            raise httpcore.ConnectError(f"port-forward to pod {self._namespace}/{self._pod}: {reason}") from None


def connect_intake(cluster: ClusterClient, installation: str, account: str, prefix: str) -> tuple[str, httpx.Client]:
    """Return the name of the intake and its client, with the rights of ``[NAMESPACE/]NAME`` of a ServiceAccount."""
    token = os.environ.get("HOOKWRIGHT_INTAKE_TOKEN") or _token(cluster, installation, account)
    header = {"Authorization": f"Bearer {token}"}
    if url := os.environ.get("HOOKWRIGHT_INTAKE_URL"):
        return connect(f"the intake at {url}", url.rstrip("/") + prefix, header)
    pod, port = _pod_of_intake(cluster, installation)
    transport = PodTransport(cluster.api, installation, pod, port)
    return connect(f"the intake in pod {installation}/{pod}", f"http://intake{prefix}", header, transport)


def _token(cluster: ClusterClient, installation: str, account: str) -> str:
    namespace, _, name = account.rpartition("/")
    path = f"{core('serviceaccounts', namespace or installation, name)}/token"
    try:
        return str(cluster.request("POST", path, body=_TOKEN_REQUEST)["status"]["token"])
    except CommandError as error:
        if error.code is ExitCode.NOT_FOUND:
            error.hint = "`hookwright support-account` makes one; --service-account names another"
        raise


def _pod_of_intake(cluster: ClusterClient, installation: str) -> tuple[str, int]:
    """Return a ready pod with an intake, and the port of the intake; the operator is preferred."""
    intakes: list[tuple[bool, str, int]] = []
    for pod in cluster.items(core("pods", installation), "app.kubernetes.io/component in (operator, delivery)"):
        meta = pod["metadata"]
        if condition(pod, "Ready").get("status") == "True" and not meta.get("deletionTimestamp"):
            delivers = meta["labels"]["app.kubernetes.io/component"] == "delivery"
            intakes += [(delivers, meta["name"], port) for port in ports_of(pod, "intake")]
    if not intakes:
        raise CommandError(
            f"no ready pod of the operator in namespace {installation}",
            ExitCode.UNAVAILABLE,
            hint="`hookwright status` shows the reason; --installation names another namespace",
        )
    return min(intakes)[1:]


def ports_of(pod: dict[str, Any], name: str) -> list[int]:
    """Return the ports of a pod that have a name."""
    ports = [port for container in pod["spec"]["containers"] for port in container.get("ports") or ()]
    return [port["containerPort"] for port in ports if port.get("name") == name]
