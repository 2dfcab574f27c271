"""Addresses that the guard allows and refuses, without a network."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.delivery.http.special_ranges import special_range
from hookwright_runtime.errors import RefusedAddressError

v4_addresses = st.integers(min_value=0, max_value=2**32 - 1).map(IPv4Address)
v6_addresses = st.one_of(
    st.integers(min_value=0, max_value=2**128 - 1),
    # Most of IPv6 is reserved, so draw more examples from the ranges in use.
    st.integers(min_value=0x2000 << 112, max_value=(0x4000 << 112) - 1),
    st.integers(min_value=0x2001 << 112, max_value=(0x2001_0400 << 96) - 1),
    st.integers(min_value=0, max_value=2**56 - 1),
    st.integers(min_value=0x64_FF9B << 96, max_value=(0x64_FF9C << 96) - 1),
    st.integers(min_value=0xFC00 << 112, max_value=2**128 - 1),
).map(IPv6Address)

# Refused here although ipaddress calls them global (depending on its version): protocol anycast,
# ORCHID, the 6to4 relay, the metadata service of Azure, NAT64 (checked by the embedded address) and site-local.
STRICTER = [
    ip_network(network)
    for network in (
        "192.0.0.0/24",
        "192.88.99.0/24",
        "168.63.129.16/32",
        "224.0.0.0/4",
        "::/3",
        "2001::/23",
        "2002::/16",
        "3fff::/20",
        "4000::/2",
        "8000::/1",
    )
]


@pytest.mark.parametrize("text", ["", "example.com", "2130706433", "0x7f.1", "127.1", "017700000001", "1.2.3.4/32"])
def test_what_is_no_numeric_address_never_passes(text: str) -> None:
    """A text that only the C library accepts as an address never passes, under any setting."""
    with pytest.raises(RefusedAddressError, match="not a numeric IP address"):
        Guard(["0.0.0.0/0", "::/0"], allowed_hosts=["example.com"]).check(text, "example.com")


@given(st.one_of(v4_addresses, v6_addresses))
def test_nothing_passes_that_python_does_not_call_global_unicast(address: IPv4Address | IPv6Address) -> None:
    """The guard's table is never laxer than ipaddress, and stricter only in the listed ranges."""
    usual = address.is_global and not address.is_multicast
    if not special_range(address):
        assert usual
    elif usual:
        assert any(address in network for network in STRICTER)


@given(v4_addresses)
def test_every_ipv6_form_of_an_address_is_judged_no_laxer_than_the_address(address: IPv4Address) -> None:
    """No IPv6 form of an IPv4 address avoids its refusal."""
    refusal = bool(special_range(address))
    bits = int(address)
    for form in (0xFFFF << 32 | bits, 0x64_FF9B << 96 | bits):
        assert _refuses(Guard(), ip_address(form.to_bytes(16))) is refusal
    teredo = 0x2001 << 112 | bits ^ 0xFFFF_FFFF
    for form in (bits, 0x2002 << 112 | bits << 80, teredo, 0x64_FF9B_0001 << 80 | bits, 0xFFFF << 48 | bits):
        assert _refuses(Guard(), ip_address(form.to_bytes(16)))


@given(v4_addresses)
def test_a_denied_address_is_denied_in_every_form(address: IPv4Address) -> None:
    """The deny list overrides an allow list of everything, through tunnels and translators too."""
    guard = Guard(["0.0.0.0/0", "::/0"], [str(address)], allowed_hosts=["example.com"])
    bits = int(address)
    teredo_client, teredo_server = 0x2001 << 112 | bits ^ 0xFFFF_FFFF, 0x2001 << 112 | bits << 64
    forms = (
        0xFFFF << 32 | bits,
        0x64_FF9B << 96 | bits,
        bits,
        0x2002 << 112 | bits << 80,
        teredo_client,
        teredo_server,
    )
    for form in (address, *(ip_address(form.to_bytes(16)) for form in forms)):
        with pytest.raises(RefusedAddressError, match="denies"):
            guard.check(form, "example.com")


