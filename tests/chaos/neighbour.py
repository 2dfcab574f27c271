"""A second host on this machine: a network namespace behind a link that can be cut.

The namespace has no loopback. Connections to 127.0.0.1 go over the link to this host, and relays forward them to this
host's loopback. A cut link drops packets in both directions without a reset, as a broken network does.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count

from support.tcp_proxy import Proxy

from hookwright_dev import packages

_PACKAGES = {"ip": "iproute2", "nft": "nftables"}
_numbers = count()


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A network namespace.

    Attributes:
        name: the name of the namespace.
        address: its address on the link.
        gateway: this host's address on the link.
    """

    name: str
    address: str
    gateway: str

    @property
    def command(self) -> Sequence[str]:
        """Return the command prefix that runs a program in the namespace."""
        return ("ip", "netns", "exec", self.name)

    @asynccontextmanager
    async def reaching(self, *ports: int) -> AsyncIterator[None]:
        """Relay these ports of 127.0.0.1 while the block runs."""
        async with AsyncExitStack() as stack:
            for port in ports:
                relay = Proxy("127.0.0.1", port)
                stack.callback(relay.close)
                server = await asyncio.start_server(relay.serve, self.gateway, port)
                stack.callback(server.close)
            yield

    def lose(self, *ports: int) -> None:
        """Drop all packets to and from these ports of this host."""
        listing = ", ".join(map(str, ports))
        _run(
            *self.command,
            "nft",
            "add table inet cut;"
            "add chain inet cut out { type filter hook output priority 0; };"
            "add chain inet cut in { type filter hook input priority 0; };"
            f"add rule inet cut out tcp dport {{ {listing} }} drop;"
            f"add rule inet cut in tcp sport {{ {listing} }} drop",
        )

    def find(self) -> None:
        """Stop dropping packets."""
        _run(*self.command, "nft", "delete table inet cut")


@contextmanager
def neighbour() -> Iterator[Neighbour]:
    """Create a namespace, and remove it with its link; all processes in it must have ended before."""
    _install()
    number = next(_numbers)
    name = f"hw{os.getpid()}-{number}"
    ours, theirs = f"hw{os.getpid()}.{number}a", f"hw{os.getpid()}.{number}b"
    # Processes that test at the same time must not share addresses, so each gets a /30.
    block = 4 * ((os.getpid() * 8 + number) % 16384)
    here, there = (f"10.213.{(block + host) // 256}.{(block + host) % 256}" for host in (1, 2))
    try:
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", name)
        _run("ip", "address", "add", f"{here}/30", "dev", ours)
        _run("ip", "link", "set", ours, "up")
        _run("ip", "-n", name, "address", "add", f"{there}/30", "dev", theirs)
        _run("ip", "-n", name, "link", "set", theirs, "up")
        _run("ip", "-n", name, "route", "add", "127.0.0.1/32", "via", here, "src", there)
        new_neighbour = Neighbour(name, there, here)
        _run(*new_neighbour.command, "sysctl", "-q", "-w", f"net/ipv4/conf/{theirs}/route_localnet=1")
        _run(
            *new_neighbour.command,
            "nft",
            "add table ip loopback;"
            "add chain ip loopback out { type nat hook output priority -100; };"
            f"add rule ip loopback out ip daddr 127.0.0.1 dnat to {here}",
        )
        yield new_neighbour
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def _run(*argv: str) -> None:
    result = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert result.returncode == 0, (
        "this test needs a network namespace of its own, which takes root (or CAP_NET_ADMIN and CAP_SYS_ADMIN) on "
        f"Linux: {' '.join(argv)} failed: {result.stderr.strip()}"
    )


def _install() -> None:
    missing = [package for program, package in _PACKAGES.items() if shutil.which(program) is None]
    if missing:
        packages.install(*missing)
