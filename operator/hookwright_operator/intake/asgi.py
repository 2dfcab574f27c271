"""Reading requests and writing answers at the level of ASGI."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from hookwright_operator.intake.deadlines import Deadlines
from hookwright_operator.intake.places import BODY_BYTES, BODY_BYTES_OF_NAMESPACE
from hookwright_runtime.problems import CLOSE, ProblemError, send_problem, too_large, unavailable
from hookwright_runtime.quotas import Quotas

_LINGER_SECONDS: Final = 1.0
_LINGER_BYTES: Final = 8 * 1024 * 1024


class ClientGoneError(Exception):
    """The client disconnected before its request was complete, so no answer is sent."""


def headers_of(scope: Scope) -> dict[str, str]:
    """Return a request's headers by lowercase name; of a repeated header, the last."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def client_of(scope: Scope) -> str:
    """Return the IP address of the client of a request; empty if it is not known."""
    client: tuple[str, int] | None = scope.get("client")
    return client[0] if client else ""


class Bodies:
    """A reader of request bodies, bounded in time, and in memory per namespace and in total.

    Args:
        seconds: time limit for one body.
    """

    def __init__(self, seconds: float) -> None:
        self._deadlines = Deadlines(seconds)
        self._arriving = Quotas(total=BODY_BYTES, each=BODY_BYTES_OF_NAMESPACE)

    async def read(self, receive: Receive, headers: Mapping[str, str], namespace: str, *, limit: int) -> bytes:
        """Return the whole body of a request.

        Args:
            receive: of the request.
            headers: of the request, by lowercase name.
            namespace: the namespace that the caller may send to; incomplete bodies count for it.
            limit: most bytes; reading stops there.

        Raises:
            ProblemError: 413 too large; 408 too slow; 503 too many bytes of other incomplete bodies.
            ClientGoneError: the client disconnected.
        """
        if int(headers.get("content-length", 0)) > limit:
            raise _over(limit)
        try:
            return await self._deadlines.keep(self._collect(receive, namespace, limit))
        except TimeoutError:
            raise ProblemError(
                408,
                f"the body was not complete within {self._deadlines.seconds:g} s",
                headers=CLOSE,
            ) from None

    async def _collect(self, receive: Receive, namespace: str, limit: int) -> bytes:
        piece, more = _piece(await receive())
        if not more:
            if len(piece) > limit:
                raise _over(limit)
            return piece
        pieces, size = [], 0
        try:
            while True:
                if size + len(piece) > limit:
                    raise _over(limit)
                self._count(namespace, len(piece))
                size += len(piece)
                pieces.append(piece)
                if not more:
                    return b"".join(pieces)
                piece, more = _piece(await receive())
        finally:
            if size:
                self._arriving.release(namespace, size)

    def _count(self, namespace: str, size: int) -> None:
        if size and self._arriving.take(namespace, size) is not None:
            problem = unavailable(
                f'incomplete bodies exceed the memory limit of namespace "{namespace}" or of the replica'
            )
            problem.headers.update(CLOSE)
            raise problem


def _piece(message: Message) -> tuple[bytes, bool]:
    if message["type"] == "http.disconnect":
        raise ClientGoneError
    return message.get("body", b""), message.get("more_body", False)


def _over(limit: int) -> ProblemError:
    return too_large(f"the body has more than {limit} bytes")


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
    await send_problem(send, problem, more=ends)
    if ends:
        await _discard(receive)
        await send({"type": "http.response.body", "body": b""})


async def _discard(receive: Receive) -> None:
    left, more = _LINGER_BYTES, True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while more and left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                more = message.get("more_body", False)
