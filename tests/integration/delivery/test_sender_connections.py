"""Connections of attempts: which are used, which bytes they carry, and which are not used again."""

import asyncio
import socket
import ssl
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from support.attempts import BODY, MESSAGE, SECRET, delivery_of, endpoint, loopback, send
from support.polling import PATIENCE, until
from support.receivers import answers, certificate, keeps_answering, read_request, serve
from support.tls_receiver import TlsReceiver, pem

from hookwright_dev.cluster.certificates import Authority
from hookwright_dev.receiver import Receiver
from hookwright_operator.delivery.http import client, tls_contexts
from hookwright_operator.delivery.http.connection import READ_LIMIT
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.delivery.http.signatures import signature_headers
from hookwright_operator.delivery.http.tls_contexts import TlsContexts
from hookwright_operator.registry import TlsIdentity

OK = b"HTTP/1.1 200 OK\r\n"
EMPTY = OK + b"Content-Length: 0\r\n\r\n"


async def until_unusable(sender: Sender) -> None:
    """Wait until no idle connection may be used again."""
    pool = sender._client
    assert pool is not None
    await until(
        lambda: (
            not any(connection.reusable for connections in pool._idle._by_origin.values() for connection in connections)
        )
    )


async def test_the_bytes_of_a_request_are_as_promised(sender: Sender) -> None:
    """Names have their usual case and this order, and occur once; an endpoint's header replaces a default one."""
    requests = asyncio.Queue[bytes]()

    async def listens(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.put_nowait(await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(len(BODY)))
        writer.write(EMPTY)

    async with serve(listens) as server:
        port = server.url.rpartition(":")[2].partition("/")[0]
        headers = (("X-Team", "caf\u00e9"), ("accept", "text/plain"), ("CONNECTION", "close"))
        assert (await send(sender, endpoint(server.url + "?a=%7e", headers=headers), now=lambda: 1.5)).delivered
    signatures = signature_headers((SECRET,), MESSAGE, 1, BODY)
    assert requests.get_nowait().decode() == (
        "POST /hooks?a=%7e HTTP/1.1\r\n"
        f"Host: 127.0.0.1:{port}\r\n"
        "User-Agent: Hookwright/test\r\n"
        "Content-Type: application/json\r\n"
        "accept: text/plain\r\n"
        "Accept-Encoding: identity\r\n"
        "X-Team: caf\u00e9\r\n"
        f"X-Service-Signature: {signatures['X-Service-Signature']}\r\n"
        f"webhook-id: {MESSAGE}\r\n"
        "webhook-timestamp: 1\r\n"
        f"webhook-signature: {signatures['webhook-signature']}\r\n"
        f"Content-Length: {len(BODY)}\r\n\r\n"
        f"{BODY.decode()}"
    )


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (("X-Team", "a\r\nX-Admin: 1"), "the value of the header X-Team has a control character"),
        (("X-Team", "a\nb"), "the value of the header X-Team has a control character"),
        (("X-Team", "a\0b"), "the value of the header X-Team has a control character"),
        (("X-Team\r\nX-Admin", "1"), "a header's name is not valid in HTTP"),
        (("X-Team: a", "1"), "a header's name is not valid in HTTP"),
        (("", "1"), "a header's name is not valid in HTTP"),
    ],
)
async def test_a_header_cannot_smuggle_another(
    sender: Sender, receiver: Receiver, header: tuple[str, str], words: str
) -> None:
    """The sender rejects headers that validation missed, and sends nothing."""
    outcome = await send(sender, endpoint(receiver.url, headers=(header,)))
    assert (outcome.status_code, outcome.error) == (0, words)
    assert receiver.received == []


async def test_neither_an_event_id_nor_a_url_can_smuggle_a_header(sender: Sender, receiver: Receiver) -> None:
    """The sender rejects control characters in event ids and URLs, and names and passwords before a host."""
    bad_id = await send(sender, endpoint(receiver.url), delivery_of(event_id="msg\r\nX-Admin: 1"))
    assert bad_id.error == "the event's id has a control character"
    for url in (f"http://a b.example:{receiver.port}/", f"http://me:hunter2@127.0.0.1:{receiver.port}/"):
        outcome = await send(sender, endpoint(url))
        assert outcome.error.startswith("invalid URL")
        assert "hunter2" not in outcome.error
    await send(sender, endpoint(receiver.url + "a\r\nX-Admin: 1"))
    assert all("X-Admin" not in request.headers for request in receiver.received)


