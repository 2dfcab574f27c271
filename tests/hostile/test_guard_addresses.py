"""Special addresses in every spelling: an endpoint reaches none of them, and the refusal names the reason.

The spellings go through a real sender. Names go to a resolver that reads numbers as the C library does: hexadecimal,
octal and short forms are addresses to it. A resolver that reads less can only refuse more.
"""

import socket
from collections.abc import AsyncIterator, Callable
from ipaddress import IPv4Address, IPv6Address

import pytest
from support.attempts import endpoint, guarded, send

from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.delivery.http.sender import Sender
from hookwright_runtime.errors import RefusedAddressError

IPV4 = {
    "0.0.0.0": "unspecified",
    "0.1.2.3": "this network",
    "10.0.0.0": "private",
    "10.1.2.3": "private",
    "10.255.255.255": "private",
    "100.64.0.1": "carrier-grade NAT",
    "100.100.100.200": "cloud metadata",
    "100.127.255.255": "carrier-grade NAT",
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "168.63.129.16": "cloud metadata",
    "169.254.1.1": "link-local",
    "169.254.169.254": "cloud metadata",
    "169.254.170.2": "link-local",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.0.0.1": "IETF protocol assignments",
    "192.0.2.1": "documentation",
    "192.88.99.1": "6to4 relay",
    "192.168.0.0": "private",
    "192.168.1.1": "private",
    "198.18.0.1": "benchmarking",
    "198.19.255.255": "benchmarking",
    "198.51.100.7": "documentation",
    "203.0.113.7": "documentation",
    "224.0.0.1": "multicast",
    "239.255.255.255": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "broadcast",
}
IPV6 = {
    "::": "unspecified",
    "::1": "loopback",
    "::ffff:0:127.0.0.1": "reserved",
    "64:ff9b:1::8.8.8.8": "local NAT64",
    "100::1": "discard-only",
    "100:0:0:1::1": "dummy prefix",
    "1000::1": "reserved",
    "2001::1": "Teredo",
    "2001:2::1": "benchmarking",
    "2001:10::1": "IETF protocol assignments",
    "2001:20::1": "IETF protocol assignments",
    "2001:db8::1": "documentation",
    "2002:7f00:1::": "6to4",
    "2002:808:808::": "6to4",
    "3fff::1": "documentation",
    "4000::1": "reserved",
    "5f00::1": "segment routing",
    "fc00::1": "private",
    "fd00:ec2::254": "cloud metadata",
    "fd12:3456::1": "private",
    "fd20:ce::254": "cloud metadata",
    "fe80::1": "link-local",
    "fec0::1": "site-local",
    "ff02::1": "multicast",
}
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2001:200::1",
    "2606:4700:4700::1111",
    "2a00:1450:4001::1",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
]

NOT_USUAL = "invalid URL: the host is neither a name nor an address in its usual form"


def octets(address: IPv4Address) -> list[int]:
    """Return the four bytes of an address."""
    return list(address.packed)


def groups(address: IPv4Address) -> str:
    """Return an IPv4 address as the last two groups of an IPv6 address."""
    return f"{int(address) >> 16:x}:{int(address) & 0xFFFF:x}"


def digits(address: IPv4Address, *, zero: str) -> str:
    """Write an address in digits of another alphabet."""
    return str(address).translate({ord("0") + digit: chr(ord(zero) + digit) for digit in range(10)})


def circled(address: IPv4Address) -> str:
    """Write an address in circled digits."""
    return str(address).translate(
        {ord("0"): "\u24ea", **{ord("0") + digit: chr(0x245F + digit) for digit in range(1, 10)}}
    )


Spelling = Callable[[IPv4Address], str]

LOOKED_UP: dict[str, Spelling] = {
    "dotted decimals": str,
    "one hexadecimal number": lambda a: f"0x{int(a):08x}",
    "one hexadecimal number in capitals": lambda a: f"0X{int(a):08X}",
    "hexadecimal parts": lambda a: ".".join(f"0x{part:x}" for part in octets(a)),
    "hexadecimal parts with leading zeros": lambda a: ".".join(f"0x000{part:02x}" for part in octets(a)),
    "a hexadecimal first part": lambda a: f"0x{octets(a)[0]:x}." + ".".join(map(str, octets(a)[1:])),
    "a hexadecimal last part": lambda a: ".".join(map(str, octets(a)[:3])) + f".0x{octets(a)[3]:x}",
    "two parts, the second hexadecimal": lambda a: f"{octets(a)[0]}.0x{int(a) & 0xFFFFFF:x}",
    "three parts, the last hexadecimal": lambda a: f"{octets(a)[0]}.{octets(a)[1]}.0x{int(a) & 0xFFFF:x}",
    "hexadecimal and octal parts": lambda a: "0x{:x}.0{:o}.0{:o}.{}".format(*octets(a)),
    "a hexadecimal number and a dot at the end": lambda a: f"0x{int(a):x}.",
    "full-width digits": lambda a: digits(a, zero="\uff10"),
    "mathematical bold digits": lambda a: digits(a, zero="\U0001d7ce"),
    "mathematical monospace digits": lambda a: digits(a, zero="\U0001d7f6"),
    "circled digits": circled,
    "ideographic full stops": lambda a: str(a).replace(".", "\u3002"),
    "full-width full stops": lambda a: str(a).replace(".", "\uff0e"),
    "half-width ideographic full stops": lambda a: str(a).replace(".", "\uff61"),
}
"""Spellings that a resolver or a parser turns into the address: the address that is refused is the plain one."""

