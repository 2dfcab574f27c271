"""Reading requests and writing answers at the level of ASGI."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from starlette.types import Receive, Scope, Send

from hookwright_operator.intake.deadlines import Deadlines
from hookwright_operator.intake.problems import MEDIA_TYPE, ProblemError, too_large

Headers = tuple[tuple[str, str], ...]

_LINGER_SECONDS: Final = 1.0
_LINGER_BYTES: Final = 8 * 1024 * 1024


class ClientGoneError(Exception):
    """The client hung up before its request was complete; nobody is left to answer."""


def headers_of(scope: Scope) -> dict[str, str]:
    """Return a request's headers by lowercase name; of one given twice, the last."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


async def read_body(receive: Receive, headers: Mapping[str, str], *, limit: int, deadlines: Deadlines) -> bytes:
    """Return the whole body of a request.

    Args:
        receive: of the request.
        headers: of the request, by lowercase name.
        limit: bytes; reading stops there.
        deadlines: for the whole of it, so that a client that drips holds nothing for long.

    Raises:
        ProblemError: 413 too large; 408 too slow.
        ClientGoneError: it hung up.
    """
    if int(headers.get("content-length", 0)) > limit:
        raise _over(limit)
    try:
        return await deadlines.keep(_collect(receive, limit))
    except TimeoutError:
        raise ProblemError(
            408, f"the body was not complete within {deadlines.seconds:g} s", headers=(("Connection", "close"),)
        ) from None


async def _collect(receive: Receive, limit: int) -> bytes:
    body = b""
    chunks = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        body = message.get("body", b"")
        more = message.get("more_body", False)
        chunks.append(body)
        size += len(body)
        if size > limit:
            raise _over(limit)
    return body if len(chunks) == 1 else b"".join(chunks)


def _over(limit: int) -> ProblemError:
    return too_large(f"the body has more than {limit} bytes")


async def send_bytes(send: Send, status: int, body: bytes, media: bytes, headers: Headers = ()) -> None:
    """Send one whole answer."""
    await _start(send, status, body, media, headers)
    await send({"type": "http.response.body", "body": body})


async def send_problem(receive: Receive, send: Send, problem: ProblemError) -> None:
    """Send a problem document; one that ends the connection is followed by discarding what still comes.

    For closing a socket that holds unread bytes resets the connection, and the client, still busy
    sending, would never read why (RFC 9112, section 9.6).
    """
    body = problem.body()
    if ("Connection", "close") not in problem.headers:
        await send_bytes(send, problem.status, body, MEDIA_TYPE, problem.headers)
        return
    await _start(send, problem.status, body, MEDIA_TYPE, problem.headers)
    await send({"type": "http.response.body", "body": body, "more_body": True})
    await _discard(receive)
    await send({"type": "http.response.body", "body": b""})


async def _start(send: Send, status: int, body: bytes, media: bytes, headers: Headers) -> None:
    raw = [(b"content-type", media), (b"content-length", b"%d" % len(body))]
    raw += [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": raw})


async def _discard(receive: Receive) -> None:
    left, more = _LINGER_BYTES, True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while more and left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                more = message.get("more_body", False)
