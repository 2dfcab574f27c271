"""Every failure of an attempt becomes an outcome with a clear error, in time, and with bounded memory."""

import asyncio
import socket
import ssl
import threading
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from support import receivers
from support.attempts import MESSAGE, SECRET, delivery_of, endpoint, guarded, loopback, send
from support.polling import PATIENCE
from support.receivers import answers, certificate, serve

from hookwright_dev.receiver import Received, Receiver
from hookwright_operator.delivery.http.connection import MOST_HEADERS
from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.delivery.http.sender import Sender

OK = b"HTTP/1.1 200 OK\r\n"


def closed_port() -> int:
    """Return a port without a listener."""
    with socket.socket() as closed_socket:
        closed_socket.bind(("127.0.0.1", 0))
        return int(closed_socket.getsockname()[1])


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (receivers.resets, "connection reset while waiting for the answer"),
        (receivers.half_closes, "connection closed while waiting for the answer"),
        (answers(b"SSH-2.0-OpenSSH_9.9\r\n"), "invalid HTTP answer"),
        (answers(b"HTTP/1.1 200 OK\r\nBad Header\x00: x\r\n\r\n"), "invalid HTTP answer"),
        (receivers.sends_headers_without_end, "invalid HTTP answer"),
        (answers(OK + b"a:\r\n" * (MOST_HEADERS + 1) + b"\r\n"), "invalid HTTP answer"),
    ],
)
async def test_no_usable_answer_is_status_0_and_its_cause(
    sender: Sender, behaviour: receivers.Behaviour, words: str
) -> None:
    """A failure before there is an HTTP status has an error that names its cause."""
    async with serve(behaviour) as server:
        outcome = await send(sender, endpoint(server.url))
    assert (outcome.status_code, outcome.error, outcome.delivered) == (0, words, False)
    assert server.connections == 1, "an attempt was repeated without being recorded"


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (receivers.resets_within_the_body, "the body is malformed or cut short"),
        (answers(OK + b"Content-Length: 10\r\n\r\nshort"), "the body is malformed or cut short"),
    ],
)
@pytest.mark.both_loops
async def test_an_answer_cut_short_does_not_deliver(sender: Sender, behaviour: receivers.Behaviour, words: str) -> None:
    """A 200 whose body is incomplete (RFC 9112 8) is retried."""
    async with serve(behaviour) as server:
        outcome = await send(sender, endpoint(server.url))
    assert outcome.status_code == 200
    assert words in outcome.error
    assert not outcome.delivered


async def test_the_status_says_more_than_a_broken_body(sender: Sender) -> None:
    """If the status is a failure, the error is the status and not the broken body."""
    async with serve(answers(b"HTTP/1.1 500 No\r\nContent-Length: 10\r\n\r\nshort")) as server:
        outcome = await send(sender, endpoint(server.url))
    assert (outcome.error, outcome.response) == ("HTTP 500 Internal Server Error", "short")


@pytest.mark.parametrize(
    ("behaviour", "status", "step"),
    [
        (receivers.hangs, 0, "waiting for the answer"),
        (receivers.drips_headers, 0, "waiting for the answer"),
        (receivers.sends_informational_answers_without_end, 0, "waiting for the answer"),
        (receivers.drips, 200, "reading the answer"),
    ],
)
@pytest.mark.both_loops
async def test_the_timeout_covers_the_whole_attempt(
    sender: Sender, behaviour: receivers.Behaviour, status: int, step: str
) -> None:
    """Neither a receiver that hangs nor one that sends slowly exceeds the timeout, and the error names the step."""
    async with serve(behaviour) as server:
        outcome = await send(sender, endpoint(server.url, timeout=1))
    assert (outcome.status_code, outcome.error) == (status, f"timed out after 1 s while {step}")
    assert outcome.timed_out
    assert not outcome.delivered
    assert 1000 <= outcome.duration_ms < 20_000


