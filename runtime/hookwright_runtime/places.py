"""Places: the right to use a bounded resource, given to waiting holders in turn.

A holder is a namespace, an organization or a client address. A request of a holder waits for at most the requests of
each other holder that its turn allows, so no holder delays the others for long.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from hookwright_runtime.quotas import Full, Quotas

T = TypeVar("T")

_LONG_STEP_SECONDS: Final = 0.03
_LONGEST_PAUSE_SECONDS: Final = 0.1
"""After a step with more CPU time, no work gets the place for twice that time, at most for the longest pause. The event
loop accepts one connection in a pass, so a connection would wait for the steps of all that were opened before it."""


class Places:
    """Places that holders take in turn (round robin), with a bounded queue.

    Args:
        total: places at once.
        each: places of one holder at once; None: all.
        requests: requests of all holders that wait or have a place; a quarter of them only for holders that have none.
        requests_each: requests of one holder that wait or have a place.
        refuse: returns the error for a request that may not even wait, from the bound that leaves no room.
        pause: a released place is free only after a pass of the event loop, so that other ready work runs before; after
            a long step of `run`, only after a time.
    """

    def __init__(
        self,
        total: int,
        *,
        each: int | None = None,
        requests: int,
        requests_each: int,
        refuse: Callable[[Full], Exception],
        pause: bool = False,
    ) -> None:
        self._free = total
        self._each = each or total
        self._requests = Quotas(total=requests, each=requests_each, reserved=requests // 4)
        self._refuse = refuse
        self._pause = pause
        self._held: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        # Holders that wait and may have one more place, in the order of turns.
        self._turns: OrderedDict[str, None] = OrderedDict()

    async def acquire(self, holder: str, weight: int = 1) -> None:
        """Take a place as soon as it is the holder's turn.

        Args:
            holder: whose turn it is.
            weight: how many requests this one counts as until its place is returned.

        Raises:
            Exception: that of ``refuse``; too many requests of the holder, or of all, wait or have a place.
        """
        self._count(holder, weight)
        try:
            await self._enter(holder)
        except BaseException:
            self._requests.release(holder, weight)
            raise

    def release(self, holder: str, weight: int = 1) -> None:
        """Return a place that `acquire` took."""
        self._requests.release(holder, weight)
        self._leave(holder)

    @asynccontextmanager
    async def hold(self, holder: str, weight: int = 1) -> AsyncIterator[None]:
        """Hold a place inside the context; raises as `acquire`."""
        await self.acquire(holder, weight)
        try:
            yield
        finally:
            self.release(holder, weight)

    async def run(self, holder: str, steps: Generator[None, None, T], weight: int = 1) -> T:
        """Run a generator to its end and return its result; each step has a place. Raises as `acquire`.

        A holder's next work begins when its first one has ended.
        """
        self._count(holder, weight)
        has_begun = False
        try:
            while True:
                await self._enter(holder, ahead=has_begun)
                has_begun, began = True, time.thread_time()
                try:
                    next(steps)
                except StopIteration as end:
                    result: T = end.value
                    return result
                finally:
                    self._leave(holder, time.thread_time() - began)
        finally:
            self._requests.release(holder, weight)

    def _count(self, holder: str, weight: int) -> None:
        bound = self._requests.take(holder, weight)
        if bound is not None:
            raise self._refuse(bound)

    async def _enter(self, holder: str, *, ahead: bool = False) -> None:
        if self._free and not self._turns and self._may_hold(holder):
            self._take(holder)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(holder, deque())
        if ahead:
            waiting.appendleft(turn)
        else:
            waiting.append(turn)
        self._line_up(holder)
        try:
            await turn
        except BaseException:
            self._abandon(holder, turn)
            raise

    def _leave(self, holder: str, seconds: float = 0.0) -> None:
        if self._pause and seconds > _LONG_STEP_SECONDS:
            asyncio.get_running_loop().call_later(min(2 * seconds, _LONGEST_PAUSE_SECONDS), self._return, holder)
        elif self._pause:
            asyncio.get_running_loop().call_soon(self._return, holder)
        else:
            self._return(holder)

    def _may_hold(self, holder: str) -> bool:
        return self._held.get(holder, 0) < self._each

    def _take(self, holder: str) -> None:
        self._free -= 1
        self._held[holder] = self._held.get(holder, 0) + 1

    def _return(self, holder: str) -> None:
        self._free += 1
        self._held[holder] -= 1
        if not self._held[holder]:
            del self._held[holder]
        self._line_up(holder)
        self._admit()

    def _admit(self) -> None:
        while self._free and self._turns:
            holder, _ = self._turns.popitem(last=False)
            turn = self._waiting[holder].popleft()
            if not self._waiting[holder]:
                del self._waiting[holder]
            # A request that is cancelled at this moment returns its place when its task runs.
            self._take(holder)
            if not turn.done():
                turn.set_result(None)
            self._line_up(holder)

    def _abandon(self, holder: str, turn: "asyncio.Future[None]") -> None:
        waiting = self._waiting.get(holder, deque())
        if turn not in waiting:
            self._return(holder)
            return
        waiting.remove(turn)
        if not waiting:
            del self._waiting[holder]
            self._turns.pop(holder, None)

    def _line_up(self, holder: str) -> None:
        if holder in self._waiting and self._may_hold(holder):
            self._turns.setdefault(holder)


def finished(steps: Generator[None, None, T]) -> T:
    """Run a generator to its end without a pause, and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
