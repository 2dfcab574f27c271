"""A receiver with https and a private authority that wants a client certificate; it runs in threads."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from hookwright_dev.cluster.certificates import Authority, KeyPair


def pem(pair: KeyPair) -> str:
    """Return a certificate with its key."""
    return f"{pair.public.decode()}\n{pair.key.decode()}"


@dataclass
class TlsReceiver:
    """A running receiver.

    Attributes:
        url: where to post to.
        requests: the name in the client certificate and the body of each request.
    """

    url: str
    requests: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def clients(self) -> list[str]:
        """The name in the client certificate of each request."""
        return [name for name, _ in self.requests]


@contextmanager
def tls_receiving(trusted: Authority, folder: Path) -> Iterator[TlsReceiver]:
    """Run a receiver at 127.0.0.1 whose certificate and clients are of an authority; it answers 200."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*trusted.issue("receiver", hosts=["127.0.0.1"]).write(folder, "receiver"))
    context.load_verify_locations(cadata=trusted.pem.decode())
    context.verify_mode = ssl.CERT_REQUIRED

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Record a request."""
            subject = dict(part[0] for part in self.connection.getpeercert()["subject"])
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.requests.append((subject["commonName"], body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads, block_on_close = True, False

        def handle_error(self, request: object, client_address: object) -> None:
            """Print no failed handshake."""

    server = Server(("127.0.0.1", 0), Handler)
    # A handshake in the thread that accepts could block it.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    receiver = TlsReceiver(f"https://127.0.0.1:{server.server_port}/hooks")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
