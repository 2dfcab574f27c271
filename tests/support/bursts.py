"""Requests that arrive at one moment, as a hostile client sends them."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit


class Burst:
    """Requests on connections of their own, of which each lacks its last byte until `send`."""

    def __init__(self, connections: list[socket.socket], last: bytes) -> None:
        self._connections = connections
        self._last = last

    def send(self) -> None:
        """Complete all requests, except those that the server has refused already."""
        for connection in self._connections:
            with suppress(ConnectionError):
                connection.sendall(self._last)

    def first_status(self) -> int:
        """Return the status code of the answer to the first request."""
        return int(self._connections[0].recv(4096).split(b" ", 2)[1])


@contextmanager
def burst(url: str, body: bytes, headers: Mapping[str, str], number: int) -> Iterator[Burst]:
    """Yield equal POST requests that are ready to be completed."""
    parts = urlsplit(url)
    fields = {"Host": parts.netloc, "Content-Length": str(len(body)), **headers}
    lines = [f"POST {parts.path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    request = "\r\n".join(lines).encode() + body
    with ExitStack() as stack:
        connections = []
        for _ in range(number):
            connection = socket.create_connection((str(parts.hostname), parts.port or 80), timeout=60)
            connections.append(stack.enter_context(connection))
            connection.sendall(request[:-1])
        yield Burst(connections, request[-1:])