UNUSUAL: dict[str, Spelling] = {
    "one decimal number": lambda a: str(int(a)),
    "one octal number": lambda a: f"0{int(a):o}",
    "octal parts": lambda a: ".".join(f"0{part:o}" for part in octets(a)),
    "decimal parts with leading zeros": lambda a: ".".join(f"{part:04}" for part in octets(a)),
    "two decimal parts": lambda a: f"{octets(a)[0]}.{int(a) & 0xFFFFFF}",
    "three decimal parts": lambda a: f"{octets(a)[0]}.{octets(a)[1]}.{int(a) & 0xFFFF}",
    "a number beyond 32 bits": lambda a: str(int(a) + 2**32),
    "a fifth part": lambda a: f"{a}.0",
    "a dot at the end": lambda a: f"{a}.",
    "two dots at the end": lambda a: f"{a}..",
}
"""Numbers that are no dotted decimals: the URL is refused before anything is looked up."""

REACHING: dict[str, Spelling] = {
    "IPv4-mapped, dotted": lambda a: f"::ffff:{a}",
    "IPv4-mapped, hexadecimal": lambda a: f"::ffff:{groups(a)}",
    "IPv4-mapped, in capitals": lambda a: f"::FFFF:{groups(a).upper()}",
    "IPv4-mapped, in full": lambda a: f"0000:0000:0000:0000:0000:ffff:{int(a) >> 16:04x}:{int(a) & 0xFFFF:04x}",
    "IPv4-mapped, with a zone": lambda a: f"::ffff:{a}%25lo",
    "NAT64, dotted": lambda a: f"64:ff9b::{a}",
    "NAT64, hexadecimal": lambda a: f"64:ff9b::{groups(a)}",
    "NAT64, in full": lambda a: f"0064:ff9b:0000:0000:0000:0000:{int(a) >> 16:04x}:{int(a) & 0xFFFF:04x}",
}
"""IPv6 addresses whose packets reach the IPv4 address: they are of its kind."""

TUNNELS: dict[str, tuple[Spelling, str]] = {
    "local NAT64": (lambda a: f"64:ff9b:1::{groups(a)}", "local NAT64"),
    "6to4": (lambda a: f"2002:{groups(a)}::1", "6to4"),
    "a Teredo server": (lambda a: f"2001:0:{groups(a)}::1", "Teredo"),
    "a Teredo client": (lambda a: f"2001::{groups(IPv4Address(int(a) ^ 0xFFFFFFFF))}", "Teredo"),
    "IPv4-translated": (lambda a: f"::ffff:0:{groups(a)}", "reserved"),
    "ISATAP": (lambda a: f"fe80::5efe:{groups(a)}", "link-local"),
}
"""IPv6 addresses that hold an IPv4 address for a tunnel: they are refused as tunnels."""

