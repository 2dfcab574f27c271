"""Claims for the endpoint queues that ask for deliveries, many in one transaction."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

import structlog

from hookwright_operator.delivery.body_memory import BodyMemory
from hookwright_operator.delivery.endpoint_queue import EndpointQueue
from hookwright_operator.delivery.protocols import DeliveryStore
from hookwright_operator.delivery.scheduler import Turns
from hookwright_operator.store.records import Claimed
from hookwright_operator.store.retry import until_done
from hookwright_runtime.errors import StoreError

log = structlog.get_logger(__name__)

_QUEUES_PER_CLAIM: Final = 64
_FIRST_BACKOFF: Final = 0.1


class Feeds(Protocol):
    """Owner of the endpoint queues."""

    def enqueue_claimed(self, claimed: Sequence[Claimed], *, lapses: int) -> None:
        """Put claimed deliveries into their queues; ``lapses`` counts the claim lease expiries before the claim."""

    def later(self, queue: EndpointQueue, due_ms: int) -> None:
        """Note when the next delivery of a queue that is only in the store is due."""

    def pump(self, queue: EndpointQueue) -> None:
        """Start the attempts of a queue that may start, and claim more if there is room."""

    @property
    def lapses(self) -> int:
        """How often the claim lease has expired."""


class Claimer:
    """Claims for the queues that ask: namespaces take turns, and so do the queues of one namespace.

    Args:
        store: where to claim.
        memory: bounds the bytes of claimed bodies.
        feeds: has the queues that get the claimed deliveries.
    """

    def __init__(self, store: DeliveryStore, memory: BodyMemory, feeds: Feeds) -> None:
        self._store, self._memory, self._feeds = store, memory, feeds
        self._hungry = Turns()
        self._wake = asyncio.Event()

    def ask(self, queue: EndpointQueue) -> None:
        """Claim for a queue soon."""
        self._hungry.add(queue)
        self._wake.set()

    async def run(self) -> None:
        """Claim for the queues that ask, until cancelled."""
        while True:
            await self._wake.wait()
            await until_done(self._claim, backoff=_FIRST_BACKOFF, refused=_warn)

    async def _claim(self) -> None:
        queues = self._hungry.take(_QUEUES_PER_CLAIM)
        if not self._hungry:
            self._wake.clear()
        with self._memory.claim_room() as room:
            wants = [(queue, self._memory.affordable(queue), queue.backlog_seen) for queue in queues]
            wants = [(queue, want, seen) for queue, want, seen in wants if want]
            if wants:
                await self._claim_for(wants, room)

    async def _claim_for(self, wants: Sequence[tuple[EndpointQueue, int, int]], room: int) -> None:
        for queue, _, _ in wants:
            queue.claiming = True
        lapses = self._feeds.lapses
        try:
            claimed = await self._store.claim([(queue.endpoint.uid, want) for queue, want, _ in wants], room=room)
            self._feeds.enqueue_claimed(claimed, lapses=lapses)
            short = _short(wants, claimed)
            dues = await self._store.next_due([queue.endpoint.uid for queue in short]) if short else {}
        except StoreError:
            for queue, _, _ in wants:
                self.ask(queue)
            raise
        finally:
            for queue, _, _ in wants:
                queue.claiming = False
        for queue in short:
            if (due_ms := dues.get(queue.endpoint.uid)) is not None:
                self._feeds.later(queue, due_ms)
        for queue, _, _ in wants:
            self._feeds.pump(queue)


def _warn(error: StoreError) -> None:
    log.warning("claim failed, retrying", error=str(error))


def _short(wants: Sequence[tuple[EndpointQueue, int, int]], claimed: Sequence[Claimed]) -> list[EndpointQueue]:
    """Return the queues that got less than they wanted.

    The store has no more for such a queue, unless a delivery was added since the claim began.
    """
    got = Counter([delivery.endpoint_uid for delivery in claimed])
    short = []
    for queue, want, seen in wants:
        if got[queue.endpoint.uid] < want:
            short.append(queue)
            if queue.backlog_seen == seen:
                queue.backlog = False
    return short
