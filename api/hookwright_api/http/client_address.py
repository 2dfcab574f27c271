"""Pure: the client of a request, which the limit per address counts."""

import ipaddress
from collections.abc import Iterable, Sequence

from hookwright_runtime.connections import client_group

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

UNKNOWN = "unknown"
"""Name for all clients with an unknown address; they share one count."""


def client_of(peer: str | None, forwarded_for: Iterable[str], proxies: Sequence[Network]) -> str:
    """Return the client to count a request for: an IPv4 address, or the /64 of an IPv6 address.

    ``X-Forwarded-For`` is read from its right end, the entry of the nearest proxy, as long as the writer is a trusted
    proxy. Any client can send the entries left of the first untrusted address, so they are ignored.

    Args:
        peer: the address at the other end of the connection.
        forwarded_for: the X-Forwarded-For headers, in their order.
        proxies: the proxies' networks.
    """
    client = _parse(peer or "")
    if client is None:
        return UNKNOWN
    hops = [part.strip() for header in forwarded_for for part in header.split(",")] if proxies else []
    while hops and any(client.version == network.version and client in network for network in proxies):
        hop = _parse(hops.pop())
        if hop is None:
            break
        client = hop
    return client_group(str(client))


def _parse(entry: str) -> Address | None:
    text = entry.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    ipv4 = address.ipv4_mapped if address.version == 6 else None
    return ipv4 or address
