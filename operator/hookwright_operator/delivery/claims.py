"""Claims for the endpoint queues that ask for deliveries, many in one transaction."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

import structlog

from hookwright_operator.delivery.body_memory import BodyMemory
from hookwright_operator.delivery.lanes import Lane
from hookwright_operator.delivery.scheduler import Turns
from hookwright_operator.delivery.seams import Store
from hookwright_operator.errors import StoreError
from hookwright_operator.store.model import Claimed
from hookwright_operator.store.retrying import until_done

log = structlog.get_logger(__name__)

_LANES_PER_CLAIM: Final = 64
_FIRST_BACKOFF: Final = 0.1


class Feeds(Protocol):
    """Owner of the endpoint queues."""

    def take_in(self, claimed: Sequence[Claimed], *, lapses: int) -> None:
        """Put claimed deliveries into their queues; ``lapses`` counts the claim lease expiries before the claim."""

    def later(self, lane: Lane, due_ms: int) -> None:
        """Note when the next delivery of a queue that is only in the store is due."""

    def pump(self, lane: Lane) -> None:
        """Start the attempts of a queue that may start, and claim more if there is room."""

    @property
    def lapses(self) -> int:
        """How often the claim lease has expired."""


class Claims:
    """Claims for the queues that ask: namespaces take turns, and so do the queues of one namespace.

    Args:
        store: where to claim.
        memory: bounds the bytes of claimed bodies.
        feeds: has the queues that get the claimed deliveries.
    """

    def __init__(self, store: Store, memory: BodyMemory, feeds: Feeds) -> None:
        self._store, self._memory, self._feeds = store, memory, feeds
        self._hungry = Turns()
        self._wake = asyncio.Event()

    def ask(self, lane: Lane) -> None:
        """Claim for a queue soon."""
        self._hungry.add(lane)
        self._wake.set()

    async def run(self) -> None:
        """Claim for the queues that ask, until cancelled."""
        while True:
            await self._wake.wait()
            await until_done(self._claim, backoff=_FIRST_BACKOFF, refused=_warn)

    async def _claim(self) -> None:
        lanes = self._hungry.take(_LANES_PER_CLAIM)
        if not self._hungry:
            self._wake.clear()
        with self._memory.claim_room() as room:
            wants = [(lane, self._memory.affordable(lane), lane.backlog_seen) for lane in lanes]
            wants = [(lane, want, seen) for lane, want, seen in wants if want]
            if wants:
                await self._claim_for(wants, room)

    async def _claim_for(self, wants: Sequence[tuple[Lane, int, int]], room: int) -> None:
        for lane, _, _ in wants:
            lane.claiming = True
        lapses = self._feeds.lapses
        try:
            claimed = await self._store.claim([(lane.endpoint.uid, want) for lane, want, _ in wants], room=room)
            self._feeds.take_in(claimed, lapses=lapses)
            short = _short(wants, claimed)
            dues = await self._store.next_due([lane.endpoint.uid for lane in short]) if short else {}
        except StoreError:
            for lane, _, _ in wants:
                self.ask(lane)
            raise
        finally:
            for lane, _, _ in wants:
                lane.claiming = False
        for lane in short:
            if (due_ms := dues.get(lane.endpoint.uid)) is not None:
                self._feeds.later(lane, due_ms)
        for lane, _, _ in wants:
            self._feeds.pump(lane)


def _warn(error: StoreError) -> None:
    log.warning("claim failed, retrying", error=str(error))


def _short(wants: Sequence[tuple[Lane, int, int]], claimed: Sequence[Claimed]) -> list[Lane]:
    """Return the queues that got less than they wanted.

    The store has no more for such a queue, unless a delivery was added since the claim began.
    """
    got = Counter([delivery.endpoint_uid for delivery in claimed])
    short = []
    for lane, want, seen in wants:
        if got[lane.endpoint.uid] < want:
            short.append(lane)
            if lane.backlog_seen == seen:
                lane.backlog = False
    return short
