"""The body of a request, read within limits of time and memory."""

import asyncio
from collections.abc import Mapping

from starlette.types import Message, Receive

from hookwright_runtime.problems import CLOSE, ProblemError, too_large, unavailable
from hookwright_runtime.quotas import Quotas


class ClientGoneError(Exception):
    """The client disconnected before its request was complete, so no answer is sent."""


class Bodies:
    """A reader of request bodies, bounded in time, and in memory per holder and in total.

    Args:
        seconds: time limit for one body.
        total: most bytes of all incomplete bodies.
        each: most bytes of the incomplete bodies of one holder.
    """

    def __init__(self, seconds: float, *, total: int, each: int) -> None:
        self._seconds = seconds
        self._arriving = Quotas(total=total, each=each)

    async def read(self, receive: Receive, headers: Mapping[str, str], holder: str, *, limit: int) -> bytes:
        """Return the whole body of a request.

        Args:
            receive: of the request.
            headers: of the request, by lowercase name.
            holder: who the incomplete body counts for, in words, such as ``namespace "acme"``.
            limit: most bytes; reading stops there.

        Raises:
            ProblemError: 413 too large; 408 too slow; 503 too many bytes of other incomplete bodies.
            ClientGoneError: the client disconnected.
        """
        if int(headers.get("content-length", 0)) > limit:
            raise _over(limit)
        try:
            async with asyncio.timeout(self._seconds):
                return await self._collect(receive, holder, limit)
        except TimeoutError:
            raise ProblemError(
                408,
                f"the body was not complete within {self._seconds:g} s",
                headers=CLOSE,
            ) from None

    async def _collect(self, receive: Receive, holder: str, limit: int) -> bytes:
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
                self._count(holder, len(piece))
                size += len(piece)
                pieces.append(piece)
                if not more:
                    return b"".join(pieces)
                piece, more = _piece(await receive())
        finally:
            if size:
                self._arriving.release(holder, size)

    def _count(self, holder: str, size: int) -> None:
        if size and self._arriving.take(holder, size) is not None:
            problem = unavailable(f"incomplete bodies exceed the memory limit of {holder} or of the replica")
            problem.headers.update(CLOSE)
            raise problem


def _piece(message: Message) -> tuple[bytes, bool]:
    if message["type"] == "http.disconnect":
        raise ClientGoneError
    return message.get("body", b""), message.get("more_body", False)


def _over(limit: int) -> ProblemError:
    return too_large(f"the body has more than {limit} bytes")
