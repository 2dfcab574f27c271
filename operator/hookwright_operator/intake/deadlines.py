"""A time limit that is the same for everything that it bounds."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Deadlines:
    """Bounds how long each of many things may take, with one timer for all.

    What began first ends first, so the timer is that of the first alone. `asyncio.timeout` would make one for each,
    which is 2 % of what an event takes.

    Args:
        seconds: how long each may take.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends: dict[asyncio.Task[Any], float] = {}
        self._overdue: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def keep(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in the current task, which has one such thing at a time.

        Raises:
            TimeoutError: it took too long, and was cancelled.
        """
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline is kept in a task")
        cancelling = task.cancelling()
        end = self._ends[task] = loop.time() + self.seconds
        if self._timer is None:
            self._timer = loop.call_at(end, self._expire, loop)
        try:
            return await work
        except asyncio.CancelledError:
            # Somebody else may want the task to end as well.
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
