"""Pure: the public addresses as the blocks of a NetworkPolicy, derived from the ranges that the guard refuses."""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, collapse_addresses
from typing import Final

from hookwright_operator.delivery.http.special_ranges import special_networks

Block = dict[str, str | list[str]]

_GLOBAL: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")


def public_networks() -> list[Block]:
    """Return the blocks of IPv4, of IPv6, and of IPv4 behind the well-known NAT64 prefix.

    An exception of a block must be inside of it, so the special ranges outside of 2000::/3 are left out.
    """
    ipv4 = [one for one in special_networks() if isinstance(one, IPv4Network)]
    ipv6 = [one for one in special_networks() if isinstance(one, IPv6Network) and one.subnet_of(_GLOBAL)]
    behind = [_translated(one) for one in collapse_addresses(ipv4)]
    return [
        _block("0.0.0.0/0", collapse_addresses(ipv4)),
        _block(str(_GLOBAL), collapse_addresses(ipv6)),
        _block(str(_NAT64), behind),
    ]


def _block(cidr: str, special: Iterable[IPv4Network | IPv6Network]) -> Block:
    return {"cidr": cidr, "except": [str(one) for one in special]}


def _translated(network: IPv4Network) -> IPv6Network:
    address = int(_NAT64.network_address) + int(network.network_address)
    return IPv6Network((address, 96 + network.prefixlen))
