"""Attempts through the installation's proxy, which is tinyproxy."""

import asyncio
import ssl
from pathlib import Path

import pytest
from integration.delivery.test_sender_faults import certificate_of, closed_port
from structlog.testing import capture_logs
from support import receivers
from support.attempts import endpoint, send
from support.connect_proxy import ConnectProxy
from support.receivers import answers, certificate, keeps_answering, serve

from hookwright_operator.delivery.http.egress_proxy import EgressProxy
from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.delivery.http.resolver import system_lookup
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.settings import OperatorSettings
from hookwright_runtime.errors import SettingsError

EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def sender_by(url: str, *exceptions: str, tls: ssl.SSLContext | None = None) -> Sender:
    """Return a sender that uses a proxy."""
    guard, agent = Guard(["127.0.0.0/8"]), "Hookwright/test"
    return Sender(guard, user_agent=agent, allow_http=True, tls=tls, proxy=url, proxy_exceptions=exceptions)


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
async def test_a_receiver_is_reached_by_its_checked_address_and_connections_are_kept(
    connect_proxy: ConnectProxy, tmp_path: Path, *, tls: bool
) -> None:
    """The proxy gets the address that the guard allows; TLS ends at the receiver; the next attempt uses the tunnel."""
    context = certificate(tmp_path) if tls else None
    async with (
        serve(keeps_answering(EMPTY), tls=context) as receiver,
        sender_by(connect_proxy.url, tls=certificate_of(tmp_path) if tls else None) as sender,
    ):
        for _ in range(2):
            assert (await send(sender, endpoint(receiver.url))).error == ""
        assert connect_proxy.targets == [receiver.url.partition("//")[2].removesuffix("/hooks")]
        assert receiver.connections == 1


async def test_an_address_that_the_guard_refuses_does_not_reach_the_proxy(connect_proxy: ConnectProxy) -> None:
    """The receiver of a tenant cannot be the proxy's own network."""
    async with sender_by(connect_proxy.url) as sender:
        outcome = await send(sender, endpoint("http://10.0.0.1/hooks"))
        assert outcome.error.startswith("address refused: 10.0.0.1 is a private address")
        assert connect_proxy.targets == []


async def test_exceptions_are_reached_without_the_proxy() -> None:
    """By a domain or by a network."""
    proxy_url = f"http://127.0.0.1:{closed_port()}"
    async with serve(answers(EMPTY)) as receiver:
        for exception, url in (
            ("localhost", receiver.url.replace("127.0.0.1", "localhost")),
            ("127.0.0.0/8", receiver.url),
        ):
            async with sender_by(proxy_url, exception) as sender:
                assert (await send(sender, endpoint(url, timeout=5))).delivered


async def test_a_name_with_one_address_inside_an_exception_does_not_bypass_the_proxy() -> None:
    """Its owner could otherwise choose the direct way to the other address."""
    proxy = EgressProxy("http://127.0.0.1:3128", ("10.0.0.0/8", "internal.example.com"), system_lookup)
    assert proxy.serves("a.example.org", ["10.0.0.5", "203.0.113.9"])
    assert not proxy.serves("a.example.org", ["10.0.0.5", "10.0.0.6"])
    assert not proxy.serves("a.internal.example.com", ["203.0.113.9"])
    await proxy.close()


async def test_a_fault_of_the_proxy_is_charged_to_no_receiver_and_shows_no_password(
    connect_proxy: ConnectProxy,
) -> None:
    """It is stopped, refuses the password or speaks no HTTP; the next attempt succeeds when it works again."""
    connect_proxy.stop()
    async with serve(answers(EMPTY)) as receiver, sender_by(connect_proxy.url) as sender:
        target = endpoint(receiver.url, timeout=5)
        for behaviour in (None, receivers.resets, answers(b"220 mail.example.com\r\n\r\n")):
            with capture_logs() as logs:
                if behaviour is None:
                    outcome = await send(sender, target)
                else:
                    async with serve(behaviour, port=connect_proxy.port):
                        outcome = await send(sender, target)
            assert (outcome.own_fault, outcome.status_code) == ("proxy", 0)
            assert "p.ss" not in f"{logs}{outcome}"
        assert receiver.connections == 0
        connect_proxy.start()
        assert (await send(sender, target)).delivered
    for user, status in (("hooks:wrong@", 401), ("", 407)):
        async with sender_by(connect_proxy.url.replace("hooks:p%2Ess@", user)) as sender:
            outcome = await send(sender, target)
            fault = f"the egress proxy refuses the credentials of HOOKWRIGHT_PROXY_URL (HTTP {status})"
            assert (outcome.own_fault, outcome.error) == ("proxy", fault)


async def test_a_proxy_that_accepts_no_connection_is_charged_to_no_receiver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline of the attempt passes before the proxy has the connection."""
    monkeypatch.setattr(EgressProxy, "_connect", lambda _: asyncio.Event().wait())
    async with sender_by("http://127.0.0.1:3128") as sender:
        outcome = await send(sender, endpoint("http://127.0.0.1:9/hooks", timeout=0.2))
    assert (outcome.own_fault, outcome.error) == ("proxy", "the egress proxy does not accept a connection")


async def test_what_the_proxy_cannot_reach_is_a_failed_attempt(connect_proxy: ConnectProxy) -> None:
    """A receiver that is down, or one that hangs behind the proxy, is charged as without a proxy."""
    async with serve(receivers.hangs) as silent, sender_by(connect_proxy.url) as sender:
        outcome = await send(sender, endpoint(f"http://127.0.0.1:{closed_port()}/hooks"))
        assert (outcome.own_fault, outcome.error) == ("", "the egress proxy cannot connect, or refuses: HTTP 500")
        outcome = await send(sender, endpoint(silent.url, timeout=0.5))
        assert (outcome.own_fault, outcome.timed_out) == ("", True)


@pytest.mark.parametrize(
    ("name", "value"),
    [("PROXY_URL", "https://hooks:secret@proxy:3128"), ("PROXY_EXCEPTIONS", "http://internal")],
)
def test_a_wrong_setting_is_refused_with_its_correct_form(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """The process does not start."""
    monkeypatch.setenv(f"HOOKWRIGHT_{name}", value)
    with pytest.raises(SettingsError, match=f"HOOKWRIGHT_{name}: .*; write ") as error:
        OperatorSettings.load()
    assert "secret" not in str(error.value)
