"""Guard of the addresses that deliveries may connect to, used by every client that leaves the cluster.

The resolver returns only addresses that the guard allows. The guard checks again when a socket is created, because
literal addresses do not pass through the resolver. So no connection goes to an unchecked address.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from hookwright_operator.delivery.http.special_ranges import Address, Network, embedded, special_range, translated
from hookwright_runtime.errors import RefusedAddressError

_CACHE_SIZE: Final = 4096
_LONGEST_NAME: Final = 253
_LABEL: Final = "[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_DOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_IPV4_MAPPED: Final = IPv6Network("::ffff:0:0/96")


class Guard:
    """Rules for addresses: public unicast ones pass, all others only if the installation allows them.

    Denied networks and hosts override allowed ones. Allowed ones override the special ranges. There are
    no built-in exemptions. An IPv6 form of an IPv4 address is checked as the IPv4 address that it reaches.

    Args:
        allowed: networks that pass although they are special (HOOKWRIGHT_ALLOWED_NETWORKS).
        denied: networks that never pass, such as the cluster's own ranges (HOOKWRIGHT_DENIED_NETWORKS).
        allowed_hosts: host suffixes (``hooks.svc.cluster.local``) whose addresses pass although they are special
            (HOOKWRIGHT_ALLOWED_HOSTS).
        denied_hosts: host suffixes that are never delivered to (HOOKWRIGHT_DENIED_HOSTS).

    Raises:
        ValueError: a network is malformed or has host bits set, or a host suffix is no domain.
    """

    def __init__(
        self,
        allowed: Iterable[str | Network] = (),
        denied: Iterable[str | Network] = (),
        *,
        allowed_hosts: Iterable[str] = (),
        denied_hosts: Iterable[str] = (),
    ) -> None:
        self._allowed = tuple(_network(network) for network in allowed)
        self._denied = tuple(_network(network) for network in denied)
        self._allowed_hosts = tuple(host_suffix(host) for host in allowed_hosts)
        self._denied_hosts = tuple(host_suffix(host) for host in denied_hosts)
        self._refusal = lru_cache(maxsize=_CACHE_SIZE)(self._judge)

    def check(self, address: str | Address, host: str = "") -> None:
        """Check an address.

        Args:
            address: numeric, with or without a scope id (``fe80::1%eth0``).
            host: the name that resolved to it; compared with the allowed host suffixes.

        Raises:
            RefusedAddressError: the address is denied, special and not allowed, or not numeric.
        """
        refusal, final = self._refusal(str(address))
        if refusal and (final or not _matches(host, self._allowed_hosts)):
            raise RefusedAddressError(refusal)

    def check_host(self, host: str) -> None:
        """Check a host name.

        Raises:
            RefusedAddressError: the name's suffix is denied.
        """
        if self._denied_hosts and _matches(host, self._denied_hosts):
            raise RefusedAddressError(f"{host} is denied by this installation")

    def literal_refusal(self, url: str) -> str:
        """Return why no attempt may connect to the literal address in a URL; empty if it may, or for a name."""
        try:
            host = urlsplit(url).hostname or ""
        except ValueError:
            return ""
        if not is_literal(host):
            return ""
        try:
            self.check(host)
        except RefusedAddressError as error:
            return str(error)
        return ""

    def _judge(self, text: str) -> tuple[str, bool]:
        """Return why an address is refused ('' if it passes), and whether this overrides allowed host suffixes."""
        try:
            address = _without_scope(ip_address(text))
        except ValueError:
            return f"{text} is not a numeric IP address", True
        target = translated(address)
        if _within(self._denied, address, *embedded(address)):
            return f"{text} is in a network that this installation denies", True
        if _within(self._allowed, target):
            return "", False
        words = special_range(target)
        if not words:
            return "", False
        article = "an" if words[0].lower() in "aeiou" else "a"
        return f"{text} is {article} {words} address; HOOKWRIGHT_ALLOWED_NETWORKS does not allow it", False


def is_literal(host: str) -> bool:
    """Return whether a URL's host is written as an address and not as a name."""
    return ":" in host or host.replace(".", "").isdigit()


def _network(network: str | Network) -> Network:
    """Return the network, as an IPv4 one if it is written in the IPv4-mapped form."""
    block = ip_network(network)
    if isinstance(block, IPv6Network) and block.subnet_of(_IPV4_MAPPED):
        return ip_network((int(block.network_address) & 0xFFFF_FFFF, block.prefixlen - 96))
    return block


def _without_scope(address: Address) -> Address:
    return IPv6Address(int(address)) if isinstance(address, IPv6Address) else address


def _within(networks: tuple[Network, ...], *addresses: Address) -> bool:
    return any(address in network for network in networks for address in addresses)


def host_suffix(domain: str) -> str:
    """Return a domain in the form that host names are compared with; ``.example.com`` equals ``*.example.com``.

    Raises:
        ValueError: it is no domain (RFC 1123), or one that is not written in ASCII.
    """
    suffix = _plain(domain.strip().removeprefix("*")).removeprefix(".")
    if not suffix.isascii():
        raise ValueError(
            f"{domain!r} is not in ASCII; write the domain in its IDNA form, such as xn--bcher-kva.example"
        )
    if len(suffix) > _LONGEST_NAME or not _DOMAIN.fullmatch(suffix) or suffix.rpartition(".")[2].isdecimal():
        raise ValueError(
            f"{domain!r} is not a domain; write it without scheme, port and path, such as hooks.svc.cluster.local"
        )
    return suffix


def _plain(host: str) -> str:
    return host.rstrip(".").lower()


def _matches(host: str, suffixes: tuple[str, ...]) -> bool:
    name = _plain(host)
    return any(name == suffix or name.endswith("." + suffix) for suffix in suffixes)
