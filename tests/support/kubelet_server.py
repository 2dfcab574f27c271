"""The HTTPS port of a kubelet: the API server forwards logs, exec and port-forward of pods to it.

Exec and port-forward use WebSockets. The API server passes them on unchanged with `FLAGS`. kubectl needs SPDY for
port-forward, which this server refuses; `node_commands` does it for kubectl.
"""

import json
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import parse_qs, urlsplit

from support.node_commands import in_the_pod
from websockets import Subprotocol
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve

HOST: Final = "127.0.0.1"
FLAGS: Final = ["--feature-gates=TranslateStreamCloseWebsocketRequests=false"]
"""Of the API server, which otherwise translates the exec of newer clients into SPDY."""
_PROTOCOLS: Final = [Subprotocol("v5.channel.k8s.io"), Subprotocol("v4.channel.k8s.io")]
_STDIN, _STDOUT, _STDERR, _STATUS, _CLOSE = b"\0", b"\1", b"\2", b"\3", b"\xff"
_CHUNK: Final = 32 * 1024


class KubeletServer:
    """Logs, exec and port-forward of the pods of one namespace, which are processes of this machine.

    Args:
        process_of: returns the process of a pod, described as for `node_commands`.
    """

    def __init__(self, process_of: Callable[[str], Mapping[str, Any]]) -> None:
        self._process_of = process_of

    @contextmanager
    def running(self, certificate: Path, key: Path) -> Iterator[int]:
        """Serve inside the context; yield the port."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server: Server
        with serve(
            self._stream, HOST, 0, ssl=context, subprotocols=_PROTOCOLS, process_request=self._answer, max_size=None
        ) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield int(server.socket.getsockname()[1])
            finally:
                server.shutdown()
                thread.join()

    def _answer(self, _: ServerConnection, request: Request) -> Response | None:
        """Answer a request for logs; None lets the WebSocket begin."""
        parts = urlsplit(request.path)
        action, _namespace, pod = parts.path.strip("/").split("/")[:3]
        if action != "containerLogs":
            return None
        log = Path(self._process_of(pod)["log"])
        lines = log.read_bytes().splitlines(keepends=True) if log.exists() else []
        tail = int(parse_qs(parts.query).get("tailLines", ["0"])[0])
        body = b"".join(lines[-tail:])
        headers = Headers({"Content-Type": "text/plain", "Content-Length": str(len(body)), "Connection": "close"})
        return Response(200, "OK", headers, body)

    def _stream(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        parts = urlsplit(connection.request.path)
        action, _namespace, pod = parts.path.strip("/").split("/")[:3]
        arguments = parse_qs(parts.query)
        try:
            if action == "exec":
                self._exec(connection, pod, arguments["command"], stdin="input" in arguments)
            else:
                self._forward(connection, pod, arguments["port"][0])
        except ConnectionClosed:
            pass

    def _exec(self, connection: ServerConnection, pod: str, command: list[str], *, stdin: bool) -> None:
        """Run a command of a pod here; the last message has its exit code."""
        description = self._process_of(pod)
        process = subprocess.Popen(
            in_the_pod(description, command),
            env={**os.environ, **description["env"]},
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        pumps = [
            threading.Thread(target=_pump, args=(connection, channel, source))
            for channel, source in ((_STDOUT, process.stdout), (_STDERR, process.stderr))
        ]
        feeds = [threading.Thread(target=_feed, args=(connection, process.stdin))] if process.stdin is not None else []
        for thread in (*pumps, *feeds):
            thread.start()
        for pump in pumps:
            pump.join()
        cause = {"reason": "ExitCode", "message": str(process.wait())}
        status = {"status": "Success"}
        if process.returncode:
            status = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [cause]}}  # type: ignore[dict-item]
        try:
            connection.send(_STATUS + json.dumps(status).encode())
        finally:
            connection.close()
            for feed in feeds:
                feed.join()

    def _forward(self, connection: ServerConnection, pod: str, port: str) -> None:
        """Relay bytes between channel 0 and the port of the pod's process; channel 1 is for errors."""
        number = int(port).to_bytes(2, "little")
        connection.send(b"\0" + number)
        connection.send(b"\1" + number)
        with socket.create_connection((HOST, self._process_of(pod)["ports"][port])) as target:
            relay = threading.Thread(target=_relay, args=(connection, target))
            relay.start()
            try:
                for message in connection:
                    assert isinstance(message, bytes)
                    target.sendall(message[1:])
            finally:
                with suppress(OSError):
                    target.shutdown(socket.SHUT_RDWR)
                relay.join()


def _pump(connection: ServerConnection, channel: bytes, source: IO[bytes]) -> None:
    """Send the output of a process until it ends, even if the reader has gone."""
    is_gone = False
    with source:
        while part := source.read1(_CHUNK):  # type: ignore[attr-defined]
            try:
                if not is_gone:
                    connection.send(channel + part)
            except ConnectionClosed:
                is_gone = True


def _feed(connection: ServerConnection, target: IO[bytes]) -> None:
    """Write messages to the standard input of a process until the client closes it or goes, or the process ends."""
    with suppress(ConnectionClosed, OSError), target:
        for message in connection:
            assert isinstance(message, bytes)
            if message == _CLOSE + _STDIN:
                return
            if message[:1] == _STDIN:
                target.write(message[1:])
                target.flush()


def _relay(connection: ServerConnection, source: socket.socket) -> None:
    with suppress(ConnectionClosed, OSError):
        while part := source.recv(_CHUNK):
            connection.send(b"\0" + part)
    connection.close()
