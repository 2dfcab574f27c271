"""The body of a request, read within limits of time and memory, and its JSON."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.types import Message, Receive

from hookwright_runtime import exact_json
from hookwright_runtime.bounds import PARSING, Bound
from hookwright_runtime.json_size import has_more_values
from hookwright_runtime.places import FullError, Places
from hookwright_runtime.problems import CLOSE, ProblemError, malformed_json

_WEIGHT_BYTES: Final = 256 * 1024
"""Most bytes of a body that counts as one; so bodies that wait have at most 64 MiB."""


class ClientGoneError(Exception):
    """The client disconnected before its request was complete, so no answer is sent."""


class Bodies:
    """A reader of request bodies, bounded in time, and in memory per holder and in total.

    Args:
        seconds: time limit for one body.
        bound: of the bytes of incomplete bodies.
    """

    def __init__(self, seconds: float, bound: Bound) -> None:
        self._seconds = seconds
        self._arriving = Places(bound)

    async def read(self, receive: Receive, headers: Mapping[str, str], holder: str, *, limit: int) -> bytes:
        """Return the whole body of a request.

        Args:
            receive: of the request.
            headers: of the request, by lowercase name.
            holder: who the incomplete body counts for, in words, such as ``namespace "acme"``.
            limit: most bytes; reading stops there.

        Raises:
            ProblemError: 413 too large; 408 too slow; 429 or 503 too many bytes of other incomplete bodies.
            ClientGoneError: the client disconnected.
        """
        if int(headers.get("content-length", 0)) > limit:
            raise _over(limit)
        try:
            async with asyncio.timeout(self._seconds):
                return await self._collect(receive, holder, limit)
        except TimeoutError:
            detail = f"the body was not complete within {self._seconds:g} s"
            raise ProblemError(408, detail, headers=CLOSE) from None

    async def _collect(self, receive: Receive, holder: str, limit: int) -> bytes:
        piece, has_more = _piece(await receive())
        if not has_more:
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
                if not has_more:
                    return b"".join(pieces)
                piece, has_more = _piece(await receive())
        finally:
            if size:
                self._arriving.release(holder, size)

    def _count(self, holder: str, size: int) -> None:
        if size:
            try:
                self._arriving.take(holder, size)
            except FullError as error:
                error.headers.update(CLOSE)
                raise


def parsing_places() -> Places:
    """Return the one place in which bodies are parsed, or pieces of them, so that other requests run between two."""
    return Places(PARSING, pause=True)


def parsing_weight(body: bytes) -> int:
    """Return how many of the bodies that wait until they are parsed a body counts as: one for each 256 KiB begun."""
    return max(1, -(-len(body) // _WEIGHT_BYTES))


def check_values(body: bytes, limit: int, advice: str = "nothing was done") -> None:
    """Return if a JSON body has at most this number of values, before the body is decoded.

    Raises:
        ProblemError: 422, it has more.
    """
    if has_more_values(body, limit):
        raise too_many_values(limit, advice)


def too_many_values(limit: int, advice: str) -> ProblemError:
    """Return the 422 for a body with too many values."""
    return ProblemError(422, f"the body has more than {limit} values; {advice}")


def parse_json(body: bytes, read: Callable[[bytes], Any] = exact_json.loads) -> Any:
    """Return what a reader of `exact_json` returns for a body.

    Raises:
        ProblemError: 400, it is no strict JSON.
    """
    try:
        return read(body)
    except exact_json.JsonError as error:
        raise malformed_json(str(error)) from None


def _piece(message: Message) -> tuple[bytes, bool]:
    if message["type"] == "http.disconnect":
        raise ClientGoneError
    return message.get("body", b""), message.get("more_body", False)


def _over(limit: int) -> ProblemError:
    return ProblemError(413, f"the body has more than {limit} bytes", headers=CLOSE)