TRICKS = {
    "a user before the host": ("http://example.com@127.0.0.1/", "invalid URL: it has a user or password"),
    "a user and a port before the host": ("http://example.com:80@127.0.0.1/", "invalid URL: it has a user or password"),
    "a user that is the address": ("http://127.0.0.1@127.0.0.1/", "invalid URL: it has a user or password"),
    "an encoded @": ("http://example.com%40127.0.0.1/", "name not found: example.com%40127.0.0.1"),
    "a backslash before the @": ("http://127.0.0.1\\@example.com/", "invalid URL"),
    "a fragment before the @": ("http://127.0.0.1#@example.com/", "address refused: 127.0.0.1 is a loopback"),
    "a query before the @": ("http://127.0.0.1?@example.com/", "address refused: 127.0.0.1 is a loopback"),
    "two ports": ("http://127.0.0.1:80:80/", "invalid URL"),
    "a port beyond the last": ("http://127.0.0.1:65616/", "invalid URL"),
    "encoded digits": ("http://%31%32%37.0.0.1/", "name not found: %31%32%37.0.0.1"),
    "encoded dots": ("http://127%2e0%2e0%2e1/", "name not found: 127%2e0%2e0%2e1"),
    "an encoded zero byte": ("http://127.0.0.1%00.example.com/", "name not found: 127.0.0.1%00.example.com"),
    "a space before the address": ("http:// 127.0.0.1/", "invalid URL"),
    "a tab after the address": ("http://127.0.0.1\t/", "address refused: 127.0.0.1 is a loopback"),
    "a line break in the address": ("http://127.0.\n0.1/", "address refused: 127.0.0.1 is a loopback"),
    "a soft hyphen in a name": ("http://lo\u00adcalhost/", "invalid URL"),
    "a space of no width in a name": ("http://loc\u200balhost/", "invalid URL"),
    "a superscript digit": ("http://127.0.0.\u00b9/", "address refused: 127.0.0.1 is a loopback"),
    "Arabic digits": ("http://\u0661\u0662\u0667.0.0.1/", "name not found: xn--9hbcp.0.0.1"),
    "a part that is too large": ("http://127.0.0.256/", NOT_USUAL),
    "an IPv4 address in brackets": ("http://[127.0.0.1]/", "invalid URL"),
    "an IPv6 address without brackets": ("http://::1/", "invalid URL"),
    "an IPv6 address with one bracket": ("http://[::1/", "invalid URL"),
    "a future form of addresses": ("http://[v1.127]/", "name not found: v1.127"),
    "a short form in an IPv6 address": ("http://[::ffff:127.1]/", "address refused: ::ffff:127.1 is not a numeric"),
    "hexadecimal parts in an IPv6 address": ("http://[::ffff:0x7f.1]/", "address refused: ::ffff:0x7f.1 is not a"),
    "a decimal number in an IPv6 address": ("http://[::ffff:2130706433]/", "address refused: ::ffff:2130706433 is not"),
    "a binary number": ("http://0b1111111.0.0.1/", "name not found: 0b1111111.0.0.1"),
    "a number of Python's": ("http://0o177.0.0.1/", "name not found: 0o177.0.0.1"),
    "a negative number": ("http://-1/", "name not found: -1"),
    "a name that begins with an address": ("http://127.0.0.1.example.com/", "name not found: 127.0.0.1.example.com"),
    "another scheme": ("gopher://127.0.0.1/", "invalid URL"),
    "a file": ("file:///etc/passwd", "invalid URL"),
}
"""URLs in which parsers disagree about the host, and what the attempt fails with."""

NAMES = {
    "a name of this machine": ("localhost", "127.0.0.1", "loopback"),
    "a name in capitals with a dot at the end": ("LOCALHOST.", "127.0.0.1", "loopback"),
    "a name in full-width letters": ("\uff4c\uff4f\uff43\uff41\uff4c\uff48\uff4f\uff53\uff54", "::1", "loopback"),
    "the metadata service of a cloud": ("metadata.google.internal", "169.254.169.254", "cloud metadata"),
    "the API server of the cluster": ("kubernetes.default.svc", "10.96.0.1", "private"),
    "a service of the cluster": ("redis.prod.svc.cluster.local", "fd00:10:96::7", "private"),
    "a public name for a private address": ("10-1-2-3.nip.io", "10.1.2.3", "private"),
    "a public name for a mapped address": ("hooks.example.com", "::ffff:192.168.0.1", "private"),
    "a public name for a link-local address": ("hooks.example.com", "fe80::1%eth0", "link-local"),
    "a public name for a NAT64 address": ("hooks.example.com", "64:ff9b::a9fe:a9fe", "cloud metadata"),
    "a public name for no address": ("hooks.example.com", "0.0.0.0", "unspecified"),
}
"""Names, the address that a resolver finds for them, and its kind."""

FOREIGN_HOSTS = {
    "no host": "",
    "the parent of the suffix": "example.com",
    "the suffix within a longer label": "evilhooks.example.com",
    "the suffix before another domain": "hooks.example.com.evil.net",
    "the suffix with another top domain": "hooks.example.org",
    "the suffix with a dash for a dot": "hooks-example.com",
    "the suffix in a path": "evil.net/hooks.example.com",
    "the suffix after a user": "evil.net@hooks.example.com.",
    "a look-alike in Cyrillic letters": "h\u043e\u043eks.example.com",
    "the suffix after a zero byte": "evil.net\0hooks.example.com",
}
"""Hosts that an allowed suffix ``hooks.example.com`` is not for."""


def refusal(shown: str, kind: str) -> str:
    """Return the words for an address that is refused."""
    article = "an" if kind[0].lower() in "aeiou" else "a"
    return f"{shown} is {article} {kind} address; HOOKWRIGHT_ALLOWED_NETWORKS does not allow it"


