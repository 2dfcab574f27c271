"""Heads of requests before any credential: too large, too long, malformed or too slow; tried on both processes."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from integration.api import conftest as shared
from integration.api.conftest import StartApi
from support.api_processes import problem_of
from support.attacks import MIB, Installation, Memory, connect, exchange, read_answer

from hookwright_dev.cluster.installation import OperatorProcess

control_plane, operator, start_api = shared.control_plane, shared.operator, shared.start_api

PROCESSES = ("operator", "api")
LIMIT = 400
"""Requests of an address within a minute. Each flood below comes from another address."""
GET = b"GET /v1/webhooks HTTP/1.1\r\nHost: x\r\n"
POST = b"POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def site(operator: OperatorProcess, start_api: StartApi) -> Installation:
    """Return the stack's operator, and an API with a limit."""
    return Installation(operator, start_api({"HOOKWRIGHT_RATE_LIMIT_IP": str(LIMIT)})[0])


def flood(connection: socket.socket, piece: bytes, *, total: int) -> int:
    """Send a piece again and again until the server ends the connection; return the bytes that were sent."""
    count = 0
    with suppress(ConnectionError, TimeoutError):
        while count < total:
            connection.sendall(piece)
            count += len(piece)
    return count


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (GET, b"X-%06d: " + b"a" * 1000 + b"\r\n"),
        (GET + b"X-Endless: ", b"a" * 1024),
        (GET, b"a:\r\n" * 256),
        (b"GET /", b"a" * 1024),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X-Trailer: " + b"a" * 1000 + b"\r\n"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n1;", b"a" * 1024),
    ],
    ids=["many headers", "one header", "tiny headers", "url", "trailers", "chunk extension"],
)
def test_a_head_without_end_takes_no_memory(site: Installation, name: str, start: bytes, piece: bytes) -> None:
    """40 MB on one connection cost the process less than 24 MiB; they cost 560 to 840 MB before heads were bounded."""
    memory = Memory(site.process(name).running.pid)
    with connect(site.ports[name]) as connection:
        connection.sendall(start)
        flood(connection, piece * 64, total=40_000_000)
    assert site.healthy(name)
    assert memory.grown() < 24 * MIB


@pytest.mark.parametrize("name", PROCESSES)
def test_heads_without_end_on_many_connections_take_little_memory(site: Installation, name: str) -> None:
    """60 connections that hold 60 KB of an incomplete head each."""
    memory = Memory(site.process(name).running.pid)
    connections = [connect(site.ports[name]) for _ in range(60)]
    for connection in connections:
        connection.sendall(GET + b"X-Endless: " + b"a" * 60_000)
    assert site.healthy(name)
    assert memory.grown() < 40 * MIB
    for connection in connections:
        connection.close()


