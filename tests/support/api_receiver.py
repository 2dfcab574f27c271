"""A receiver of deliveries in a thread, for synchronous tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest


@dataclass(slots=True)
class Received:
    """The received requests and the answer to send.

    Attributes:
        body: of the answer.
        header: value of the answer's header X-Answer, absent if empty.
        requests: path, headers by lower-case name, and body of each.
    """

    url: str
    status: int = 200
    body: bytes = b""
    header: str = ""
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)


@contextmanager
def receiving() -> Iterator[Received]:
    """Receive on loopback inside the context."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request.requests.append((self.path, headers, body))
            self.send_response(request.status)
            if request.header:
                self.send_header("X-Answer", request.header)
            answer = request.body
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    request = Received(f"http://127.0.0.1:{server.server_port}")
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield request
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def receiver() -> Iterator[Received]:
    """Yield a receiver of deliveries that answers 200."""
    with receiving() as requests:
        yield requests
