"""Claims that nobody knows of: whoever asked has gone, or the answer was lost. They are released."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from hookwright_operator.store.faults import OutcomeUnknown
from hookwright_operator.store.model import Claimed
from hookwright_operator.store.retrying import until_done

T = TypeVar("T")

_FIRST_BACKOFF: Final = 0.05


class Releases:
    """Sees to it that a claim has somebody who knows of it.

    A release whose outcome is open is made again, until it is known. Meanwhile nothing may be claimed: the repetition
    could take away what was claimed anew, and is being sent. Doubt begins while others wait for the next transaction,
    so a claim looks again when it has come to it.

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

    async def unless_lost(
        self, ask: Callable[..., "asyncio.Future[T]"], held: Callable[[T], list[tuple[str, str]]]
    ) -> T:
        """Ask the store; release what is claimed if nobody waits for the answer any more, or if it got lost.

        Args:
            ask: as `Batcher.submit` with all it needs but ``lost``.
            held: names the deliveries that an answer claims, and their endpoints: ids with uids.
        """

        def lost(claimed: T, *, doubtful: bool) -> None:
            self._give_back(held(claimed), doubtful=doubtful)

        answer = ask(lost=lost)
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                lost(answer.result(), doubtful=False)
            raise

    async def certain(self, ask: Callable[..., "asyncio.Future[frozenset[str]]"]) -> frozenset[str]:
        """Ask for a release until it is known whether it was made, and return the endpoints whose deliveries it freed.

        Args:
            ask: as `Batcher.submit` with all it needs but ``lost``.

        Raises:
            StoreError: it was not made.
        """
        again: list[asyncio.Task[frozenset[str]]] = []
        freed: set[str] = set()

        def lost(uids: frozenset[str], *, doubtful: bool) -> None:
            if doubtful and not self._closed:
                freed.update(uids)
                again.append(self._begin(until_done(ask, backoff=_FIRST_BACKOFF), doubtful=True))

        try:
            return await ask(lost=lost)
        except OutcomeUnknown:
            if not again:
                raise
            return await asyncio.shield(again[0]) | freed

    async def claim(self, ask: Callable[..., "asyncio.Future[list[Claimed] | None]"]) -> list[Claimed]:
        """Ask for a claim when no release is open, and release what nobody gets of it.

        Args:
            ask: as `Batcher.submit` with all it needs but ``lost``; answers None where there was doubt.
        """
        while True:
            if self._doubtful:
                await asyncio.wait(tuple(self._doubtful))
            claimed = await self.unless_lost(ask, lambda got: [(one.id, one.endpoint_uid) for one in got or ()])
            if claimed is not None:
                return claimed

    @property
    def doubt(self) -> bool:
        """Whether a release is open."""
        return bool(self._doubtful)

    def close(self) -> None:
        """Release nothing more; the claims end with the lease."""
        self._closed = True
        for task in self._tasks:
            task.cancel()

    def _give_back(self, lost: Sequence[tuple[str, str]], *, doubtful: bool) -> None:
        if lost and not self._closed:
            self._begin(self._release_until_done(lost), doubtful=doubtful)

    async def _release_until_done(self, lost: Sequence[tuple[str, str]]) -> None:
        await until_done(lambda: self._release([delivery_id for delivery_id, _ in lost]), backoff=_FIRST_BACKOFF)
        for uid in {uid for _, uid in lost}:
            self.hears(uid)

    def _begin(self, work: Coroutine[Any, Any, T], *, doubtful: bool) -> "asyncio.Task[T]":
        task = asyncio.create_task(work)
        for tasks in (self._tasks, self._doubtful) if doubtful else (self._tasks,):
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        return task
