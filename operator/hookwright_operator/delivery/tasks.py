"""Background tasks that run without a caller that awaits them."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from contextvars import Context

import structlog

log = structlog.get_logger(__name__)


async def wait_for_event(event: asyncio.Event, seconds: float | None) -> None:
    """Wait until an event is set, at most for some seconds; None: without a limit."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class Tasks(set[asyncio.Task[None]]):
    """Tasks that run in the background; a failed one is logged."""

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Begin a task."""
        # In a new context: the current one may belong to another request, and its request id would appear in the task's
        # log lines.
        context = Context()
        task = asyncio.get_running_loop().create_task(work, context=context)
        self.add(task)
        task.add_done_callback(self._ended, context=context)

    async def finish(self, grace: float) -> None:
        """Wait ``grace`` seconds for all tasks, including those that begin meanwhile; then cancel the rest."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        while self and (remaining := deadline - loop.time()) > 0:
            await asyncio.wait(tuple(self), timeout=remaining)
        if self:
            log.warning("background tasks cancelled, the grace period is over", tasks=len(self))
            left_over = tuple(self)
            for task in left_over:
                task.cancel()
            await asyncio.wait(left_over, timeout=1.0)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background task failed", error=type(error).__name__, exc_info=error)
