"""Whom a request is counted for."""

from ipaddress import ip_network

import pytest

from hookwright_api.clients import UNKNOWN, client_of

PROXIES = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        pytest.param("203.0.113.9", [], "203.0.113.9", id="a direct client"),
        pytest.param("203.0.113.9", ["1.2.3.4"], "203.0.113.9", id="a client's own claim counts for nothing"),
        pytest.param("10.0.0.1", ["1.2.3.4"], "1.2.3.4", id="what a trusted proxy says counts"),
        pytest.param("10.0.0.1", [], "10.0.0.1", id="a proxy that says nothing"),
        pytest.param("10.0.0.1", ["9.9.9.9, 1.2.3.4"], "1.2.3.4", id="what stands left of a client is its own claim"),
        pytest.param("10.0.0.1", ["1.2.3.4, 10.0.0.2"], "1.2.3.4", id="a chain of trusted proxies"),
        pytest.param("10.0.0.1", ["1.2.3.4", "10.0.0.2"], "1.2.3.4", id="a chain in several headers"),
        pytest.param("10.0.0.1", ["nonsense"], "10.0.0.1", id="no address"),
        pytest.param("10.0.0.1", ["1.2.3.4, nonsense"], "10.0.0.1", id="no address at the right end"),
        pytest.param("10.0.0.1", ["1.2.3.4:5678"], "1.2.3.4", id="with a port"),
        pytest.param("10.0.0.1", ["[2001:db8::7]:5678"], "2001:db8::/64", id="IPv6 with a port"),
        pytest.param("2001:db8:0:1::5", [], "2001:db8:0:1::/64", id="an IPv6 client is its /64"),
        pytest.param("2001:db8:0:1:ffff::5", [], "2001:db8:0:1::/64", id="another address of the same /64"),
        pytest.param("2001:db8:0:2::5", [], "2001:db8:0:2::/64", id="another /64"),
        pytest.param("::ffff:203.0.113.9", [], "203.0.113.9", id="IPv4 in IPv6 is IPv4"),
        pytest.param("::ffff:10.0.0.1", ["1.2.3.4"], "1.2.3.4", id="a proxy over IPv4 in IPv6"),
        pytest.param("fe80::1%eth0", [], "fe80::/64", id="with a zone"),
        pytest.param(None, ["1.2.3.4"], UNKNOWN, id="no peer"),
    ],
)
def test_the_client_is_the_first_address_that_no_trusted_proxy_vouches_for(
    peer: str | None, forwarded: list[str], client: str
) -> None:
    """A client can neither choose whom it is counted for nor escape through its many IPv6 addresses."""
    assert client_of(peer, forwarded, PROXIES) == client


def test_without_trusted_proxies_the_header_is_not_read() -> None:
    """The default."""
    assert client_of("10.0.0.1", ["1.2.3.4"], ()) == "10.0.0.1"
