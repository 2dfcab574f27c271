"""The body of a request, read within limits of time and memory."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from starlette.types import Message, Receive

from hookwright_runtime.problems import CLOSE, ProblemError, too_large, unavailable
from hookwright_runtime.quotas import Quotas

T = TypeVar("T")


class ClientGoneError(Exception):
    """The client disconnected before its request was complete, so no answer is sent."""


class Deadlines:
    """A time limit for each of many operations, with one timer for all.

    Operations end in the order in which they began, so one timer for the first suffices. `asyncio.timeout` would create
    one timer for each, which costs 2 % of an event.

    Args:
        seconds: time limit of each operation.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends: dict[asyncio.Task[Any], float] = {}
        self._overdue: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def keep(self, work: Coroutine[Any, Any, T]) -> T:
        """Run an operation in the current task; a task has at most one operation at a time.

        Raises:
            TimeoutError: the operation exceeded the limit and was cancelled.
        """
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is None:
            raise RuntimeError("Deadlines.keep needs a running task")
        cancelling = task.cancelling()
        end = self._ends[task] = loop.time() + self.seconds
        if self._timer is None:
            self._timer = loop.call_at(end, self._expire, loop)
        try:
            return await work
        except asyncio.CancelledError:
            # Another caller may have cancelled the task as well.
            if task in self._overdue and task.uncancel() <= cancelling:
                raise TimeoutError from None
            raise
        finally:
            self._ends.pop(task, None)
            self._overdue.discard(task)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for task, end in tuple(self._ends.items()):
            if end > now:
                self._timer = loop.call_at(end, self._expire, loop)
                return
            del self._ends[task]
            self._overdue.add(task)
            task.cancel()


class Bodies:
    """A reader of request bodies, bounded in time, and in memory per holder and in total.

    Args:
        seconds: time limit for one body.
        total: most bytes of all incomplete bodies.
        each: most bytes of the incomplete bodies of one holder.
    """

    def __init__(self, seconds: float, *, total: int, each: int) -> None:
        self._deadlines = Deadlines(seconds)
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
            return await self._deadlines.keep(self._collect(receive, holder, limit))
        except TimeoutError:
            raise ProblemError(
                408,
                f"the body was not complete within {self._deadlines.seconds:g} s",
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
