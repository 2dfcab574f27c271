"""``X-Forwarded-For``: a client neither chooses the address that it is counted for nor escapes through many of them."""

from ipaddress import ip_network

import httpx
import pytest
from integration.api import conftest as shared
from integration.api.conftest import PROXY, StartApi

from hookwright_api.http.client_address import UNKNOWN, client_of

control_plane, operator, start_api = shared.control_plane, shared.operator, shared.start_api

PROXIES = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
PROXY_ADDRESS = "10.0.0.1"

COUNTED: dict[str, tuple[str | None, list[str], str]] = {
    # ---- the peer is no proxy: its claims count for nothing
    "a direct client": ("203.0.113.9", [], "203.0.113.9"),
    "a client that claims an address": ("203.0.113.9", ["1.2.3.4"], "203.0.113.9"),
    "a client that claims to be a proxy": ("203.0.113.9", ["10.0.0.1"], "203.0.113.9"),
    "a client that claims a chain": ("203.0.113.9", ["1.2.3.4, 10.0.0.2"], "203.0.113.9"),
    "a client that claims many addresses": ("203.0.113.9", ["1.2.3.4"] * 50, "203.0.113.9"),
    "an IPv6 client that claims an address": ("2001:db8::5", ["1.2.3.4"], "2001:db8::/64"),
    "an address beside the proxies": ("11.0.0.0", ["1.2.3.4"], "11.0.0.0"),
    "the unspecified address as peer": ("0.0.0.0", ["1.2.3.4"], "0.0.0.0"),
    "no peer": (None, ["1.2.3.4"], UNKNOWN),
    "an empty peer": ("", ["1.2.3.4"], UNKNOWN),
    "a name as peer": ("localhost", ["1.2.3.4"], UNKNOWN),
    # ---- the peer is a proxy: its word counts, words before it do not
    "a proxy that names a client": (PROXY_ADDRESS, ["1.2.3.4"], "1.2.3.4"),
    "a proxy that names none": (PROXY_ADDRESS, [], PROXY_ADDRESS),
    "a proxy with an empty header": (PROXY_ADDRESS, [""], PROXY_ADDRESS),
    "a client's claim before the proxy's word": (PROXY_ADDRESS, ["9.9.9.9, 1.2.3.4"], "1.2.3.4"),
    "a client's claim in a header before": (PROXY_ADDRESS, ["9.9.9.9", "1.2.3.4"], "1.2.3.4"),
    "a client that claims a proxy's address": (PROXY_ADDRESS, ["10.0.0.7, 1.2.3.4"], "1.2.3.4"),
    "a client that claims a hundred addresses": (PROXY_ADDRESS, ["9.9.9.9, " * 100 + "1.2.3.4"], "1.2.3.4"),
    "a chain of proxies": (PROXY_ADDRESS, ["1.2.3.4, 10.0.0.2"], "1.2.3.4"),
    "a chain of proxies in several headers": (PROXY_ADDRESS, ["1.2.3.4", "10.0.0.2"], "1.2.3.4"),
    "a chain with a stranger in it": (PROXY_ADDRESS, ["9.9.9.9, 203.0.113.9, 10.0.0.2"], "203.0.113.9"),
    "a chain of proxies alone": (PROXY_ADDRESS, ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
    "a chain of both versions": (PROXY_ADDRESS, ["1.2.3.4, fd00::1"], "1.2.3.4"),
    "no spaces": (PROXY_ADDRESS, ["9.9.9.9,1.2.3.4"], "1.2.3.4"),
    "many spaces": (PROXY_ADDRESS, ["9.9.9.9 ,\t 1.2.3.4  "], "1.2.3.4"),
    # ---- the proxy's word is no address: the proxy is counted, and no claim before it
    "a word": (PROXY_ADDRESS, ["nonsense"], PROXY_ADDRESS),
    "a word at the end": (PROXY_ADDRESS, ["1.2.3.4, nonsense"], PROXY_ADDRESS),
    "a comma at the end": (PROXY_ADDRESS, ["1.2.3.4,"], PROXY_ADDRESS),
    "the word of RFC 7239": (PROXY_ADDRESS, ["1.2.3.4, unknown"], PROXY_ADDRESS),
    "a form of RFC 7239": (PROXY_ADDRESS, ["for=1.2.3.4"], PROXY_ADDRESS),
    "quotation marks": (PROXY_ADDRESS, ['"1.2.3.4"'], PROXY_ADDRESS),
    "a decimal number": (PROXY_ADDRESS, ["16909060"], PROXY_ADDRESS),
    "hexadecimal parts": (PROXY_ADDRESS, ["0x1.2.3.4"], PROXY_ADDRESS),
    "octal parts": (PROXY_ADDRESS, ["01.02.03.04"], PROXY_ADDRESS),
    "a network": (PROXY_ADDRESS, ["1.2.3.0/24"], PROXY_ADDRESS),
    "an address with a zero byte": (PROXY_ADDRESS, ["1.2.3.4\0"], PROXY_ADDRESS),
    "full-width digits": (PROXY_ADDRESS, ["\uff11.2.3.4"], PROXY_ADDRESS),
    # ---- ports, brackets and zones
    "IPv4 with a port": (PROXY_ADDRESS, ["1.2.3.4:5678"], "1.2.3.4"),
    "IPv4 with a port that is a word": (PROXY_ADDRESS, ["1.2.3.4:http"], "1.2.3.4"),
    "IPv6": (PROXY_ADDRESS, ["2001:db8::7"], "2001:db8::/64"),
    "IPv6 in brackets": (PROXY_ADDRESS, ["[2001:db8::7]"], "2001:db8::/64"),
    "IPv6 in brackets with a port": (PROXY_ADDRESS, ["[2001:db8::7]:5678"], "2001:db8::/64"),
    "IPv6 with one bracket": (PROXY_ADDRESS, ["[2001:db8::7"], "2001:db8::/64"),
    "IPv6 with a zone": (PROXY_ADDRESS, ["fe80::1%eth0"], "fe80::/64"),
    "a zone that is another address": (PROXY_ADDRESS, ["fe80::1%1.2.3.4"], "fe80::/64"),
    "IPv4 with a zone": (PROXY_ADDRESS, ["1.2.3.4%eth0"], "1.2.3.4"),
    "a peer with a zone": ("fe80::1%eth0", [], "fe80::/64"),
    # ---- one client of many addresses
    "an IPv6 client": ("2001:db8:0:1::5", [], "2001:db8:0:1::/64"),
    "another address of its network": ("2001:db8:0:1:ffff::5", [], "2001:db8:0:1::/64"),
    "an address of the next network": ("2001:db8:0:2::5", [], "2001:db8:0:2::/64"),
    "an IPv6 client in capitals, in full": (PROXY_ADDRESS, ["2001:0DB8:0000:0001::5"], "2001:db8:0:1::/64"),
    "IPv4 in IPv6": ("::ffff:203.0.113.9", [], "203.0.113.9"),
    "IPv4 in IPv6, hexadecimal": (PROXY_ADDRESS, ["::ffff:102:304"], "1.2.3.4"),
    "a proxy by IPv4 in IPv6": ("::ffff:10.0.0.1", ["1.2.3.4"], "1.2.3.4"),
    "a proxy over IPv6": ("fd00::5", ["1.2.3.4"], "1.2.3.4"),
}
"""The peer, the headers in their order, and the client that the request is counted for."""

SPOOFS = {
    "an address each": lambda number: [f"1.2.3.{number}"],
    "a chain each": lambda number: [f"1.2.3.{number}, 198.51.100.7"],
    "a header more each": lambda number: [f"1.2.3.{number}", "198.51.100.7"],
    "an IPv6 address each": lambda number: [f"2001:db8:{number}::1"],
    "a port each": lambda number: [f"198.51.100.7:{number}"],
    "a proxy of this machine each": lambda number: [f"1.2.3.{number}, 127.0.0.{number}"],
}
"""Headers of the n-th request of one client."""
LIMIT = 3


@pytest.mark.parametrize("sentence", COUNTED)
def test_the_client_is_the_nearest_address_that_no_proxy_vouches_for(sentence: str) -> None:
    """Only a trusted proxy's word counts, and of its word only the last address."""
    peer, header, client = COUNTED[sentence]
    assert client_of(peer, header, PROXIES) == client


def test_without_trusted_proxies_the_header_is_not_read() -> None:
    """The default: the peer is counted, and its claims are not."""
    for sentence, (peer, header, _) in COUNTED.items():
        assert client_of(peer, header, ()) == client_of(peer, [], ()), sentence


def statuses(client: httpx.Client, spoof: str) -> list[int]:
    """Send one request more than the limit, each with other headers, and return the statuses."""
    answers = []
    for number in range(1, LIMIT + 2):
        headers = [("X-Forwarded-For", value) for value in SPOOFS[spoof](number)]
        answers.append(client.get("/v1/webhooks", headers=headers).status_code)
    return answers


@pytest.mark.slow
def test_a_client_does_not_escape_its_limit_by_headers(start_api: StartApi) -> None:
    """Without trusted proxies, all requests of an address are one count, however they are marked."""
    _, client = start_api({"HOOKWRIGHT_RATE_LIMIT_IP": str(LIMIT)})
    assert statuses(client, "an address each") == [401] * LIMIT + [429]
    for spoof in SPOOFS:
        assert statuses(client, spoof) == [429] * (LIMIT + 1), spoof
    second = ("Forwarded", "X-Real-IP", "X-Client-IP", "True-Client-IP", "CF-Connecting-IP", "X-Forwarded", "Client-IP")
    for name in second:
        assert client.get("/v1/webhooks", headers={name: "1.2.3.4"}).status_code == 429, name


def test_a_client_behind_a_proxy_does_not_escape_its_limit_by_headers(start_api: StartApi) -> None:
    """The proxy's word is the same each time; claims before it count for nothing."""
    _, client = start_api({**PROXY, "HOOKWRIGHT_RATE_LIMIT_IP": str(LIMIT)})
    assert statuses(client, "a chain each") == [401] * LIMIT + [429]
    for spoof in ("a chain each", "a header more each", "a port each"):
        assert statuses(client, spoof) == [429] * (LIMIT + 1), spoof
