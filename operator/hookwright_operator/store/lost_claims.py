"""Release of lost claims: claims whose caller was cancelled, or whose result was lost."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from hookwright_operator.store.database_errors import OutcomeUnknown
from hookwright_operator.store.records import Claimed
from hookwright_operator.store.retry import until_done

T = TypeVar("T")

_FIRST_BACKOFF: Final = 0.05


async def unless_lost(ask: Callable[..., "asyncio.Future[T]"], lost: Callable[..., None]) -> T:
    """Submit a call that takes something; call ``lost`` if the caller was cancelled or the result was lost.

    Args:
        ask: `GroupCommit.submit` with all arguments except ``on_abandoned``.
        lost: gets the result that no caller gets, and as ``outcome_unknown`` whether it may be wrong.
    """
    answer = ask(on_abandoned=lost)
    try:
        return await answer
    except asyncio.CancelledError:
        if answer.done() and not answer.cancelled() and answer.exception() is None:
            lost(answer.result(), outcome_unknown=False)
        raise


class LostClaims:
    """Releases claims that no caller knows of.

    A release with an unknown outcome is repeated until its outcome is known. Meanwhile no delivery may be claimed,
    because the repeated release could release a delivery that was claimed again and is being sent. Such a release can
    begin while a claim waits for its transaction. So the claim checks for it again inside the transaction.

    Args:
        release: releases deliveries by their ids, in the store.

    Attributes:
        on_notify: receives the uids of endpoints whose deliveries were released. This replica gets no other notice of
            them.
    """

    def __init__(self, release: Callable[[Sequence[str]], Awaitable[None]]) -> None:
        self._release = release
        self.on_notify: Callable[[str], None] = lambda _: None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._outcome_unknown: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def unless_lost(
        self, ask: Callable[..., "asyncio.Future[T]"], claims_of: Callable[[T], list[tuple[str, str]]]
    ) -> T:
        """Submit a claim; release the claimed deliveries if the caller was cancelled or the result was lost.

        Args:
            ask: `GroupCommit.submit` with all arguments except ``on_abandoned``.
            claims_of: returns the deliveries that a result claims, with their endpoints: ids with uids.
        """

        def lost(result: T, *, outcome_unknown: bool) -> None:
            self._give_back(claims_of(result), outcome_unknown=outcome_unknown)

        return await unless_lost(ask, lost)

    async def certain(self, ask: Callable[..., "asyncio.Future[frozenset[str]]"]) -> frozenset[str]:
        """Submit a release until its outcome is known; return the endpoints whose deliveries it released.

        Args:
            ask: `GroupCommit.submit` with all arguments except ``on_abandoned``.

        Raises:
            StoreError: the release failed.
        """
        again: list[asyncio.Task[frozenset[str]]] = []
        released_uids: set[str] = set()

        def lost(uids: frozenset[str], *, outcome_unknown: bool) -> None:
            if outcome_unknown and not self._closed:
                released_uids.update(uids)
                again.append(self._begin(until_done(ask, backoff=_FIRST_BACKOFF), outcome_unknown=True))

        try:
            return await ask(on_abandoned=lost)
        except OutcomeUnknown:
            if not again:
                raise
            return await asyncio.shield(again[0]) | released_uids

    async def claim(self, ask: Callable[..., "asyncio.Future[list[Claimed] | None]"]) -> list[Claimed]:
        """Submit a claim when no release has an unknown outcome; release deliveries that no caller gets.

        Args:
            ask: `GroupCommit.submit` with all arguments except ``on_abandoned``; its result is None if a release had an
                unknown outcome.
        """
        while True:
            if self._outcome_unknown:
                await asyncio.wait(tuple(self._outcome_unknown))
            deliveries = await self.unless_lost(
                ask, lambda deliveries: [(delivery.id, delivery.endpoint_uid) for delivery in deliveries or ()]
            )
            if deliveries is not None:
                return deliveries

    @property
    def doubt(self) -> bool:
        """Whether a release has an unknown outcome."""
        return bool(self._outcome_unknown)

    def close(self) -> None:
        """Stop all releases; the claims end with the claim lease."""
        self._closed = True
        for task in self._tasks:
            task.cancel()

    def _give_back(self, claims: Sequence[tuple[str, str]], *, outcome_unknown: bool) -> None:
        if claims and not self._closed:
            self._begin(self._release_until_done(claims), outcome_unknown=outcome_unknown)

    async def _release_until_done(self, claims: Sequence[tuple[str, str]]) -> None:
        await until_done(lambda: self._release([delivery_id for delivery_id, _ in claims]), backoff=_FIRST_BACKOFF)
        for uid in {uid for _, uid in claims}:
            self.on_notify(uid)

    def _begin(self, work: Coroutine[Any, Any, T], *, outcome_unknown: bool) -> "asyncio.Task[T]":
        task = asyncio.create_task(work)
        for tasks in (self._tasks, self._outcome_unknown) if outcome_unknown else (self._tasks,):
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        return task
