"""What is under way: tasks that nobody waits for until the end."""

import asyncio
from collections.abc import Coroutine
from contextvars import Context

import structlog

log = structlog.get_logger(__name__)


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
