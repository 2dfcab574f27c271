"""URLs: which are refused and why; all parsers read the accepted ones alike."""

import re
import time
from ipaddress import IPv6Address
from urllib.parse import urlsplit

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from yarl import URL

from hookwright_crds.urls import _HOST, _IPV6, _PORT, MAX_URL_LENGTH, URL_RULES, check_url

HOSTS = st.from_regex(rf"\A{_HOST}\Z", alphabet=st.characters(max_codepoint=127))
PORTS = st.none() | st.integers(min_value=1, max_value=65535)
TAILS = st.text(alphabet="aZ0-._~!$&'()*+,;=:@/?[]", max_size=20).map(lambda text: "/" + text) | st.just("")
URLISH = st.text(alphabet="htps:/[]@#?%2a.-_ \\\n\té", max_size=30).map(lambda text: "https://" + text)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com", "https://example.com/", "HTTPS://Example.COM:8443/a?b=c", "http://receiver.acme.svc",
        "https://example.com/%C3%BC?next=https://other.example/@me", "http://127.0.0.1:9/", "https://[2001:db8::1]:443",
        "https://my_receiver", "https://example.com.",
    ],
)  # fmt: skip
def test_a_plain_url_passes_unchanged(url: str) -> None:
    """An accepted URL is kept unchanged: not normalised, not lower-cased."""
    assert check_url(url) == url


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("//example.com/hooks", "must be an absolute https URL"),
        ("ftp://example.com", "must be an absolute https URL"),
        ("file:///etc/passwd", "must be an absolute https URL"),
        ("https:/example.com", "must be an absolute https URL"),
        ("https://user:hunter2@example.com", "must not contain a user name or password"),
        ("https://hunter2@example.com", "must not contain a user name or password"),
        ("https://example.com/#hunter2", "must not have a fragment"),
        ("https://example.com/a b", "must not contain white space"),
        ("https://example.com/%%41", "must not contain white space"),
        ("https://example.com:080", "must name a valid host"),
        ("https://.a", "must name a valid host"),
        ("https://a-/", "must name a valid host"),
        ("https://[::1]a/", "must name a valid host"),
        ("https://[1::2::3]/", "must name a valid host"),
        ("https://[v1.x]/", "must name a valid host"),
    ],
)
def test_a_fault_is_told_without_repeating_the_url(url: str, sentence: str) -> None:
    """Each fault has one sentence with the correct form, without a credential; tests/cluster/crds/bad has more URLs."""
    with pytest.raises(ValueError, match=sentence) as error:
        check_url(url)
    assert "hunter2" not in str(error.value)


@given(st.sampled_from(["http", "https", "HTTPS"]), HOSTS, PORTS, TAILS)
def test_every_parser_reads_an_accepted_url_alike(scheme: str, host: str, port: int | None, tail: str) -> None:
    """Python's parser and the delivery client's parser find the same host and port."""
    url = check_url(f"{scheme}://{host}" + (f":{port}" if port else "") + tail)
    address, client = urlsplit(url), URL(url)
    assert address.hostname == host.lower().strip("[]")
    assert address.port == port
    assert client.explicit_port == port
    assert client.user is client.password is None
    if host.startswith("["):
        assert client.host is not None
        assert IPv6Address(client.host) == IPv6Address(host.strip("[]"))
    else:
        assert client.raw_host == host.lower()


@given(URLISH)
def test_no_text_raises_anything_but_a_sentence(url: str) -> None:
    """Every accepted URL has a host, and no userinfo, fragment or white space."""
    broken = [rule.sentence for rule in URL_RULES if not rule.allows(url)]
    if broken:
        with pytest.raises(ValueError, match=re.escape(broken[0])):
            check_url(url)
        return
    address = urlsplit(check_url(url))
    assert address.hostname
    assert "@" not in address.netloc
    assert "#" not in url
    assert url.split() == [url]


@given(st.ip_addresses(v=6))
def test_every_ipv6_address_is_accepted_in_its_forms(address: IPv6Address) -> None:
    """The short and the long form are accepted; the dotted form of an IPv4 address inside is another case."""
    # Since Python 3.13, `exploded` is dotted too if an IPv4 address is inside.
    groups = [f"{int.from_bytes(address.packed[place : place + 2]):04x}" for place in range(0, 16, 2)]
    assert check_url(f"https://[{':'.join(groups)}]/")
    short = str(address)
    assume("." not in short)
    assert check_url(f"https://[{short}]/")


@given(st.text(alphabet="0123456789abcdefF:", max_size=45))
def test_what_the_pattern_takes_for_ipv6_is_one(text: str) -> None:
    """The pattern and the standard library agree on every hexadecimal form."""
    try:
        IPv6Address(text)
    except ValueError:
        assert not re.fullmatch(_IPV6, text)
    else:
        assert re.fullmatch(_IPV6, text)


def test_a_port_is_from_1_to_65535() -> None:
    """The pattern accepts exactly the ports from 1 to 65535, without leading zeros."""
    ports = [port for port in range(70_000) if re.fullmatch(_PORT, str(port))]
    assert ports == list(range(1, 65_536))


def test_the_longest_url_is_judged_at_once() -> None:
    """Every pattern takes at most linear time over hostile text (limit in seconds; measured 0.001)."""
    for part in ("a.", "%", "@", "[", ":", "a", "-", "1:", "::"):
        url = ("https://" + part * MAX_URL_LENGTH)[:MAX_URL_LENGTH]
        start = time.process_time()
        for rule in URL_RULES:
            rule.allows(url)
        assert time.process_time() - start < 0.5, part
