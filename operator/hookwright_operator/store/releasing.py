"""Claims that nobody knows of: whoever asked has gone, or the answer was lost. They are released."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, TypeVar, cast

from hookwright_operator.errors import StoreError
from hookwright_operator.store.faults import OutcomeUnknown

T = TypeVar("T")

_FIRST_BACKOFF: Final = 0.05
_LONGEST_BACKOFF: Final = 5.0


class Releases:
    """Sees to it that a claim has somebody who knows of it.

    A release whose outcome is open is made again, until it is known. Meanwhile nothing may be claimed: the repetition
    could take away what was claimed anew, and is being sent.

    Args:
        release: lets go of deliveries by their ids, in the store.

    Attributes:
        hears: told of the endpoints whose deliveries were released: nobody else tells this process of them.
    """

    def __init__(self, release: Callable[[Sequence[str]], Awaitable[None]]) -> None:
        self._release = release
        self.hears: Callable[[str], None] = lambda _: None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._doubtful: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def unless_lost(self, answer: "asyncio.Future[T]", held: Callable[[T], list[tuple[str, str]]]) -> T:
        """Wait for an answer; release what it claimed if nobody waits any more, or if nobody knows whether it did.

        Args:
            answer: of the store.
            held: names the deliveries that are claimed by it, and their endpoints: ids with uids.
        """
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            answer.add_done_callback(partial(self._give_back, held))
            raise
        except OutcomeUnknown:
            self._give_back(held, answer)
            raise

    async def certain(self, ask: "Callable[[], asyncio.Future[T]]") -> T:
        """Ask for a release until it is known whether it was made.

        Raises:
            StoreError: it was not made.
        """
        try:
            return await ask()
        except OutcomeUnknown:
            return await asyncio.shield(self._begin(_until_done(ask), doubtful=True))

    async def no_doubt(self) -> None:
        """Return when no release is open that was when this was called."""
        if self._doubtful:
            await asyncio.wait(tuple(self._doubtful))

    def close(self) -> None:
        """Release nothing more; the claims end with the lease."""
        self._closed = True
        for task in self._tasks:
            task.cancel()

    def _give_back(self, held: Callable[[T], list[tuple[str, str]]], answer: "asyncio.Future[T]") -> None:
        error = answer.exception()
        if self._closed or not (error is None or isinstance(error, OutcomeUnknown)):
            return
        if lost := held(cast("T", error.result) if error else answer.result()):
            self._begin(self._release_until_done(lost), doubtful=error is not None)

    async def _release_until_done(self, lost: Sequence[tuple[str, str]]) -> None:
        await _until_done(lambda: self._release([delivery_id for delivery_id, _ in lost]))
        for uid in {uid for _, uid in lost}:
            self.hears(uid)

    def _begin(self, work: Coroutine[Any, Any, T], *, doubtful: bool) -> "asyncio.Task[T]":
        task = asyncio.create_task(work)
        for tasks in (self._tasks, self._doubtful) if doubtful else (self._tasks,):
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        return task


async def _until_done(ask: Callable[[], Awaitable[T]]) -> T:
    backoff = _FIRST_BACKOFF
    while True:
        try:
            return await ask()
        except StoreError:
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, _LONGEST_BACKOFF)
