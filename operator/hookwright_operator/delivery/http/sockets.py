"""Sockets that are connected to the first of several addresses that accepts (RFC 8305)."""

import socket
from collections.abc import Callable, Iterable
from typing import Final

import aiohappyeyeballs

_NEXT_ADDRESS: Final = 0.25
"""Seconds after which the next address is tried in parallel if one does not answer (RFC 8305 5)."""


async def connect(
    addresses: Iterable[str],
    port: int,
    socket_factory: Callable[[aiohappyeyeballs.AddrInfoType], socket.socket] | None = None,
) -> socket.socket:
    """Return a socket that is connected to one of these numeric addresses; a factory may refuse one by an OSError.

    Raises:
        OSError: no address accepts; without an errno if they fail for different reasons.
    """
    return await aiohappyeyeballs.start_connection(
        [_address_info(address, port) for address in addresses],
        happy_eyeballs_delay=_NEXT_ADDRESS,
        interleave=1,
        socket_factory=socket_factory,
    )


def _address_info(address: str, port: int) -> aiohappyeyeballs.AddrInfoType:
    if ":" in address:
        return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)
