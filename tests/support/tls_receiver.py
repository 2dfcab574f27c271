"""A real receiver with https and a private authority that wants a client certificate: nginx."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import httpx
import pytest
from support.local_server import LocalServer

from hookwright_dev.cluster.certificates import Authority, KeyPair

_SETTINGS: Final = """
daemon off; pid nginx.pid; worker_processes 1; user root;
events {}
http {
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  log_format requests "$remote_addr $status $ssl_client_s_dn";
  access_log requests.log requests;
  server {
    listen 127.0.0.1:PORT ssl;
    ssl_certificate receiver.crt; ssl_certificate_key receiver.key;
    ssl_client_certificate authority.crt; ssl_verify_client on;
    location / { return 200; }
  }
}
"""


def pem(pair: KeyPair) -> str:
    """Return a certificate with its key."""
    return f"{pair.public.decode()}\n{pair.key.decode()}"


@dataclass(frozen=True, slots=True)
class TlsReceiver:
    """A running receiver at 127.0.0.1.

    Attributes:
        trusted: the authority of its certificate and of its clients.
    """

    trusted: Authority
    server: LocalServer

    @property
    def url(self) -> str:
        """Where to post to."""
        return f"https://{self.server.address}/hooks"

    @property
    def requests(self) -> list[tuple[str, str]]:
        """The sender's address, and the name in its certificate, of each accepted request."""
        # When the only worker has answered this, it has written the lines of all earlier requests.
        assert httpx.get(f"http://{self.server.address}/", trust_env=False).status_code == 400
        text = (self.server.folder / "requests.log").read_text()
        return re.findall(r"^(\S+) 200 CN=([^,]*)", text, re.MULTILINE)

    @property
    def clients(self) -> list[str]:
        """The name in the certificate of each accepted request."""
        return [name for _, name in self.requests]


@pytest.fixture
def tls_receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsReceiver]:
    """Yield a receiver that answers 200 to clients with a certificate, and 400 to others."""
    folder, trusted = tmp_path_factory.mktemp("nginx"), Authority()
    trusted.issue("receiver", hosts=["127.0.0.1"]).write(folder, "receiver")
    (folder / "authority.crt").write_bytes(trusted.pem)
    with LocalServer("tls_receiver", folder, f"-p {folder} -c settings -e stderr", _SETTINGS) as server:
        yield TlsReceiver(trusted, server)
