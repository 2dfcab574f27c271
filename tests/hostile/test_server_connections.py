"""The HTTP server by itself: slow, silent, greedy and malformed connections."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress

import httpx
import pytest
from prometheus_client import REGISTRY
from starlette.types import Receive, Scope, Send
from support.attacks import LOOPBACK
from support.polling import until

from hookwright_runtime import protocol, refusals
from hookwright_runtime.connections import ConnectionBounds
from hookwright_runtime.problems import CLOSE, ProblemError, send_problem
from hookwright_runtime.refusals import PIPELINED, ROOM_CLOSED, UNREAD_CLOSED
from hookwright_runtime.server import Server

GET = b"GET /v1/webhooks HTTP/1.1\r\nHost: x\r\n\r\n"


async def hang(_scope: Scope, receive: Receive, _send: Send) -> None:
    """Answer nothing until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def pour(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer with more than any buffer takes."""
    piece = b"x" * 65_536
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(1000):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def greet(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer at once."""
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def serving(app: object, **bounds: int) -> AsyncIterator[int]:
    """Run a server and return its port."""
    limits = ConnectionBounds(total=bounds.get("total", 8), per_address=bounds.get("per_address", 8))
    server = await Server.start(app, host=LOOPBACK, port=0, bounds=limits, grace=1)  # type: ignore[arg-type]
    try:
        yield server.port
    finally:
        await server.stop()


def ended_early(reason: str) -> float:
    """Return how many connections the server has ended for a reason."""
    return REGISTRY.get_sample_value("hookwright_http_refusals_total", {"reason": reason}) or 0


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Return all bytes until the server ends the connection, which must be within 30 s."""
    answer = b""
    async with asyncio.timeout(30):
        # In pieces: a reset must not lose what came before it.
        with suppress(ConnectionError):
            while piece := await reader.read(65536):
                answer += piece
    return answer


async def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After its idle time, and not while a request is served."""
    monkeypatch.setattr(protocol, "IDLE_SECONDS", 0.5)
    async with serving(greet) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(GET)
        began = time.monotonic()
        assert (await ended(reader)).startswith(b"HTTP/1.1 204")
        assert time.monotonic() - began >= 0.5
        writer.close()


async def drip(writer: asyncio.StreamWriter, piece: bytes) -> None:
    """Send a piece every 50 ms until the task is cancelled."""
    while True:
        writer.write(piece)
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("start", "piece", "answer"),
    [
        (GET[:-2], b"X: y\r\n", b"HTTP/1.1 408"),
        (b"", b"", b""),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n", b"a", b"HTTP/1.1 204"),
    ],
    ids=["a head that drips", "nothing", "a body that drips after the answer"],
)
async def test_a_slow_request_is_ended(
    monkeypatch: pytest.MonkeyPatch, start: bytes, piece: bytes, answer: bytes
) -> None:
    """A head has 10 s, and so has the rest of a body whose request is answered."""
    assert refusals.HEAD_SECONDS == 10
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.5)
    async with serving(greet) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(start)
        began = time.monotonic()
        dripping = asyncio.create_task(drip(writer, piece))
        assert (await ended(reader)).startswith(answer)
        assert time.monotonic() - began >= 0.5
        dripping.cancel()
        writer.close()


async def test_a_client_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that makes no progress ends its connection, and the request with it."""
    monkeypatch.setattr(protocol, "STALL_SECONDS", 0.5)
    finish = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await pour(scope, receive, send)
        finish.set()

    async with serving(app) as port:
        with socket.create_connection((LOOPBACK, port)) as connection:
            connection.sendall(GET)
            async with asyncio.timeout(30):
                await finish.wait()


async def test_answers_that_one_address_does_not_read_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound its oldest connections end; a slow reader of another address gets its whole answer."""
    monkeypatch.setattr(protocol, "MOST_UNREAD", 64 * 1024 * 1024)
    answer = b"x" * (16 * 1024 * 1024)

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": answer})

    before = ended_early(UNREAD_CLOSED)
    async with serving(app, total=32, per_address=16) as port:
        with ExitStack() as stack:
            slow, _ = await _asked(port, "127.0.0.2", stack)
            hostile = [await _asked(port, LOOPBACK, stack) for _ in range(10)]
            await until(lambda: ended_early(UNREAD_CLOSED) >= before + 5)
            newest, _ = hostile[-1]
            for reader in (slow, newest):
                async with asyncio.timeout(30):
                    await reader.readexactly(len(answer))


