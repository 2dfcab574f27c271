"""Assignment of shards of endpoints to the dispatcher, when several replicas deliver."""

import asyncio
from typing import Final

import structlog

from hookwright_operator.delivery.dispatcher import Dispatcher
from hookwright_operator.delivery.tasks import wait_for_event
from hookwright_operator.store.shard_sharing import ShardOwnership, ShardSharing
from hookwright_runtime.errors import StoreError

log = structlog.get_logger(__name__)

_LEAVE_SECONDS: Final = 3.0
TICK: Final = 2.0
"""Seconds between two checks of the shards when there was no notification of a change."""


class ShardOwner:
    """Takes and releases shards of this replica.

    A shard is released in three steps. First, nothing begins for it any more, and its claims are released. Then
    attempts under way end, and their results are stored. Then the shard is free for other replicas.

    Args:
        sharing: knows which replica owns which shard.
        dispatcher: delivers for the owned shards.
        tick: seconds between two checks when there was no notification of a change.
    """

    def __init__(self, sharing: ShardSharing, dispatcher: Dispatcher, *, tick: float = TICK) -> None:
        self._sharing, self._dispatcher, self._tick = sharing, dispatcher, tick
        self._leaving: frozenset[int] = frozenset()
        self._lapses = -1
        self._wake = dispatcher.owned_shards.to_check

    def look_soon(self) -> None:
        """Check for changes now, without waiting for the tick."""
        self._wake.set()

    async def run(self) -> None:
        """Check the shards repeatedly, until cancelled."""
        self._sharing.changed()
        while True:
            await self._try_to_look()
            await self._wait()

    async def drain(self, grace: float) -> None:
        """Stop delivering: end attempts under way within ``grace`` seconds, and release each shard when it is quiet.

        `run` must have ended before.
        """
        if not self._dispatcher.owned_shards.shared:
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
                log.warning("replica not withdrawn, its shards stay assigned to it; retrying", error=str(error))
                await self._wait()
        while await self._try_to_look():
            await self._wait()

    async def look(self) -> bool:
        """Update the owned shards from the store; return whether any shards are left.

        Raises:
            StoreError: the store failed; the shards stay as they are while the claim lease is valid.
        """
        lapses = self._dispatcher.queues.lapses
        ownership = await self._sharing.balance(after_lapse=lapses != self._lapses)
        if lapses != self._dispatcher.queues.lapses:
            # The answer may be older than the expiry of the claim lease, and other replicas may own these shards now.
            self.look_soon()
            return True
        self._lapses = lapses
        self._leaving = self._chosen(ownership)
        self._dispatcher.set_owned_shards(ownership.shards - self._leaving)
        quiet = [shard for shard in self._leaving if not self._dispatcher.owned_shards.under_way(shard)]
        if quiet:
            await self._sharing.free(quiet)
        return len(ownership.shards) > len(quiet)

    def _chosen(self, ownership: ShardOwnership) -> frozenset[int]:
        """Choose the shards to release: those already being released, then those with the fewest attempts under way."""

        def reluctance(shard: int) -> tuple[bool, int, int]:
            return shard not in self._leaving, self._dispatcher.owned_shards.under_way(shard), shard

        return frozenset(sorted(ownership.shards, key=reluctance)[: ownership.surplus])

    async def _try_to_look(self) -> bool:
        self._wake.clear()
        try:
            return await self.look()
        except StoreError as error:
            log.warning("shards not read, keeping the current ones until the claim lease expires", error=str(error))
            return True

    async def _wait(self) -> None:
        await wait_for_event(self._wake, self._tick)