@pytest.mark.both_loops
async def test_a_full_listen_queue_times_out_while_connecting(sender: Sender) -> None:
    """The timeout includes connecting."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(8)]
        try:
            for client in waiting:
                client.setblocking(False)  # noqa: FBT003 - positional in C
                client.connect_ex(("127.0.0.1", port))
            outcome = await send(sender, endpoint(f"http://127.0.0.1:{port}/", timeout=0.4))
        finally:
            for client in waiting:
                client.close()
    assert outcome.error == "timed out after 0.4 s while connecting"


async def test_a_stall_of_this_process_is_not_charged_to_the_receiver(sender: Sender, receiver: Receiver) -> None:
    """The event loop stands still from the beginning of the connection until after the timeout."""

    async def stall() -> None:
        end = time.monotonic() + 4.5
        while time.monotonic() < end:
            pass

    outcome, _ = await asyncio.gather(send(sender, endpoint(receiver.url, timeout=2)), stall())
    assert (outcome.delivered, outcome.error, outcome.timed_out) == (True, "", False)
    assert 2000 <= outcome.duration_ms <= 4100, "the stall counts up to the timeout"


@pytest.mark.both_loops
async def test_a_tls_handshake_that_hangs_times_out_while_connecting(sender: Sender) -> None:
    """The timeout includes the TLS handshake."""

    async def says_nothing(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serve(says_nothing) as server:
        outcome = await send(sender, endpoint(server.url.replace("http:", "https:"), timeout=0.4))
    assert outcome.error == "timed out after 0.4 s while connecting"


async def test_a_closed_port_is_connection_refused(sender: Sender) -> None:
    """The error of a closed port is "connection refused"."""
    outcome = await send(sender, endpoint(f"http://127.0.0.1:{closed_port()}/"))
    assert (outcome.status_code, outcome.error) == (0, "connection refused")


async def test_an_unknown_name_is_name_not_found(sender: Sender) -> None:
    """A reserved name (RFC 6761) does not exist."""
    outcome = await send(sender, endpoint("http://receiver.invalid/hooks?token=abc"))
    assert outcome.error == "name not found: receiver.invalid"


@pytest.mark.parametrize("host", ["a" * 64 + ".example.com", "a..example.com"])
async def test_a_name_that_cannot_be_is_name_not_found(sender: Sender, host: str) -> None:
    """Names that the resolver rejects fail like names that do not exist."""
    outcome = await send(sender, endpoint(f"http://{host}/"))
    assert outcome.error in (f"name not found: {host}", "invalid URL")


async def test_a_name_server_that_fails_is_not_a_missing_name() -> None:
    """A temporary failure has a different error, because its cause is the name server."""

    def fails(_host: str, _port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    async with loopback(lookup=fails) as sender:
        outcome = await send(sender, endpoint("http://example.com/"))
    assert outcome.error == "name lookup failed: example.com"


async def test_lookups_that_hang_time_out_and_starve_nobody(receiver: Receiver) -> None:
    """The timeout includes the look-up; twenty look-ups that hang delay neither other names nor other threads."""
    finish = threading.Event()

    def lookup(host: str, _port: int) -> list[str]:
        if host.startswith("hangs"):
            finish.wait(PATIENCE)
        return ["127.0.0.1"]

    async with loopback(lookup=lookup) as sender:
        hanging = [endpoint(f"http://hangs-{number}.example.com/", timeout=0.5) for number in range(20)]
        attempts = [asyncio.create_task(send(sender, to)) for to in hanging for _ in range(3)]
        try:
            await asyncio.sleep(0)
            quick = await send(sender, endpoint(f"http://works.example.com:{receiver.port}/"))
            await asyncio.wait_for(asyncio.to_thread(int), PATIENCE / 2)
            assert quick.delivered
            for outcome in await asyncio.gather(*attempts):
                assert outcome.error == "timed out after 0.5 s while looking up the name"
        finally:
            finish.set()


async def test_a_name_is_looked_up_once_for_many_attempts(receiver: Receiver) -> None:
    """Found addresses are kept for a few seconds, so that a burst of attempts causes one DNS query."""
    requests: list[str] = []

    def lookup(host: str, _port: int) -> list[str]:
        requests.append(host)
        return ["127.0.0.1"]

    async with loopback(lookup=lookup) as sender:
        to = endpoint(f"http://works.example.com:{receiver.port}/")
        outcomes = await asyncio.gather(*(send(sender, to) for _ in range(20)))
    assert all(outcome.delivered for outcome in outcomes)
    assert requests == ["works.example.com"]


@pytest.mark.both_loops
async def test_tls_works_and_its_faults_are_told(sender: Sender, tmp_path: Path) -> None:
    """A trusted certificate delivers; an unknown issuer, a wrong name and an expired one each have an error."""
    async with Receiver(tls=certificate(tmp_path)) as receiver, loopback(tls=certificate_of(tmp_path)) as knowing:
        assert (await send(knowing, endpoint(receiver.url))).delivered
        unknown = await send(sender, endpoint(receiver.url))
    assert unknown.error.startswith("TLS: certificate verify failed: unable to get")
    assert len(receiver.received) == 1

    for name, days, complaint in (("127.0.0.9", 1, "not valid for '127.0.0.1'"), ("127.0.0.1", -1, "has expired")):
        server = certificate(tmp_path, name=name, valid_days=days)
        async with Receiver(tls=server) as receiver, loopback(tls=certificate_of(tmp_path)) as knowing:
            outcome = await send(knowing, endpoint(receiver.url))
        assert outcome.error.startswith("TLS: certificate verify failed: ")
        assert complaint in outcome.error
        assert receiver.received == []


@pytest.mark.both_loops
async def test_a_failed_handshake_leaves_its_port_free(sender: Sender, tmp_path: Path) -> None:
    """A port of a connection in TIME_WAIT could not be used for another connection to this receiver for 60 s."""
    async with Receiver(tls=certificate(tmp_path)) as receiver, loopback(tls=certificate_of(tmp_path)) as knowing:
        before = waiting_ports(receiver.port)  # of a client of another test that had this port
        for _ in range(3):
            assert (await send(sender, endpoint(receiver.url))).error.startswith("TLS: certificate verify failed")
        assert waiting_ports(receiver.port) <= before
        assert (await send(knowing, endpoint(receiver.url))).delivered


def certificate_of(folder: Path) -> ssl.SSLContext:
    """Return a context that trusts the certificate of `certificate`."""
    return ssl.create_default_context(cafile=folder / "server.pem")


def waiting_ports(port: int) -> int:
    """Return how many connections to a local port are in TIME_WAIT at the side that began them."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[2].endswith(f":{port:04X}") and line.split()[3] == "06" for line in lines)


