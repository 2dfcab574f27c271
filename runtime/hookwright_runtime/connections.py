"""Pure: the connections of one listener, bounded for each client address and in all.

At a bound, an idle connection makes room for a new one: at the bound of an address, the oldest idle connection of this
address; at the bound of all, the oldest one of the address with the most idle connections. A connection is idle unless
a request is being served on it.

If no connection is idle at the bound of all, a connection whose request is incomplete makes room: the oldest one of the
address with the most of them, if these are more than all connections of the new one's address, including the new one.
Otherwise the new connection is refused.
"""

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

C = TypeVar("C", bound=Hashable)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_UNKNOWN: Final = "unknown"
_IPV6_PREFIX: Final = 64
"""A client gets at least a /64 (RFC 6177), so the addresses of a /64 share one bound."""


@dataclass(frozen=True, slots=True)
class ConnectionBounds:
    """How many connections a listener has at most.

    Attributes:
        total: of all clients.
        per_address: of one client address, or of one /64 network of IPv6 addresses.
        proxies: networks of proxies, whose connections carry many clients: only the total bounds them.
    """

    total: int
    per_address: int
    proxies: tuple[Network, ...] = ()


@dataclass(slots=True, eq=False)
class Holder(Generic[C]):
    """The connections of one client address.

    Attributes:
        count: open connections.
        idle: those without a request, the oldest first.
        arriving: those whose request is not complete, the oldest first.
    """

    address: str
    limit: float
    count: int = 0
    idle: OrderedDict[C, None] = field(default_factory=OrderedDict)
    arriving: OrderedDict[C, None] = field(default_factory=OrderedDict)


class Connections(Generic[C]):
    """The table of open connections."""

    def __init__(self, bounds: ConnectionBounds) -> None:
        self._bounds = bounds
        self._holders: dict[str, Holder[C]] = {}
        self.count = 0

    def add(self, connection: C, peer: str | None) -> tuple[Holder[C] | None, C | None]:
        """Add a new, idle connection of a client with an IP address.

        Returns:
            The holder of the connection, None if it is refused; and the connection that was removed to make room,
            which must be closed.
        """
        holder = self._holder(peer)
        leaving: C | None = None
        if holder.count >= holder.limit or self.count >= self._bounds.total:
            leaving = self._make_room(holder)
            if leaving is None:
                return None, None
        self._holders[holder.address] = holder
        holder.count += 1
        holder.idle[connection] = None
        self.count += 1
        return holder, leaving

    def remove(self, connection: C, holder: Holder[C]) -> None:
        """Remove a connection that was added; its holder counts it no longer."""
        holder.idle.pop(connection, None)
        holder.arriving.pop(connection, None)
        holder.count -= 1
        self.count -= 1
        if not holder.count:
            self._holders.pop(holder.address, None)

    def _make_room(self, newcomer: Holder[C]) -> C | None:
        """Remove and return a connection, to make room for a new one of a holder; None if all must stay."""
        holders = [newcomer] if newcomer.count >= newcomer.limit else list(self._holders.values())
        largest = max(holders, key=lambda holder: len(holder.idle))
        candidates = largest.idle
        if not candidates and len(holders) > 1:
            # Only of an address that has more than the new one, so that no flood of new connections does this.
            largest = max(holders, key=lambda holder: len(holder.arriving))
            candidates = largest.arriving if len(largest.arriving) > newcomer.count + 1 else OrderedDict()
        for connection in candidates:
            self.remove(connection, largest)
            return connection
        return None

    def _holder(self, peer: str | None) -> Holder[C]:
        address, is_proxy = _address(peer, self._bounds.proxies)
        limit = math.inf if is_proxy else self._bounds.per_address
        return self._holders.get(address) or Holder(address, limit)


def client_group(peer: str | None) -> str:
    """Return what the requests of a client are counted under: its IPv4 address, or the /64 of its IPv6 address."""
    return _address(peer, ())[0]


def _address(peer: str | None, proxies: tuple[Network, ...]) -> tuple[str, bool]:
    """Return what the connections of a peer are counted under, and whether the peer is a trusted proxy."""
    try:
        address = ipaddress.ip_address((peer or "").partition("%")[0])
    except ValueError:
        return _UNKNOWN, False
    if address.version == 6:
        address = address.ipv4_mapped or address
    if any(address.version == network.version and address in network for network in proxies):
        return str(address), True
    if address.version == 4:
        return str(address), False
    return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False)), False
