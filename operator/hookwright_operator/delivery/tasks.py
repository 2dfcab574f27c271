"""What is under way: tasks that nobody waits for until the end."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Generic, TypeVarTuple

import structlog

log = structlog.get_logger(__name__)

Ts = TypeVarTuple("Ts")


class Tasks(set[asyncio.Task[None]]):
    """Tasks that run by themselves; one that fails leaves a line in the log."""

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Begin a task."""
        # In a context of its own, for the request at hand, whose id logs tell, need not be what brought the delivery.
        context = Context()
        task = asyncio.get_running_loop().create_task(work, context=context)
        self.add(task)
        task.add_done_callback(self._ended, context=context)

    async def finish(self, grace: float) -> None:
        """Wait for all to end, those too that begin meanwhile, for ``grace`` seconds; cut short what is left then."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        while self and (left := deadline - loop.time()) > 0:
            await asyncio.wait(tuple(self), timeout=left)
        if self:
            log.warning("attempts were cut short at the end of the grace period", attempts=len(self))
            left_over = tuple(self)
            for task in left_over:
                task.cancel()
            await asyncio.wait(left_over, timeout=1.0)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an attempt ended unexpectedly", error=type(error).__name__, exc_info=error)


class Runners(Generic[*Ts]):
    """Tasks that do the same work again and again; as many as were ever busy at once.

    A new task for each attempt took 3 % more CPU.

    Args:
        tasks: theirs.
        work: what they do.
    """

    def __init__(self, tasks: Tasks, work: Callable[[*Ts], Coroutine[None, None, None]]) -> None:
        self._tasks, self._work = tasks, work
        self._idle: list[asyncio.Future[tuple[*Ts] | None]] = []
        self._loop = asyncio.get_running_loop()
        self._closed = False

    def start(self, *given: *Ts) -> None:
        """Have the work done, beside all that is under way."""
        if self._idle:
            self._idle.pop().set_result(given)
        else:
            self._tasks.spawn(self._run(given))

    def close(self) -> None:
        """Let the idle ones end, and the busy ones after what they do."""
        self._closed = True
        for idle in self._idle:
            idle.set_result(None)
        self._idle.clear()

    async def _run(self, given: tuple[*Ts] | None) -> None:
        while given is not None:
            await self._work(*given)
            if self._closed:
                return
            idle: asyncio.Future[tuple[*Ts] | None] = self._loop.create_future()
            self._idle.append(idle)
            given = None  # a body, say, which nobody needs any more
            given = await idle