@pytest.mark.parametrize("answer", [EMPTY, b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno"])
async def test_a_connection_is_kept_after_a_whole_answer(sender: Sender, answer: bytes) -> None:
    """The status makes no difference."""
    async with serve(keeps_answering(answer)) as server:
        statuses = {(await send(sender, endpoint(server.url))).status_code for _ in range(3)}
        assert server.connections == 1
    assert len(statuses) == 1
    assert 0 not in statuses


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nok",
        OK + b"Content-Length: 2\r\n\r\nok" + EMPTY,
        OK + b"Content-Length: 99999999\r\n\r\n" + b"x" * READ_LIMIT,
    ],
)
async def test_a_connection_is_not_kept_where_the_next_answer_could_be_mistaken(sender: Sender, answer: bytes) -> None:
    """The response is used, but each attempt has its own connection."""
    async with serve(keeps_answering(answer)) as server:
        for _ in range(3):
            assert (await send(sender, endpoint(server.url))).status_code == 200
        assert server.connections == 3


@pytest.mark.both_loops
async def test_a_connection_with_another_tls_identity_is_never_used(
    tls_receiver: TlsReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by an endpoint without the client certificate, and a renewed certificate has its own connection at once."""
    monkeypatch.setattr(client, "KEEPALIVE", 600.0)
    trusted, other = tls_receiver.trusted, Authority()
    cas = trusted.pem.decode()
    plain = replace(endpoint(tls_receiver.url), namespace="rival", uid="uid-2")
    endpoints = {
        name: replace(endpoint(tls_receiver.url), tls=identity(cas, pem(trusted.issue(name))))
        for name in ("first", "second")
    }
    foreign = replace(plain, tls=identity(cas, pem(other.issue("first"))))
    untrusting = replace(plain, tls=identity(other.pem.decode(), endpoints["first"].tls.pair))  # type: ignore[union-attr]
    async with loopback(tls=ssl.create_default_context(cadata=cas)) as sender:
        for name in ("first", "second", "first"):
            assert (await send(sender, endpoints[name])).delivered
            for stranger, status in ((plain, 400), (foreign, 400), (untrusting, 0)):
                outcome = await send(sender, stranger)
                assert (outcome.status_code, outcome.delivered) == (status, False)
                assert sender._client is not None
                assert len(sender._client._idle) == len(set(tls_receiver.clients))
            assert outcome.error.startswith("TLS: certificate verify failed")
    assert tls_receiver.clients == ["first", "second", "first"]


async def test_contexts_are_bounded_and_verify_certificates_and_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The namespace with the most loses one. A private authority replaces those of the system."""
    monkeypatch.setattr(tls_contexts, "_CONTEXTS", 3)
    contexts = TlsContexts()
    identities = [identity(Authority().pem.decode()) for _ in range(4)]
    mine = await contexts.context_of(identities[0], "acme")
    crowd = [await contexts.context_of(identity, "crowd") for identity in identities[1:]]
    assert await contexts.context_of(identities[0], "acme") is mine
    assert ("crowd", identities[1].digest) not in contexts._contexts
    assert await contexts.context_of(identities[1], "crowd") is crowd[0], "a context in use was made again"
    system = await contexts.context_of(None, "acme")
    for context in (mine, *crowd, system):
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
        assert context.options & ssl.OP_NO_RENEGOTIATION
    assert mine.cert_store_stats()["x509_ca"] == 1


def identity(authorities: str, pair: str = "") -> TlsIdentity:
    """Return a TLS identity; its digest is its texts."""
    return TlsIdentity(authorities + pair, authorities, pair)


async def test_an_idle_connection_is_closed_in_time(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle connections are closed before common servers close them, so that no attempt uses a closing connection."""
    monkeypatch.setattr(client, "KEEPALIVE", 0.05)
    monkeypatch.setattr(client, "_SWEEP", 0.02)
    departure = asyncio.Event()

    async def tells(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(EMPTY)
        await reader.read()
        departure.set()

    async with serve(tells) as server:
        assert (await send(sender, endpoint(server.url))).delivered
        await asyncio.wait_for(departure.wait(), PATIENCE)
        assert sender._client is not None
        assert (sender._client._idle._by_origin, sender._client._sweeping) == ({}, None)


async def test_an_old_connection_is_not_used_even_if_nobody_closed_it(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy loop may sweep late."""
    monkeypatch.setattr(client, "KEEPALIVE", 0.0)
    async with serve(keeps_answering(EMPTY)) as server:
        for _ in range(2):
            assert (await send(sender, endpoint(server.url))).delivered
        assert server.connections == 2


@pytest.mark.parametrize("last_words", [b"", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"])
@pytest.mark.both_loops
async def test_a_connection_that_closes_or_speaks_while_it_is_idle_is_not_used(
    sender: Sender, last_words: bytes
) -> None:
    """Unrequested data would be read as the next response, so the next attempt connects again."""

    async def leaves(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(EMPTY)
        await writer.drain()
        await asyncio.sleep(0.02)  # or both arrive as one
        if last_words:
            writer.write(last_words)
            await reader.read()

    async with serve(leaves) as server:
        for number in (1, 2):
            assert (await send(sender, endpoint(server.url))).status_code == 200
            await until_unusable(sender)
            assert server.connections == number


@pytest.mark.both_loops
async def test_a_connection_that_closes_at_the_moment_of_its_next_use_fails_that_attempt(sender: Sender) -> None:
    """The receiver may have processed the request, so it is not sent again without a recorded attempt."""

    async def answers_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(EMPTY)
        await read_request(reader)

    async with serve(answers_once) as server:
        assert (await send(sender, endpoint(server.url))).delivered
        outcome = await send(sender, endpoint(server.url))
        assert (outcome.status_code, outcome.error) == (0, "connection closed while waiting for the answer")
        assert server.connections == 1


@pytest.mark.both_loops
async def test_a_receiver_that_speaks_first_is_heard(sender: Sender) -> None:
    """Some receivers answer before the request, and some servers do not speak HTTP."""

    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 503 Busy\r\nRetry-After: 3\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await read_request(reader)

    async def greets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.com ESMTP\r\n")
        await reader.read()

    async with serve(refuses) as server:
        outcome = await send(sender, endpoint(server.url))
        assert (outcome.status_code, outcome.retry_after_ms) == (503, 3000)
    async with serve(greets) as server:
        assert (await send(sender, endpoint(server.url))).error == "invalid HTTP answer"


async def test_an_answer_that_overtakes_its_request_leaves_no_connection_behind(sender: Sender) -> None:
    """The rest of the unsent request would be read as the next request."""

    async def hasty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(EMPTY)
        await writer.drain()
        await asyncio.Event().wait()

    async with serve(hasty) as server:
        for number in (1, 2):
            outcome = await send(sender, endpoint(server.url), delivery_of(b"x" * 2**24))
            assert outcome.status_code == 200
            assert server.connections == number


async def test_connections_take_the_addresses_of_a_name_in_turn() -> None:
    """A name with several addresses distributes its load over them."""
    close = answers(OK + b"Content-Length: 0\r\nConnection: close\r\n\r\n")
    async with serve(close) as server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        async with (
            serve(close, host="127.0.0.2", port=port) as two,
            loopback(lookup=lambda _host, _port: ["127.0.0.1", "127.0.0.2"]) as sender,
        ):
            for _ in range(4):
                assert (await send(sender, endpoint(f"http://hooks.example.com:{port}/"))).delivered
            assert (server.connections, two.connections) == (2, 2)


async def test_dots_at_the_end_of_a_name_are_one_for_the_resolver_and_none_for_the_receiver(receiver: Receiver) -> None:
    """A dot marks a name as complete (RFC 1034 3.1); two dots are a mistake and count as one."""
    requests: list[str] = []

    def lookup(host: str, _port: int) -> list[str]:
        requests.append(host)
        return ["127.0.0.1"]

    async with loopback(lookup=lookup) as sender:
        assert (await send(sender, endpoint(f"http://hooks.example.com..:{receiver.port}/"))).delivered
    assert requests == ["hooks.example.com."]
    assert receiver.received[0].headers["Host"] == f"hooks.example.com:{receiver.port}"


@pytest.mark.both_loops
async def test_tls_names_the_host_offers_http1_and_passes_over_an_address_that_hangs_up(tmp_path: Path) -> None:
    """Receivers behind a shared address need SNI and ALPN, and one bad address does not fail the attempt."""
    server = certificate(tmp_path, name="hooks.example.com")
    server.set_alpn_protocols(["h2", "http/1.1"])
    names: list[str | None] = []
    server.sni_callback = lambda _socket, name, _context: names.append(name)
    trusting = ssl.create_default_context(cafile=tmp_path / "server.pem")
    trusting.set_alpn_protocols(["http/1.1"])
    spoken: list[str | None] = []

    async def listens(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        spoken.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
        await keeps_answering(EMPTY)(reader, writer)

    async def hangs_up(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read(10)

    async with serve(listens, tls=server) as good:
        port = int(good.url.rpartition(":")[2].partition("/")[0])
        async with (
            serve(hangs_up, host="127.0.0.2", port=port) as bad,
            loopback(lookup=lambda _host, _port: ["127.0.0.2", "127.0.0.1"], tls=trusting) as sender,
        ):
            for _ in range(2):
                outcome = await send(sender, endpoint(f"https://hooks.example.com.:{port}/"))
                assert outcome.error == ""
            assert (good.connections, bad.connections) == (1, 1)
    assert (names, spoken) == (["hooks.example.com"], ["http/1.1"])


@pytest.mark.both_loops
async def test_closing_ends_what_is_idle_and_what_is_under_way() -> None:
    """No connection outlives the sender."""
    arrival, queue = asyncio.Event(), asyncio.Queue[int]()

    async def waits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(EMPTY)
        await read_request(reader)
        arrival.set()
        await reader.read()
        queue.put_nowait(1)

    async with serve(waits) as server:
        to = replace(endpoint(server.url), timeout=30)
        async with loopback() as sender:
            assert (await send(sender, to)).delivered
            under_way = asyncio.create_task(send(sender, to))
            await asyncio.wait_for(arrival.wait(), PATIENCE)
        assert (await under_way).error == "connection closed while waiting for the answer"
        await asyncio.wait_for(queue.get(), PATIENCE)


async def test_an_attempt_that_was_still_connecting_leaves_nothing_open_after_closing() -> None:
    """Closing does not wait for look-ups that hang; a connection that they lead to later is closed at once."""
    question, go_on = threading.Event(), threading.Event()

    def lookup(_host: str, _port: int) -> list[str]:
        question.set()
        go_on.wait(PATIENCE)
        return ["127.0.0.1"]

    async with serve(keeps_answering(EMPTY)) as server:
        port = server.url.rpartition(":")[2]
        try:
            async with loopback(lookup=lookup) as sender:
                under_way = asyncio.create_task(send(sender, endpoint(f"http://hooks.example.com:{port}")))
                await until(question.is_set)
        finally:
            go_on.set()
        assert (await under_way).error == "connection closed while waiting for the answer"
        assert (await send(sender, endpoint(server.url))).error == "internal error: RuntimeError"


async def test_a_connection_that_the_network_gives_up_is_not_taken_for_our_own_timeout(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python raises TimeoutError for ETIMEDOUT too; here the kernel times out long before the attempt would."""

    class Impatient(client._Socket):
        def __init__(self, *kind: int, own_faults: list[OSError]) -> None:
            super().__init__(*kind, own_faults=own_faults)
            self.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 100)

    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(8)]
        try:
            for waiter in waiting:
                waiter.setblocking(False)  # noqa: FBT003 - positional in C
                waiter.connect_ex(full.getsockname())
            monkeypatch.setattr(client, "_Socket", Impatient)
            outcome = await send(sender, endpoint(f"http://127.0.0.1:{full.getsockname()[1]}/", timeout=30))
        finally:
            for waiter in waiting:
                waiter.close()
    assert outcome.error == "connection timed out"