async def test_https_to_a_plain_server_is_a_tls_fault(sender: Sender, receiver: Receiver) -> None:
    """The error shows that the URL has the wrong scheme."""
    outcome = await send(sender, endpoint(receiver.url.replace("http:", "https:")))
    assert outcome.error.startswith("TLS: ")
    assert outcome.status_code == 0


@pytest.mark.both_loops
async def test_a_receiver_that_hangs_up_amid_the_handshake_is_a_tls_fault(tmp_path: Path) -> None:
    """A receiver that requires a client certificate, or closes in the handshake, has a TLS error."""
    asking = certificate(tmp_path)
    asking.verify_mode = ssl.CERT_REQUIRED
    asking.maximum_version = ssl.TLSVersion.TLSv1_2  # with 1.3 its refusal comes after the handshake

    async def hangs_up(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read(10)

    async with loopback(tls=certificate_of(tmp_path)) as sender:
        async with serve(answers(b""), tls=asking) as server:
            assert (await send(sender, endpoint(server.url))).error.startswith("TLS: ")
        async with serve(hangs_up) as server:
            outcome = await send(sender, endpoint(server.url.replace("http:", "https:")))
    assert outcome.error == "TLS: connection closed during the handshake"


async def test_addresses_that_fail_in_different_ways_are_told_as_one() -> None:
    """If several addresses fail differently, the error names no single cause."""
    guard = Guard(["127.0.0.0/8", "ff00::/8"])
    sender = guarded(guard, lookup=lambda _host, _port: ["ff0e::1", "127.0.0.2"])
    async with serve(receivers.hangs) as server, sender:
        port = server.url.rpartition(":")[2]
        outcome = await send(sender, endpoint(f"http://hooks.example.com:{port}"))
    assert outcome.error == "cannot connect: no address of the host answers"


async def test_a_hundred_megabytes_are_not_read(sender: Sender) -> None:
    """The status decides, the rest of the response is not read, and memory stays constant."""
    much = receivers.AnswersMuch(100 * 2**20)
    async with serve(much) as server:
        tracemalloc.start()
        try:
            outcome = await send(sender, endpoint(server.url))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert outcome.delivered
    assert len(outcome.response) == 4096
    assert much.sent < 20 * 2**20, "more was read than the sockets' buffers hold"
    assert peak < 8 * 2**20


async def test_a_compression_bomb_stays_small(sender: Sender) -> None:
    """Fifty megabytes in fifty kilobytes are decompressed up to the excerpt's limit only."""
    bomb = receivers.bomb(50 * 2**20, 31)
    async with serve(answers(receivers.coded("gzip", bomb))) as server:
        tracemalloc.start()
        try:
            outcome = await send(sender, endpoint(server.url))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert outcome.delivered
    assert outcome.response == "0" * 4096
    assert peak < 4 * 2**20


async def test_an_answer_before_the_request_was_read_counts(sender: Sender) -> None:
    """A receiver may refuse a large body after the headers alone."""

    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        await reader.read()

    async with serve(refuses) as server:
        outcome = await send(sender, endpoint(server.url), delivery_of(b"x" * 1_000_000))
    assert outcome.error == "HTTP 413 Content Too Large" or outcome.error.startswith("HTTP 413")


@pytest.mark.both_loops
async def test_cancelling_passes_through_and_closes_the_connection(sender: Sender) -> None:
    """A cancelled attempt stops at once and leaves no request behind."""
    arrival, departure = asyncio.Event(), asyncio.Event()

    async def waits(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await receivers.read_request(reader)
        arrival.set()
        await reader.read()
        departure.set()

    async with serve(waits) as server:
        attempt = asyncio.create_task(send(sender, endpoint(server.url)))
        await asyncio.wait_for(arrival.wait(), PATIENCE)
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        await asyncio.wait_for(departure.wait(), PATIENCE)


async def test_a_failed_attempt_leaves_the_next_one_alone(sender: Sender) -> None:
    """After a timeout, and after an incomplete response, the next attempt uses a new connection."""
    count = 0

    async def hangs_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        await receivers.read_request(reader)
        count += 1
        if count == 1:
            await asyncio.Event().wait()
        writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")

    async with serve(hangs_once) as server:
        assert (await send(sender, endpoint(server.url, timeout=1))).status_code == 0
        assert (await send(sender, endpoint(server.url))).status_code == 202
        assert server.connections == 2


async def test_what_nobody_expects_is_recorded_and_logged_without_its_text() -> None:
    """An internal error fails the attempt and not the queue, and no log or error quotes its text."""
    value = str(10**6)

    def breaks(_host: str, _port: int) -> list[str]:
        raise ZeroDivisionError(value)

    async with loopback(lookup=breaks) as sender:
        with capture_logs() as logs:
            outcome = await send(sender, endpoint("http://example.com/"))
    assert outcome.error == "internal error: ZeroDivisionError"
    assert [entry["event"] for entry in logs] == ["attempt failed unexpectedly"]
    assert (logs[0]["namespace"], logs[0]["endpoint"], logs[0]["event_id"]) == ("acme", "orders", MESSAGE)
    assert "breaks" in logs[0]["stack"]
    assert value not in str(logs)


async def test_an_endpoint_without_a_secret_is_not_sent_to(sender: Sender, receiver: Receiver) -> None:
    """Nothing is sent without a signature."""
    absence = await send(sender, replace(endpoint(receiver.url), secrets=()))
    assert absence.error == "the endpoint has no signing secret yet"
    assert receiver.received == []


@pytest.mark.parametrize("url", ["http://[::1/", "http://host:99999/", "ftp://example.com/", "example.com", "http://"])
async def test_a_url_that_cannot_be_is_refused_in_words(sender: Sender, url: str) -> None:
    """The sender rejects URLs that validation missed."""
    outcome = await send(sender, endpoint(url))
    assert outcome.error
    assert "internal error" not in outcome.error


async def test_no_outcome_tells_a_secret(sender: Sender, receiver: Receiver) -> None:
    """Neither the secret, nor a static header's value, nor the query appears in errors, reprs or logs."""
    headers = (("Authorization", "Bearer hunter2"),)
    answers_seen: list[Received] = []

    def fail(received: Received) -> int:
        answers_seen.append(received)
        return 500

    receiver.answer = fail
    with capture_logs() as logs:
        for url in (
            receiver.url + "?token=hunter2",
            f"http://127.0.0.1:{closed_port()}/?token=hunter2",
            "http://receiver.invalid/?token=hunter2",
            "http://10.0.0.1/?token=hunter2",
            "http://2130706433/?token=hunter2",
            receiver.url.replace("http:", "https:") + "?token=hunter2",
        ):
            outcome = await send(sender, endpoint(url, headers=headers))
            assert outcome.error
            assert "hunter2" not in repr(outcome)
            assert SECRET not in repr(outcome)
    assert "hunter2" not in str(logs)
    assert "hunter2" not in repr(sender)
    assert len(answers_seen) == 1
