"""Responses as a client reads them from the socket."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.types import Receive, Scope, Send

from hookwright_runtime.connections import ConnectionBounds
from hookwright_runtime.server import Server

BODY = b'{"accepted":1}'
LARGE = b"x" * 3_000_000


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Read the body and answer by the path: whole, large, in two pieces, empty, without a body, or a broken one."""
    while (await receive()).get("more_body"):
        pass
    path = scope["path"]
    body = {"/large": LARGE, "/empty": b"", "/none": b""}.get(path, BODY)
    status = 204 if path == "/none" else 200
    headers = [] if path in ("/pieces", "/none") else [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if path == "/broken":
        raise OSError("the body cannot be made")
    if path == "/pieces":
        await send({"type": "http.response.body", "body": b"first ", "more_body": True})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """Yield the port of a server."""
    server = await Server.start(app, host="127.0.0.1", port=0, bounds=ConnectionBounds(total=64, per_address=64))
    yield server.port
    await server.stop()


async def answers(port: int, request: bytes) -> bytes:
    """Send requests on one connection; return everything that arrives until the server closes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**23)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    return answer


def get(path: str, method: str = "GET", *more: str) -> bytes:
    """Return a request; the header ``Connection: close`` makes it the last of its connection."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *more, "", ""]).encode()


@pytest.mark.parametrize(
    ("request_bytes", "head", "body"),
    [
        (get("/", "GET", "Connection: close"), b"200 OK", BODY),
        (get("/large", "GET", "Connection: close"), b"200 OK", LARGE),
        (get("/pieces", "GET", "Connection: close"), b"200 OK", b"6\r\nfirst \r\ne\r\n" + BODY + b"\r\n0\r\n\r\n"),
        (get("/empty", "GET", "Connection: close"), b"200 OK", b""),
        (get("/none", "GET", "Connection: close"), b"204 No Content", b""),
        (get("/", "HEAD", "Connection: close"), b"200 OK", b""),
        (get("/broken"), b"200 OK", b""),
        (
            get("/", "POST", "Content-Length: 2", "Expect: 100-continue", "Connection: close") + b"{}",
            b"100 Continue\r\n\r\nHTTP/1.1 200 OK",
            BODY,
        ),
    ],
    ids=["whole", "large", "pieces", "empty", "no content", "head", "broken", "continue"],
)
async def test_every_kind_of_response_is_complete(port: int, request_bytes: bytes, head: bytes, body: bytes) -> None:
    """A head is sent once, also if the method or the status allows no body or the application fails after it."""
    answer = await answers(port, request_bytes)
    assert answer.startswith(b"HTTP/1.1 " + head)
    assert answer.count(b"HTTP/1.1 200") <= 1
    assert answer.rpartition(b"\r\n\r\n")[2] == body if b"chunked" not in answer else answer.endswith(body)


async def test_pipelined_requests_are_answered_in_their_order(port: int) -> None:
    """Each of them has its own head and body, or none."""
    requests = get("/") + get("/", "HEAD") + get("/large") + get("/none") + get("/", "GET", "Connection: close")
    answer = await answers(port, requests)
    assert answer.count(b"HTTP/1.1 200 OK") == 4
    assert answer.count(b"HTTP/1.1 204 ") == 1
    assert answer.index(BODY) < answer.index(LARGE) < answer.rindex(BODY)


async def test_the_head_and_the_body_of_an_answer_are_one_write(port: int) -> None:
    """The client reads both at once, so each side makes one call of the system less."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(20):
        writer.write(get("/"))
        answer = await reader.read(2**16)
        assert answer.endswith(BODY)
    writer.close()
