"""Reading requests and writing answers at the level of ASGI."""

import asyncio
import contextlib
from typing import Final

from starlette.types import Receive, Scope, Send

from hookwright_runtime.problems import ProblemError, send_problem

_LINGER_SECONDS: Final = 1.0
_LINGER_BYTES: Final = 8 * 1024 * 1024


def headers_of(scope: Scope) -> dict[str, str]:
    """Return a request's headers by lowercase name; of a repeated header, the last."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def client_of(scope: Scope) -> str:
    """Return the IP address of the client of a request; empty if it is not known."""
    client: tuple[str, int] | None = scope.get("client")
    return client[0] if client else ""


async def send_json(send: Send, status: int, body: bytes) -> None:
    """Send one whole answer, which is already JSON."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def refuse(receive: Receive, send: Send, problem: ProblemError) -> None:
    """Send a problem document; if it ends the connection, discard the rest of the request afterwards.

    Closing a socket with unread bytes resets the connection. A client that is still sending would then never read the
    answer (RFC 9112, section 9.6).
    """
    ends = problem.headers.get("Connection") == "close"
    await send_problem(send, problem, has_more=ends)
    if ends:
        await _discard(receive)
        await send({"type": "http.response.body", "body": b""})


async def _discard(receive: Receive) -> None:
    remaining, has_more = _LINGER_BYTES, True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while has_more and remaining > 0:
                message = await receive()
                remaining -= len(message.get("body", b""))
                has_more = message.get("more_body", False)