def lookup(host: str, _port: int) -> list[str]:
    """Find an address as the C library does when it takes a host for a number."""
    try:
        return [socket.inet_ntoa(socket.inet_aton(host.rstrip(".")))]
    except (OSError, UnicodeEncodeError):
        raise socket.gaierror(socket.EAI_NONAME, "no such name") from None


@pytest.fixture
async def attacked() -> AsyncIterator[Sender]:
    """Yield a sender of an installation that allows nothing special."""
    async with guarded(Guard(), lookup=lookup) as sender:
        yield sender


async def error_of(sender: Sender, url: str) -> str:
    """Make an attempt that fails, and return its error."""
    outcome = await send(sender, endpoint(url))
    assert (outcome.status_code, outcome.delivered) == (0, False)
    return outcome.error


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_beside_a_special_range_passes(address: str) -> None:
    """The ranges end where the registries say: nothing public is refused."""
    Guard().check(address)


@pytest.mark.parametrize("sentence", LOOKED_UP)
async def test_a_spelling_is_refused_as_the_address_that_it_means(attacked: Sender, sentence: str) -> None:
    """All special IPv4 addresses in this spelling."""
    for address, kind in IPV4.items():
        host = LOOKED_UP[sentence](IPv4Address(address))
        assert await error_of(attacked, f"http://{host}/") == f"address refused: {refusal(address, kind)}", host


@pytest.mark.parametrize("sentence", UNUSUAL)
async def test_an_unusual_number_is_no_host(sentence: str) -> None:
    """All special IPv4 addresses in this spelling, and public ones too, even if everything is allowed."""
    async with guarded(Guard(["0.0.0.0/0", "::/0"]), lookup=lookup) as sender:
        for address in [*IPV4, "8.8.8.8", "1.1.1.1"]:
            host = UNUSUAL[sentence](IPv4Address(address))
            assert await error_of(sender, f"http://{host}/") == NOT_USUAL, host


@pytest.mark.parametrize("sentence", REACHING)
async def test_an_ipv6_form_of_an_ipv4_address_is_refused_by_its_kind(attacked: Sender, sentence: str) -> None:
    """All special IPv4 addresses in this form."""
    for address, kind in IPV4.items():
        host = REACHING[sentence](IPv4Address(address))
        assert await error_of(attacked, f"http://[{host}]/") == f"address refused: {refusal(host, kind)}"


@pytest.mark.parametrize("sentence", TUNNELS)
async def test_a_tunnel_to_an_ipv4_address_is_refused_as_a_tunnel(attacked: Sender, sentence: str) -> None:
    """All special IPv4 addresses, and public ones, because the end of a tunnel is unknown."""
    form, kind = TUNNELS[sentence]
    for address in [*IPV4, "8.8.8.8", "1.1.1.1"]:
        host = form(IPv4Address(address))
        assert await error_of(attacked, f"http://[{host}]/") == f"address refused: {refusal(host, kind)}"


@pytest.mark.parametrize(("address", "kind"), IPV6.items())
async def test_an_ipv6_address_is_refused_in_every_form(attacked: Sender, address: str, kind: str) -> None:
    """Short, in full, in capitals, and with a zone in both notations."""
    packed = IPv6Address(address).packed
    full = ":".join(packed[place : place + 2].hex() for place in range(0, 16, 2))
    for host in (address, full, full.upper(), f"{address}%25lo", f"{address}%lo"):
        assert await error_of(attacked, f"http://[{host}]/") == f"address refused: {refusal(host, kind)}"


@pytest.mark.parametrize("sentence", TRICKS)
async def test_a_url_that_parsers_read_in_two_ways_reaches_nothing(attacked: Sender, sentence: str) -> None:
    """The attempt fails, and says whether the URL, the name or the address was wrong."""
    url, words = TRICKS[sentence]
    error = await error_of(attacked, url)
    assert error.startswith(words), error


@pytest.mark.parametrize("sentence", NAMES)
async def test_a_name_is_judged_by_its_address(sentence: str) -> None:
    """The form of a name changes nothing."""
    host, address, kind = NAMES[sentence]
    async with guarded(Guard(), lookup=lambda _host, _port: [address]) as sender:
        assert await error_of(sender, f"http://{host}/") == f"address refused: {refusal(address, kind)}"


@pytest.mark.parametrize("sentence", FOREIGN_HOSTS)
def test_an_allowed_suffix_is_for_its_own_hosts(sentence: str) -> None:
    """A private address under another host stays refused."""
    with pytest.raises(RefusedAddressError, match="is a private address"):
        Guard(allowed_hosts=["hooks.example.com"]).check("10.0.0.1", FOREIGN_HOSTS[sentence])
