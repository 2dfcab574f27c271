"""The guard at real connections."""

from collections.abc import Sequence

import pytest
from support.attempts import endpoint, guarded, send
from support.receivers import serve

from hookwright_dev.receiver import Receiver
from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.delivery.http.resolver import GuardedResolver, system_lookup
from hookwright_runtime.errors import RefusedAddressError


class Lookup:
    """Answers look-ups from a list, one entry after the other; the last one is repeated."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> Sequence[str]:
        """Look up."""
        self.asked.append(f"{host}:{port}")
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "017700000001", "127.1", "localhost"])
async def test_the_resolver_judges_what_a_spelling_means(host: str) -> None:
    """The guard checks the address that getaddrinfo returns for a name."""
    resolver = GuardedResolver(Guard(), system_lookup)
    try:
        with pytest.raises(RefusedAddressError, match="is a loopback address"):
            await resolver.resolve("acme", host, 80)
    finally:
        await resolver.close()


async def test_a_name_that_is_rebound_is_judged_at_each_connection(receiver: Receiver) -> None:
    """A name that is public at the first check and loopback at the connection is refused."""
    lookup = Lookup(["203.0.114.9"], ["127.0.0.1"])
    guard = Guard()
    for address in lookup("hooks.example.com", receiver.port):
        guard.check(address)
    async with guarded(guard, lookup=lookup) as sender:
        outcome = await send(sender, endpoint(f"http://hooks.example.com:{receiver.port}/"))
    assert outcome.error == (
        "address refused: 127.0.0.1 is a loopback address; HOOKWRIGHT_ALLOWED_NETWORKS does not allow it"
    )
    assert len(lookup.asked) == 2
    assert receiver.received == []


@pytest.mark.both_loops
async def test_the_socket_is_judged_even_if_the_resolver_was_fooled(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last check uses the address that the socket connects to."""

    async def fooled(_: GuardedResolver, _namespace: str, _host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    monkeypatch.setattr(GuardedResolver, "resolve", fooled)
    async with guarded(Guard()) as sender:
        outcome = await send(sender, endpoint(f"http://hooks.example.com:{receiver.port}/"))
    assert outcome.error.startswith("address refused: 127.0.0.1 is a loopback address")
    assert receiver.received == []


@pytest.mark.both_loops
async def test_refused_addresses_of_a_name_are_dropped_and_the_rest_used(receiver: Receiver) -> None:
    """One bad record among good ones does not stop a delivery, and gets no connection."""
    lookup = Lookup(["10.0.0.1", "::1", "127.0.0.1"])
    async with guarded(Guard(["127.0.0.0/8"]), lookup=lookup) as sender:
        outcome = await send(sender, endpoint(f"http://hooks.example.com:{receiver.port}/"))
    assert outcome.delivered
    assert len(receiver.received) == 1


async def test_a_name_without_addresses_is_not_found() -> None:
    """An empty result of a look-up is no refusal."""
    async with guarded(Guard(), lookup=Lookup([])) as sender:
        outcome = await send(sender, endpoint("http://hooks.example.com/"))
    assert outcome.error == "name not found: hooks.example.com"


async def test_allowed_loopback_can_be_delivered_to_by_name_and_by_literal(receiver: Receiver) -> None:
    """An allowed network allows every form of its addresses: name, literal and mapped literal."""
    async with guarded(Guard(["127.0.0.0/8"])) as sender:
        for host in ("localhost", "127.0.0.1", "[::ffff:127.0.0.1]"):
            outcome = await send(sender, endpoint(f"http://{host}:{receiver.port}/"))
            assert (host, outcome.error) == (host, "")
    assert len(receiver.received) == 3


async def test_an_allowed_ipv6_literal_is_delivered_to() -> None:
    """Attempts reach IPv6 receivers."""
    async with Receiver(host="::1") as receiver, guarded(Guard(["::1/128"])) as sender:
        assert (await send(sender, endpoint(receiver.url))).delivered


async def test_an_allowed_host_suffix_opens_only_that_host(receiver: Receiver) -> None:
    """Receivers in the cluster can be allowed by name; the same address under another name stays refused."""
    guard = Guard(allowed_hosts=["hooks.svc.cluster.local"])
    async with guarded(guard, lookup=Lookup(["127.0.0.1"])) as sender:
        outcome = await send(sender, endpoint(f"http://orders.hooks.svc.cluster.local:{receiver.port}/"))
        second = await send(sender, endpoint(f"http://evil.example.com:{receiver.port}/"))
        literal = await send(sender, endpoint(f"http://127.0.0.1:{receiver.port}/"))
    assert outcome.error == ""
    assert second.error.startswith("address refused: ")
    assert literal.error.startswith("address refused: ")
    assert len(receiver.received) == 1


async def test_a_denied_host_is_not_even_looked_up(receiver: Receiver) -> None:
    """A denied suffix ends the attempt before the name is looked up."""
    lookup = Lookup(["127.0.0.1"])
    async with guarded(Guard(["127.0.0.0/8"], denied_hosts=["example.com"]), lookup=lookup) as sender:
        outcome = await send(sender, endpoint(f"http://hooks.example.com:{receiver.port}/"))
    assert outcome.error == "address refused: hooks.example.com is denied by this installation"
    assert lookup.asked == []


async def test_a_refused_address_is_never_connected_to() -> None:
    """Not even a TCP connection is made."""

    async def nothing(*_: object) -> None:
        raise AssertionError("connected")

    async with serve(nothing) as server, guarded(Guard()) as sender:
        assert not (await send(sender, endpoint(server.url))).delivered
        assert server.connections == 0
