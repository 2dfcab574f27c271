"""Claims for the endpoint queues that ask for deliveries, many in one transaction."""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

import structlog

from hookwright_crds.base import parse_duration
from hookwright_crds.documents.message_bodies import DELAY_BOUNDS
from hookwright_operator.delivery.attempt import RetrySchedule
from hookwright_operator.delivery.endpoint_queue import EndpointQueue
from hookwright_operator.delivery.queues import ClaimReleaser, EndpointQueues
from hookwright_operator.delivery.tasks import wait_for_event
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Claimed
from hookwright_operator.store.retry import until_done
from hookwright_operator.store.store import Store
from hookwright_runtime.errors import StoreError

log = structlog.get_logger(__name__)

_FIRST_BACKOFF: Final = 0.1
_SWEEP_BACKOFF: Final = 5.0
_TOLERATED_MS: Final = 60_000
"""Clocks of replicas differ a little, and NTP sets a clock back a little."""
_LONGEST_CHOSEN_MS: Final = int(parse_duration(DELAY_BOUNDS[1]).total_seconds() * 1000)
"""The longest delay that a consumer may choose when it refuses a message."""
_HASTENED_AT_ONCE: Final = 500
"""Endpoints that one call examines, and deliveries that it changes."""


class Claimer:
    """Claims for the queues that ask: namespaces take turns, and so do the queues of one namespace.

    Args:
        store: where to claim.
        queues: get the claimed deliveries.
        releaser: releases claims on deliveries that no queue may take any more.
        schedule: of retries; a delivery that is due later than it allows is due now.
        sweep: seconds between two searches for deliveries without a notification.
    """

    def __init__(
        self, store: Store, queues: EndpointQueues, releaser: ClaimReleaser, schedule: RetrySchedule, sweep: float
    ) -> None:
        self._store, self._queues, self._releaser, self._sweep = store, queues, releaser, sweep
        self._schedule = schedule
        self._to_sweep = asyncio.Event()

    async def run(self) -> None:
        """Claim for the queues that ask and for those whose due time has come, until cancelled."""
        while True:
            self._queues.to_claim.clear()
            due_in = self._queues.claim_due()
            if self._queues.to_claim_for:
                await until_done(self._claim, backoff=_FIRST_BACKOFF, on_error=_warn)
            else:
                await wait_for_event(self._queues.to_claim, due_in)

    async def sweep(self) -> None:
        """Search repeatedly for deliveries without a notification, such as those whose replica died."""
        while True:
            await wait_for_event(self._to_sweep, self._sweep)
            self._to_sweep.clear()
            try:
                await self._hasten(await self.reload_due_times())
            except StoreError as error:
                log.warning("due times not read, retrying", error=str(error))
                await asyncio.sleep(_SWEEP_BACKOFF)
                self._to_sweep.set()

    def sweep_soon(self) -> None:
        """Search now, because this replica has got shards."""
        self._to_sweep.set()

    async def reload_due_times(self) -> Collection[str]:
        """Load due times of unclaimed pending deliveries from the store, also for endpoints that are not known yet.

        Return the uids of their endpoints.
        """
        due_times = await self._store.next_due()
        self._queues.set_due_times(due_times)
        return due_times.keys()

    async def _hasten(self, uids: Collection[str]) -> None:
        """Make deliveries of this replica's endpoints due now that are due later than the retry schedule allows.

        Due times are clock times. Without this step, a clock that was set back by days would delay deliveries by days.
        """
        queues = [queue for queue in map(self._queues.by_uid.get, uids) if queue is not None and queue.owned]
        for start in range(0, len(queues), _HASTENED_AT_ONCE):
            part = queues[start : start + _HASTENED_AT_ONCE]
            longest_ms = [(queue.endpoint.uid, self._longest_ms(queue.endpoint)) for queue in part]
            while due_uids := await self._store.hasten(longest_ms, limit=_HASTENED_AT_ONCE):
                log.warning("due times later than the retry schedule, deliveries are due now", deliveries=len(due_uids))
                for uid in {*due_uids}:
                    self._queues.waiting(uid)

    def _longest_ms(self, endpoint: Endpoint) -> int:
        longest = self._schedule.of(endpoint).longest_ms
        return (max(longest, _LONGEST_CHOSEN_MS) if endpoint.pulled else longest) + _TOLERATED_MS

    async def _claim(self) -> None:
        memory = self._queues.memory
        queues = self._queues.next_claim()
        with memory.claim_room() as room:
            wants = [(queue, memory.affordable(queue), queue.backlog_seen) for queue in queues]
            wants = [(queue, want, additions) for queue, want, additions in wants if want]
            if wants:
                await self._claim_for(wants, room)

    async def _claim_for(self, wants: Sequence[tuple[EndpointQueue, int, int]], room: int) -> None:
        for queue, _, _ in wants:
            queue.claiming = True
        lapses = self._queues.lapses
        try:
            deliveries = await self._store.claim([(queue.endpoint.uid, want) for queue, want, _ in wants], room=room)
            self._enqueue(deliveries, lapses)
            short = _short(wants, deliveries)
            dues = await self._store.next_due([queue.endpoint.uid for queue in short]) if short else {}
            for queue in short:
                if (due_ms := dues.get(queue.endpoint.uid)) is not None:
                    self._queues.later(queue, due_ms)
        except StoreError:
            for queue, _, _ in wants:
                # The store may have more deliveries of this queue, and it was not read when they are due.
                queue.overflowed()
            raise
        finally:
            for queue, _, _ in wants:
                queue.claiming = False
                self._queues.wake(queue)

    def _enqueue(self, deliveries: Sequence[Claimed], lapses: int) -> None:
        """Put claimed deliveries into their queues; ``lapses`` counts the claim lease expiries before the claim."""
        queues = self._queues
        strays: list[Claimed] = []
        for delivery in deliveries:
            queue = queues.by_uid.get(delivery.endpoint_uid)
            if queue is None or queues.closing or not queue.active or lapses != queues.lapses:
                strays.append(delivery)
                continue
            queue.ready.append(delivery)
            queues.memory.take(queue.endpoint.namespace, delivery.size)
        self._releaser.release(strays)


def _warn(error: StoreError) -> None:
    log.warning("claim failed, retrying", error=str(error))


def _short(wants: Sequence[tuple[EndpointQueue, int, int]], deliveries: Sequence[Claimed]) -> list[EndpointQueue]:
    """Return the queues that got less than they wanted.

    The store has no more for such a queue, unless a delivery was added since the claim began.
    """
    counts = Counter([delivery.endpoint_uid for delivery in deliveries])
    short = []
    for queue, want, additions in wants:
        if counts[queue.endpoint.uid] < want:
            short.append(queue)
            if queue.backlog_seen == additions:
                queue.backlog = False
    return short
