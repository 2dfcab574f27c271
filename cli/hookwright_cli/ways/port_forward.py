"""HTTP to a port of a pod, through the API server: the right ``create`` on ``pods/portforward`` suffices."""

import socket
from typing import Any

import httpcore
import httpx


class _ForwardedStream(httpcore.NetworkStream):
    """One forwarded connection."""

    def __init__(self, forward: Any, connection: Any) -> None:
        self._forward, self._connection = forward, connection

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._connection.settimeout(timeout)
        try:
            return bytes(self._connection.recv(max_bytes))
        except TimeoutError:
            raise httpcore.ReadTimeout("the forwarded port did not answer in time") from None
        except OSError as error:
            raise httpcore.ReadError(str(error)) from None

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._connection.settimeout(timeout)
        try:
            self._connection.sendall(buffer)
        except TimeoutError:
            raise httpcore.WriteTimeout("the forwarded port did not read in time") from None
        except OSError as error:
            raise httpcore.WriteError(str(error)) from None

    def close(self) -> None:
        self._connection.close()
        self._forward.close()

    def get_extra_info(self, info: str) -> Any:  # noqa: ARG002
        return None


class _ForwardingBackend(httpcore.NetworkBackend):
    """Connections to one port of one pod, whatever the URL says."""

    def __init__(self, core: Any, namespace: str, pod: str, port: int) -> None:
        self._core, self._namespace, self._pod, self._port = core, namespace, pod, port

    def connect_tcp(
        self,
        host: str,  # noqa: ARG002 - the protocol of httpcore
        port: int,  # noqa: ARG002
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Any = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        import websocket
        from kubernetes.client.exceptions import ApiException
        from kubernetes.stream import portforward

        # The client of Kubernetes gives this connection no timeout.
        websocket.setdefaulttimeout(timeout)
        try:
            forward = portforward(
                self._core.connect_get_namespaced_pod_portforward, self._pod, self._namespace, ports=str(self._port)
            )
            forward.websocket.settimeout(None)
            connection = forward.socket(self._port)
        except ApiException as error:
            reason = (error.reason or "").split("\n", 1)[0].strip()
            raise httpcore.ConnectError(f"port-forward to pod {self._namespace}/{self._pod}: {reason}") from None
        except (OSError, socket.gaierror) as error:
            raise httpcore.ConnectError(f"port-forward to pod {self._namespace}/{self._pod}: {error}") from None
        return _ForwardedStream(forward, connection)


class PodTransport(httpx.BaseTransport):
    """An httpx transport to a port of a pod."""

    def __init__(self, core: Any, namespace: str, pod: str, port: int) -> None:
        self._pool = httpcore.ConnectionPool(network_backend=_ForwardingBackend(core, namespace, pod, port))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and read its whole answer."""
        try:
            answer = self._pool.handle_request(
                httpcore.Request(
                    request.method,
                    httpcore.URL(
                        scheme=request.url.raw_scheme,
                        host=request.url.raw_host,
                        port=request.url.port,
                        target=request.url.raw_path,
                    ),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
            content = b"".join(answer.iter_stream())
            answer.close()
        except httpcore.TimeoutException as error:
            raise httpx.ReadTimeout(str(error)) from None
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise httpx.ConnectError(str(error)) from None
        return httpx.Response(answer.status, headers=answer.headers, content=content)

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()