def test_allowed_networks_win_over_special_ranges_and_reach_no_further() -> None:
    """Allowing loopback allows loopback and its mapped form, and no other address."""
    guard = Guard(["127.0.0.0/8"])
    guard.check("127.0.0.1")
    guard.check("::ffff:127.0.0.1")
    assert _refuses(guard, ip_address("::1"))
    assert _refuses(guard, ip_address("10.0.0.1"))


def test_allowing_all_of_ipv6_does_not_allow_ipv4_in_disguise() -> None:
    """A mapped address is IPv4 to the kernel, so an IPv6 network does not cover it."""
    assert _refuses(Guard(["::/0"]), ip_address("::ffff:127.0.0.1"))


def test_networks_may_be_written_in_the_mapped_form() -> None:
    """::ffff:10.0.0.0/104 means 10.0.0.0/8 in both lists."""
    Guard(["::ffff:10.0.0.0/104"]).check("10.1.2.3")
    assert _refuses(Guard(denied=["::ffff:8.0.0.0/104"]), ip_address("8.8.8.8"))


def test_a_public_address_can_be_denied() -> None:
    """A cluster's own public ranges can be denied, and the message does not recommend the allow list."""
    with pytest.raises(RefusedAddressError, match=r"^8\.8\.8\.8 is in a network that this installation denies$"):
        Guard(["8.8.8.8/32"], ["8.8.0.0/16"]).check("8.8.8.8")


@pytest.mark.parametrize("host", ["hooks.example.com", "a.hooks.example.com.", "HOOKS.example.COM"])
def test_an_allowed_host_suffix_lets_its_private_addresses_through(host: str) -> None:
    """Receivers inside the cluster can be allowed by name, however the suffix is written."""
    for suffix in ("hooks.example.com", ".hooks.example.com", "*.hooks.example.com", "Hooks.Example.com."):
        Guard(allowed_hosts=[suffix]).check("10.0.0.1", host)


def test_a_denied_host_suffix_is_refused_by_name() -> None:
    """Denied hosts are refused before the look-up; others are not."""
    guard = Guard(denied_hosts=["internal.example.com"])
    guard.check_host("example.com")
    with pytest.raises(RefusedAddressError, match="denied by this installation"):
        guard.check_host("a.Internal.example.com.")


@pytest.mark.parametrize(
    "suffix",
    [
        *("", ".", "*", "*.", "..", "a..b", "*.*.example.com", "a b.example.com", "-a.example.com", "a" * 64),
        *("https://example.com", "example.com/hooks", "example.com:443", "10.0.0.1", "::1", "user@example.com"),
    ],
)
def test_a_host_suffix_that_is_no_domain_is_refused(suffix: str) -> None:
    """A stray comma in a setting does not exempt every host, and a URL in it is an error."""
    with pytest.raises(ValueError, match="is not a domain; write it without scheme, port and path"):
        Guard(allowed_hosts=[suffix])


def test_a_host_suffix_must_be_written_as_it_is_looked_up() -> None:
    """Hosts are compared in the encoded form of a URL."""
    with pytest.raises(ValueError, match="is not in ASCII"):
        Guard(denied_hosts=["bücher.example"])
    with pytest.raises(RefusedAddressError):
        Guard(denied_hosts=["xn--bcher-kva.example"]).check_host("shop.xn--bcher-kva.example")


@pytest.mark.parametrize("network", ["10.0.0.1/8", "loopback", "10.0.0.0/33"])
def test_a_malformed_network_is_refused(network: str) -> None:
    """A malformed network does not become another network."""
    with pytest.raises(ValueError, match=r"10\.0\.0|loopback"):
        Guard([network])


def _refuses(guard: Guard, address: IPv4Address | IPv6Address) -> bool:
    try:
        guard.check(address)
    except RefusedAddressError:
        return True
    return False
