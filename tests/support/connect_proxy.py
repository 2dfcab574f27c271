"""A real proxy that makes tunnels by CONNECT: tinyproxy."""

import re
from collections.abc import Iterator
from typing import Final

import pytest
from support.local_server import LocalServer

PROXY_ADDRESS: Final = "127.0.0.2"
"""The address that receivers see: the proxy connects from here, and a direct connection on loopback never does."""
_SETTINGS: Final = f"Port PORT\nListen 127.0.0.1\nBind {PROXY_ADDRESS}\nLogLevel Connect\nBasicAuth hooks p.ss\n"


class ConnectProxy(LocalServer):
    """A proxy for the user ``hooks`` with the password ``p.ss``."""

    @property
    def url(self) -> str:
        """The value for HOOKWRIGHT_PROXY_URL; a character of the password is percent-encoded."""
        return f"http://hooks:p%2Ess@{self.address}"

    @property
    def targets(self) -> list[str]:
        """The target of each CONNECT so far."""
        return re.findall(r"CONNECT (\S+) HTTP/1\.1", self.log.read_text())


@pytest.fixture
def connect_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectProxy]:
    """Yield a running proxy."""
    folder = tmp_path_factory.mktemp("tinyproxy")
    with ConnectProxy("connect_proxy", folder, "-d -c settings", _SETTINGS) as proxy:
        yield proxy
