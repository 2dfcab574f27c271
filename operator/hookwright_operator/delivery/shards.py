"""Keeps a dispatcher to the shards of endpoints that are its process's, where several processes deliver."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, Protocol

import structlog

from hookwright_operator.delivery.loops import Dispatcher
from hookwright_operator.errors import StoreError
from hookwright_operator.store.model import Holding

log = structlog.get_logger(__name__)

_LEAVE_SECONDS: Final = 3.0
TICK: Final = 2.0
"""Seconds between two looks for shards when nobody told of a change."""


class Sharing(Protocol):
    """What is needed of the store."""

    async def balance(self) -> Holding: ...  # noqa: D102
    async def free(self, numbers: Iterable[int]) -> None: ...  # noqa: D102
    async def withdraw(self) -> None: ...  # noqa: D102
    def changed(self) -> None: ...  # noqa: D102


class Ownership:
    """Takes shards, and lets go of those that are too many.

    A shard is let go in three steps: nothing begins for it any more, and what is held of it is given back; what is
    under way ends, and its results are stored; then it is free for others.

    Args:
        sharing: who has which shard.
        dispatcher: what delivers.
        tick: seconds between two looks when nobody told of a change.
    """

    def __init__(self, sharing: Sharing, dispatcher: Dispatcher, *, tick: float = TICK) -> None:
        self._sharing, self._dispatcher, self._tick = sharing, dispatcher, tick
        self._leaving: frozenset[int] = frozenset()
        self._wake = asyncio.Event()
        dispatcher.ground.quiet = self.look_soon

    def look_soon(self) -> None:
        """Look for changes now, and not after the tick."""
        self._wake.set()

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        self._sharing.changed()
        while True:
            await self._try_to_look()
            await self._wait()

    async def drain(self, grace: float) -> None:
        """Deliver no more: end what is under way within ``grace`` seconds, and let go of each shard once it is quiet.

        `run` must have ended before.
        """
        if not self._dispatcher.ground.shared:
            await self._dispatcher.drain(grace)
            return
        leaving = asyncio.create_task(self._leave())
        await self._dispatcher.drain(grace)
        await asyncio.wait([leaving], timeout=_LEAVE_SECONDS)
        leaving.cancel()

    async def _leave(self) -> None:
        while True:
            try:
                await self._sharing.withdraw()
                break
            except StoreError as error:
                log.warning("others are not told yet that this process delivers no more", error=str(error))
                await self._wait()
        while await self._try_to_look():
            await self._wait()

    async def look(self) -> bool:
        """See which shards are this process's, and act on it; return whether there are any.

        Raises:
            StoreError: the store does not tell; everything stays as it is while the lease holds.
        """
        lapses = self._dispatcher.lapses
        held = await self._sharing.balance()
        if lapses != self._dispatcher.lapses:
            # The answer may be older than the lapse, and others may have taken what it names.
            self.look_soon()
            return True
        self._leaving = self._chosen(held)
        self._dispatcher.own(held.owned - self._leaving)
        quiet = [shard for shard in self._leaving if not self._dispatcher.ground.under_way(shard)]
        if quiet:
            await self._sharing.free(quiet)
        return len(held.owned) > len(quiet)

    def _chosen(self, held: Holding) -> frozenset[int]:
        """Choose which shards to let go: those that are leaving already, then those with the least under way."""

        def reluctance(shard: int) -> tuple[bool, int, int]:
            return shard not in self._leaving, self._dispatcher.ground.under_way(shard), shard

        return frozenset(sorted(held.owned, key=reluctance)[: held.surplus])

    async def _try_to_look(self) -> bool:
        self._wake.clear()
        try:
            return await self.look()
        except StoreError as error:
            log.warning("the store does not tell whose endpoints are whose right now", error=str(error))
            return True

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._tick):
                await self._wake.wait()
