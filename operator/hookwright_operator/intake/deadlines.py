"""One time limit for many concurrent operations."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


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