async def _asked(port: int, source: str, stack: ExitStack) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a request from an address, and read nothing."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port, local_addr=(source, 0))
    stack.callback(writer.close)
    writer.write(GET)
    return reader, writer


async def test_a_pipelined_request_that_is_malformed_comes_after_the_first_answer() -> None:
    """The first request is answered whole, and then the connection ends."""

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.2)
        await greet(scope, receive, send)

    async with serving(slow) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(GET + b"HELLO\r\n\r\n")
        answer = await ended(reader)
        assert answer.count(b"HTTP/1.1") == 1
        assert answer.startswith(b"HTTP/1.1 204")
        writer.close()


async def test_a_malformed_body_is_refused_while_the_application_waits_for_it() -> None:
    """The application learns that the client is gone, and the client gets a 400."""
    departure = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await hang(scope, receive, send)
        departure.set()

    async with serving(app) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        await writer.drain()
        writer.write(b"nonsense\r\n")
        assert (await ended(reader)).startswith(b"HTTP/1.1 400")
        async with asyncio.timeout(10):
            await departure.wait()
        writer.close()


async def test_pipelined_requests_are_bounded() -> None:
    """A read of thousands of small requests leaves few of them in memory; then the connection ends."""
    count = 0

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal count
        count += 1
        await asyncio.sleep(0.1)
        await greet(scope, receive, send)

    async with serving(slow) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(GET * 5000)
        await ended(reader)
        assert 1 <= count <= PIPELINED + 1
        writer.close()


async def test_slow_bodies_of_a_few_addresses_keep_nobody_out() -> None:
    """At the bound the oldest request whose body is incomplete gives way, of the address that has the most of them."""
    slow = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\nx"

    count = 0
    before = ended_early(ROOM_CLOSED)

    async def whole(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal count
        count += 1
        while (message := await receive()).get("more_body"):
            pass
        if message["type"] == "http.request":
            await greet(scope, receive, send)

    async with serving(whole, total=8, per_address=4) as port:
        hostile = [
            await asyncio.open_connection(LOOPBACK, port, local_addr=(source, 0))
            for source in ["127.0.0.2"] * 4 + ["127.0.0.3"] * 4
        ]
        for _, writer in hostile:
            writer.write(slow)
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
            await until(lambda: count == len(hostile))
            for _ in range(3):
                assert (await client.get(f"http://{LOOPBACK}:{port}/")).status_code == 204
        assert ended_early(ROOM_CLOSED) > before
        for _, writer in hostile:
            writer.close()


async def test_ten_pipelined_requests_are_answered() -> None:
    """A client may pipeline a few requests."""
    async with serving(greet) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(GET * 10)
        async with asyncio.timeout(30):
            for _ in range(10):
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204")
        writer.close()


async def test_an_answered_request_whose_body_is_missing_gives_way() -> None:
    """A connection that keeps its body back after the answer is the first to make room."""
    async with serving(greet, total=2, per_address=2) as port:
        remainder, keeper = await asyncio.open_connection(LOOPBACK, port)
        keeper.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
        async with asyncio.timeout(30):
            assert (await remainder.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204")
        connections = [await asyncio.open_connection(LOOPBACK, port) for _ in range(2)]
        assert await ended(remainder) == b""
        for reader, writer in connections:
            writer.write(GET)
            async with asyncio.timeout(30):
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204")
        for _, writer in [(remainder, keeper), *connections]:
            writer.close()


async def test_an_upgrade_with_a_wrong_framing_is_refused() -> None:
    """The second parser's error is an answer, and no traceback in the log."""
    async with serving(greet) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(
            b"POST / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: x\r\nTransfer-Encoding: gzip\r\n\r\n"
        )
        assert b"HTTP/1.1 400" in await ended(reader)
        writer.close()


async def test_an_answer_that_ends_the_connection_is_read_while_the_client_sends() -> None:
    """The rest of the body is discarded for a second, because a reset would lose the answer."""

    async def refuse(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send_problem(send, ProblemError(413, "too large", headers=CLOSE))

    async with serving(refuse) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
        for _ in range(100):
            writer.write(b"x" * 65_536)
            await writer.drain()
        assert b"too large" in await ended(reader)
        writer.close()