CASES = {
    "a head of 64 KiB is served": (GET + b"X-Long: " + b"a" * 65_400 + b"\r\n\r\n", {401, 404}),
    "a larger head is refused": (GET + b"X-Long: " + b"a" * 66_000 + b"\r\n\r\n", {431}),
    "256 headers are served": (GET + b"X-H: a\r\n" * 255 + b"\r\n", {401, 404}),
    "more headers are refused": (GET + b"X-H: a\r\n" * 256 + b"\r\n", {431}),
    "a URL of 8 KiB is served": (b"GET /" + b"a" * 8191 + b" HTTP/1.1\r\nHost: x\r\n\r\n", {404}),
    "a longer URL is refused": (b"GET /" + b"a" * 8192 + b" HTTP/1.1\r\nHost: x\r\n\r\n", {414}),
    "a very long URL is refused": (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", {414}),
    "a line that is no request is refused": (b"HELLO\r\n\r\n", {400}),
    "TLS on a port for HTTP is refused": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", {400}),
    "HTTP/2 is refused": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400}),
    "CONNECT is refused": (b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", {400}),
    "two lengths are refused": (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", {400}),
    "length and chunks together are refused": (
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        {400},
    ),
    "a header without a colon is refused": (GET + b"nonsense\r\n\r\n", {400}),
    "a length that is a sum is refused": (POST + b"Content-Length: 1+1\r\n\r\n{}", {400}),
    "a negative length is refused": (POST + b"Content-Length: -1\r\n\r\n{}", {400}),
    "a coding that is almost chunked is refused": (
        POST + b"Transfer-Encoding: xchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        {400},
    ),
    "a chunk that is no number is refused": (POST + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n{}\r\n", {400}),
    "a space before a colon is refused": (GET + b"X-Nonsense : 1\r\n\r\n", {400}),
    "a header without a name is refused": (GET + b": nonsense\r\n\r\n", {400}),
    "a zero byte in a header is refused": (GET + b"X-Nonsense: a\0b\r\n\r\n", {400}),
    "a line break in a path is refused": (b"GET /v1/\nnonsense HTTP/1.1\r\nHost: a\r\n\r\n", {400}),
    "a version that is none is refused": (b"GET /v1/webhooks HTTP/nonsense\r\nHost: a\r\n\r\n", {400}),
    "no version is refused": (b"GET nonsense\r\n\r\n", {400}),
}


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize("case", CASES)
def test_bounds_of_a_head(site: Installation, name: str, case: str) -> None:
    """Each refusal is a problem document that ends the connection, on /v1 with the headers of the rate limit."""
    request, statuses = CASES[case]
    with connect(site.ports[name]) as connection:
        with suppress(ConnectionError):
            connection.sendall(request)
        answer = read_answer(connection)
        assert answer.status_code in statuses
        problem_of(answer, answer.status_code)
        if answer.status_code in (400, 414, 431):
            assert answer.headers["connection"] == "close"
            assert connection.recv(1) == b""
    if name == "api":
        assert answer.headers["x-ratelimit-limit"] == "400"
        assert answer.headers["ratelimit-policy"] == '"ip";q=400;w=60'
        assert int(answer.headers["x-ratelimit-remaining"]) < LIMIT
        assert int(answer.headers["x-ratelimit-reset"]) > time.time() - 60


def test_refused_heads_count_for_the_limit_per_address(site: Installation) -> None:
    """A flood of malformed requests is answered 429 like any flood, and does not touch other addresses."""
    with ThreadPoolExecutor(8) as threads:
        answers = list(
            threads.map(lambda _: exchange(site.api.port, b"HELLO\r\n\r\n", "127.0.0.8").status_code, range(LIMIT))
        )
    assert set(answers) == {400}
    assert [exchange(site.api.port, b"HELLO\r\n\r\n", "127.0.0.8").status_code for _ in range(2)] == [429] * 2
    assert exchange(site.api.port, b"HELLO\r\n\r\n", "127.0.0.9").status_code == 400


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize(
    ("request_bytes", "reason", "source"),
    [
        (b"HELLO\r\n\r\n", "malformed", "127.0.0.2"),
        (GET + b"Connection: Upgrade\r\nUpgrade: x\r\n\r\n", None, "127.0.0.3"),
        (GET + b"Authorization: Bearer nonsense\r\n\r\n", None, "127.0.0.4"),
        (GET + b"Content-Length: 99999999999\r\n\r\n", None, "127.0.0.5"),
    ],
    ids=["malformed", "upgrade", "wrong credential", "large body"],
)
def test_no_client_without_a_credential_fills_the_log(
    site: Installation, name: str, request_bytes: bytes, reason: str | None, source: str
) -> None:
    """200 requests write at most one line a second; each is counted in a metric instead."""
    before, began = lines_without_namespace(site.process(name).log), time.monotonic()
    count = site.refusals(name, reason) if reason else 0
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: exchange(site.ports[name], request_bytes, source).status_code, range(200)))
    assert set(answers) <= {400, 401, 404}
    lines = lines_without_namespace(site.process(name).log) - before
    assert lines <= time.monotonic() - began + 10, "some lines are about the tests before this one"
    if reason:
        assert site.refusals(name, reason) - count == 200


def lines_without_namespace(log: Path) -> int:
    """Return how many lines a log has, apart from those about objects of other tests, which are being deleted."""
    return sum(b'"namespace"' not in line for line in log.read_bytes().splitlines())


@pytest.mark.parametrize("name", PROCESSES)
def test_a_request_that_offers_another_protocol_is_served(site: Installation, name: str) -> None:
    """The body belongs to the request, and the connection ends with the one answer.

    Clients such as Java's offer h2c with their first request. A server that takes the body for the other protocol
    loses the body, or parses it as another request.
    """
    body = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    upgrade = POST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAA\r\n"
    with connect(site.ports[name]) as connection:
        connection.sendall(upgrade + b"Content-Length: %d\r\n\r\n" % len(body))
        connection.sendall(body)
        first = read_answer(connection)
        detail = problem_of(first, 400 if name == "api" else 404)["detail"]
        assert name != "api" or "not a JSON text" in detail
        assert first.headers["connection"] == "close"
        with suppress(ConnectionError):
            assert connection.recv(1) == b""


def test_a_large_request_is_served(site: Installation) -> None:
    """Bodies beyond the bound of heads are no heads: 200 KB of a login are read and judged."""
    answer = httpx.post(
        f"{site.api.url}/v1/auth/login", json={"email": "a@example.com", "password": "x" * 200_000}, timeout=30
    )
    assert answer.status_code in (401, 422)
