"""Places: the right to use a bounded resource, given to waiting holders in turn.

A holder is a namespace, an organization or a client address. A request of a holder waits for at most the requests of
each other holder that its turn allows, so no holder delays the others for long. `bounds` has all bounds.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import Final, TypeVar

from hookwright_runtime.bounds import UNLIMITED, Bound
from hookwright_runtime.problems import ProblemError
from hookwright_runtime.ranking import Ranking

T = TypeVar("T")

_LONG_STEP_SECONDS: Final = 0.03
_LONGEST_PAUSE_SECONDS: Final = 0.1
"""After a step with more CPU time, no work gets the place for twice that time, at most for the longest pause. The event
loop accepts one connection in a pass, so a connection would wait for the steps of all that were opened before it."""


class FullError(ProblemError):
    """The refusal of a request that may not even wait: 429 beyond the bound of its holder, 503 beyond that of all."""

    def __init__(self, status: int, detail: str) -> None:
        # A place of the holder itself is free again when one of its own requests ends.
        retry_after = 1 if status == 429 else None
        super().__init__(status, f"{detail}; nothing was done, try again later", retry_after=retry_after)


class Places:
    """Places of one bound. A request is counted first, and then waits for its place if not all have one at once.

    The waiting holder with the fewest places is next, and equal ones take turns; requests of one holder keep their
    order.

    Args:
        bound: of the places.
        pause: a released place is free only after a pass of the event loop, so that other ready work runs before; after
            a long step of `run`, only after a time.

    Attributes:
        count: how much is counted, of all holders.
    """

    def __init__(self, bound: Bound, *, pause: bool = False) -> None:
        self.bound = bound
        self.count = 0
        self._pause = pause
        self._counts: dict[str, int] = {}
        self._waits = min(bound.at_once, bound.at_once_each) < UNLIMITED
        self._free = bound.at_once
        self._held: dict[str, int] = {}
        self._waiting: dict[str, deque[Callable[[], None]]] = {}
        # Holders that wait and may have one more place, by the number of their places.
        self._turns: Ranking[str, int] = Ranking()

    @property
    def largest_use(self) -> float:
        """The largest part of its bound that a holder uses, from 0 to 1."""
        return max(tuple(self._counts.values()), default=0) / self.bound.each

    def holds_all(self, holder: str) -> bool:
        """Return whether a holder has all the places that one holder may have at once."""
        return self._held.get(holder, 0) >= self.bound.at_once_each

    def take(self, holder: str, weight: int = 1) -> None:
        """Count a request, or an amount, without waiting.

        Args:
            holder: whom it counts for; with a space, in words such as ``namespace "acme"``.
            weight: how much it counts.

        Raises:
            FullError: the bound of the holder, or that of all holders, leaves no room.
        """
        bound, present = self.bound, self._counts.get(holder, 0)
        if present + weight > bound.each:
            name = holder if " " in holder else f'{bound.holder} "{holder}"'
            raise FullError(429, f"{name} has {bound.amount(bound.each)} {bound.things} in progress")
        if self.count + weight > bound.total - (bound.reserved if present else 0):
            raise FullError(503, f"{bound.amount(bound.total)} {bound.things} are in progress")
        self._counts[holder] = present + weight
        self.count += weight

    def release(self, holder: str, weight: int = 1) -> None:
        """Stop counting what `take` counted."""
        remaining = self._counts.pop(holder) - weight
        if remaining:
            self._counts[holder] = remaining
        self.count -= weight

    async def acquire(self, holder: str, weight: int = 1) -> ExitStack:
        """Count a request and wait for its turn; the returned context returns the place. Raises as `take`."""
        self.take(holder, weight)
        try:
            if self._waits:
                await self._enter(holder)
        except BaseException:
            self.release(holder, weight)
            raise
        place = ExitStack()
        place.callback(self.end, holder, weight)
        return place

    def enqueue(self, holder: str, begin: Callable[[], None]) -> None:
        """Count a request, and call a function in its turn, perhaps at once; `end` returns the place.

        Raises:
            FullError: as `take`.
        """
        self.take(holder)
        self._wait(holder, begin)

    def end(self, holder: str, weight: int = 1) -> None:
        """Return a place that a request got in its turn."""
        self.release(holder, weight)
        if self._waits:
            self._leave(holder)

    async def run(self, holder: str, steps: Generator[None, None, T], weight: int = 1) -> T:
        """Run a generator to its end and return its result; each step has a place. Raises as `take`.

        A holder's next work begins when its first one has ended.
        """
        self.take(holder, weight)
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
            self.release(holder, weight)

    async def _enter(self, holder: str, *, ahead: bool = False) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def begin() -> None:
            # A request that is cancelled at this moment returns its place when its task runs.
            if not turn.done():
                turn.set_result(None)

        self._wait(holder, begin, ahead=ahead)
        try:
            await turn
        except BaseException:
            self._abandon(holder, begin)
            raise

    def _wait(self, holder: str, begin: Callable[[], None], *, ahead: bool = False) -> None:
        waiting = self._waiting.setdefault(holder, deque())
        if ahead:
            waiting.appendleft(begin)
        else:
            waiting.append(begin)
        self._line_up(holder)
        self._admit()

    def _leave(self, holder: str, seconds: float = 0.0) -> None:
        if self._pause and seconds > _LONG_STEP_SECONDS:
            asyncio.get_running_loop().call_later(min(2 * seconds, _LONGEST_PAUSE_SECONDS), self._return, holder)
        elif self._pause:
            asyncio.get_running_loop().call_soon(self._return, holder)
        else:
            self._return(holder)

    def _return(self, holder: str) -> None:
        self._free += 1
        remaining = self._held.pop(holder) - 1
        if remaining:
            self._held[holder] = remaining
        self._line_up(holder)
        self._admit()

    def _admit(self) -> None:
        while self._turns:
            fewest = self._turns.lowest()
            if self._free <= (self.bound.at_once_reserved if fewest else 0):
                return
            holder = self._turns.first(fewest)
            waiting = self._waiting[holder]
            begin = waiting.popleft()
            if not waiting:
                del self._waiting[holder]
            self._free -= 1
            self._held[holder] = fewest + 1
            self._line_up(holder)
            begin()

    def _abandon(self, holder: str, begin: Callable[[], None]) -> None:
        waiting = self._waiting.get(holder)
        if waiting is None or begin not in waiting:
            self._return(holder)
            return
        waiting.remove(begin)
        if not waiting:
            del self._waiting[holder]
            self._line_up(holder)

    def _line_up(self, holder: str) -> None:
        if holder in self._waiting and not self.holds_all(holder):
            self._turns.put(holder, self._held.get(holder, 0))
        else:
            self._turns.discard(holder)


def finished(steps: Generator[None, None, T]) -> T:
    """Run a generator to its end without a pause, and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
