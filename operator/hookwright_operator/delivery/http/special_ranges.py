"""Pure: the address ranges that contain no public receiver.

Sources, as of 2025: the IANA IPv4 and IPv6 Special-Purpose Address Registries
(https://www.iana.org/assignments/iana-ipv4-special-registry,
https://www.iana.org/assignments/iana-ipv6-special-registry), multicast from RFC 5771 and RFC 4291,
site-local from RFC 3879. ``ipaddress.is_global`` is not used, because its results have changed between
patch releases of Python. Blocks that the registries call globally reachable inside a special one
(192.0.0.9, 2001:20::/28 and the like) stay refused: they name protocols, not web servers.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_IPV4: Final = tuple(
    (IPv4Network(network), words)
    for network, words in (
        # Single addresses first: the first match names the class.
        ("169.254.169.254/32", "cloud metadata"),
        ("168.63.129.16/32", "cloud metadata"),  # Azure's, in public space but answered by the host itself
        ("100.100.100.200/32", "cloud metadata"),
        ("0.0.0.0/32", "unspecified"),
        ("255.255.255.255/32", "broadcast"),
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "IETF protocol assignments"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)

_IPV6: Final = tuple(
    (IPv6Network(network), words)
    for network, words in (
        ("fd00:ec2::254/128", "cloud metadata"),
        ("fd20:ce::254/128", "cloud metadata"),
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "IPv4-mapped"),
        ("::/96", "IPv4-compatible"),
        ("64:ff9b::/96", "NAT64"),
        ("64:ff9b:1::/48", "local NAT64"),
        ("100::/64", "discard-only"),
        ("100:0:0:1::/64", "dummy prefix"),
        ("2001::/32", "Teredo"),
        ("2001:2::/48", "benchmarking"),
        ("2001::/23", "IETF protocol assignments"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "documentation"),
        ("5f00::/16", "segment routing"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)

_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
"""All that IANA has allocated for global unicast (RFC 4291 2.4); the rest of IPv6 is reserved."""

_IPV4_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_COMPATIBLE: Final = IPv6Network("::/96")


def special_networks() -> tuple[Network, ...]:
    """Return every special range, so that a NetworkPolicy can refuse the same addresses as the guard."""
    return (*(network for network, _ in _IPV4), *(network for network, _ in _IPV6))


def special_range(address: Address) -> str:
    """Return the class of the special range that holds an address (``private``), or '' for a public one."""
    if isinstance(address, IPv4Address):
        return next((words for network, words in _IPV4 if address in network), "")
    words = next((words for network, words in _IPV6 if address in network), "")
    return words or ("" if address in _GLOBAL_UNICAST else "reserved")


def translated(address: Address) -> Address:
    """Return the address that packets for this one finally reach.

    IPv4-mapped addresses (RFC 4291 2.5.5.2) leave the machine as IPv4. Addresses of the well-known NAT64
    prefix (RFC 6052) leave the translator as IPv4. A cluster without IPv4 depends on NAT64.
    """
    if isinstance(address, IPv6Address) and (address in _IPV4_MAPPED or address in _NAT64):
        return _low_bits(address)
    return address


def embedded(address: Address) -> Iterator[Address]:
    """Yield every IPv4 address that an IPv6 address may lead to through a tunnel or translator.

    Mapped, compatible, NAT64, 6to4 (RFC 3056), Teredo server and client (RFC 4380).
    """
    if isinstance(address, IPv4Address):
        return
    if address in _IPV4_MAPPED or address in _NAT64 or address in _COMPATIBLE:
        yield _low_bits(address)
    if address.sixtofour:
        yield address.sixtofour
    if address.teredo:
        yield from address.teredo


def _low_bits(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFF_FFFF)
