"""Answers that wait, or are large: what bounds their number is held until the client has read them."""

import asyncio
import weakref
from collections.abc import Awaitable
from contextlib import ExitStack
from typing import Final, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hookwright_runtime.request_body import ClientGoneError

T = TypeVar("T")

_CHUNK_BYTES: Final = 64 * 1024
_SEND_SECONDS: Final = 30.0
"""Time limit for the client to read an answer, because the answer is in memory until then."""


class HeldAnswer(Response):
    """JSON that holds something, such as a place or a turn, until the client has read it.

    Args:
        body: the JSON.
        held: closed at the end.
        headers: of the answer.
    """

    def __init__(self, body: bytes, places: ExitStack, **headers: str) -> None:
        super().__init__(body, headers=headers, media_type="application/json")
        # Also for an answer that is never sent.
        self._leave = weakref.finalize(self, places.close)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the answer.

        Raises:
            ClientGoneError: the client did not read it in time.
        """
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async with asyncio.timeout(_SEND_SECONDS):
                # A chunk waits until the client has read most of those before it.
                for begin in range(0, len(self.body), _CHUNK_BYTES):
                    chunk = self.body[begin : begin + _CHUNK_BYTES]
                    await send({"type": "http.response.body", "body": bytes(chunk), "more_body": True})
                await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            raise ClientGoneError from None
        finally:
            self._leave()


async def until_gone(work: Awaitable[T], receive: Receive, ending: asyncio.Event) -> T | None:
    """Return the result of a work, or cancel it and return None if the client disconnects or the process ends.

    Args:
        work: waits for messages.
        receive: of the request, whose body was read.
        ending: set when the process ends.
    """
    tasks: list[asyncio.Future[object]] = [
        asyncio.ensure_future(work),
        asyncio.ensure_future(_disconnected(receive)),
        asyncio.ensure_future(ending.wait()),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            return tasks[0].result()  # type: ignore[return-value]
        return None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
