"""Attempts: the loop that starts them, and the way of one attempt until its result is stored."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import structlog

from hookwright_operator import metrics
from hookwright_operator.delivery.attempt import Outcome, RetrySchedule, judge
from hookwright_operator.delivery.attempt_log import AttemptLog
from hookwright_operator.delivery.endpoint_queue import EndpointQueue
from hookwright_operator.delivery.http.error_messages import TOKEN_SERVER
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.delivery.queues import ClaimReleaser, EndpointQueues
from hookwright_operator.delivery.tasks import Tasks, wait_for_event
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Claimed, Settlement, State
from hookwright_operator.store.retry import persist
from hookwright_operator.store.store import Store
from hookwright_operator.tracing import exemplar_of
from hookwright_runtime.log_bounds import LogBound

log = structlog.get_logger(__name__)

_COUNTERS: Final = {state: metrics.DELIVERIES.labels(state.value) for state in (State.DELIVERED, State.FAILED)}


class Observer(Protocol):
    """An object that is called with the result of each attempt."""

    def attempted(self, endpoint: Endpoint, settlement: Settlement, *, limited_to: int | None = None) -> None:
        """Record an attempt whose result is stored.

        Args:
            endpoint: the snapshot with which the attempt began.
            settlement: the result.
            limited_to: how many attempts at once the endpoint gets while its attempts time out, None otherwise.
        """

    def hindered(self, endpoint: Endpoint, error: str) -> None:
        """Record why no attempt can be made now, although neither the receiver nor this process is to blame."""


class Result(NamedTuple):
    """Result of one attempt.

    Attributes:
        endpoint: the snapshot with which the attempt began.
    """

    queue: EndpointQueue
    endpoint: Endpoint
    settlement: Settlement


class ResultWriter:
    """Results that are not stored yet; those of one turn of the event loop go to the store in one call.

    One call for each result took 4 % more CPU with 100 endpoints.

    Args:
        tasks: in which results are stored.
        observer: called with every stored result.
    """

    def __init__(self, store: Store, queues: EndpointQueues, tasks: Tasks, observer: Observer) -> None:
        self._store, self._queues, self._tasks, self.observer = store, queues, tasks, observer
        self._gathered: list[Result] = []

    def add(self, result: Result) -> None:
        """Store a result in the background, and retry until it is stored."""
        result.queue.settling += 1
        if not self._gathered:
            self._tasks.spawn(self._store_gathered())
        self._gathered.append(result)

    async def _store_gathered(self) -> None:
        results, self._gathered = self._gathered, []
        try:
            await self._store.settle([result.settlement for result in results])
        except Exception:  # noqa: BLE001 - each result then raises its own error
            for result in results:
                result.queue.refused += 1
                self._tasks.spawn(self._persist(result))
        except BaseException:
            self._end(results)
            raise
        else:
            self._report(results)

    async def _persist(self, result: Result) -> None:
        """Store one result by itself, because the store may have refused only one of several.

        The failed call may have been committed, so this call stores an attempt only if it is not stored yet.
        """
        queue, endpoint, settlement = result
        try:
            await persist(
                lambda: self._store.settle((settlement,), again=True),
                "result not stored, retrying",
                delivery=settlement.delivery_id,
                event_id=settlement.event_id,
                namespace=endpoint.namespace,
                endpoint=endpoint.name,
            )
        except BaseException:
            queue.refused -= 1
            self._end((result,))
            raise
        queue.refused -= 1
        self._report((result,))

    def _report(self, results: Sequence[Result]) -> None:
        """Report results that are stored, and note when the retries are due."""
        try:
            for queue, endpoint, settlement in results:
                if settlement.state is State.PENDING:
                    self._queues.due(settlement.endpoint_uid, settlement.due_ms)
                else:
                    _COUNTERS[settlement.state].inc()
                self.observer.attempted(endpoint, settlement, limited_to=queue.limited_to)
        finally:
            self._end(results)

    def _end(self, results: Sequence[Result]) -> None:
        """Free the places of results that are stored, or that will not be stored because this process ends."""
        for queue, _, _ in results:
            queue.settling -= 1
            self._queues.owned_shards.end(queue.shard)
        for queue in dict.fromkeys([result.queue for result in results]):
            self._queues.wake(queue)


class AttemptRunner:
    """Starts the attempts that the scheduler allows, in background tasks.

    Args:
        results: stores the results.
        releaser: releases claims on deliveries whose attempt this process could not make.
        clock_ms: the time, in milliseconds since the epoch.
        jitter: returns a random number from 0 to 1; it spreads the attempts of endpoints that time out.
    """

    def __init__(
        self,
        queues: EndpointQueues,
        sender: Sender,
        schedule: RetrySchedule,
        results: ResultWriter,
        *,
        releaser: ClaimReleaser,
        tasks: Tasks,
        clock_ms: Callable[[], int],
        jitter: Callable[[], float],
    ) -> None:
        self._queues, self._sender, self._schedule = queues, sender, schedule
        self._results, self._releaser = results, releaser
        self._clock_ms, self._jitter = clock_ms, jitter
        self._tasks = tasks
        self._log = AttemptLog()
        # The faults of one second have one line for each reason.
        self._own_faults = LogBound(burst=0, rate=0.0, report=_report_own_faults)

    async def run(self) -> None:
        """Start attempts when a queue asks and when a pause ends, until cancelled; attempts under way then continue."""
        clock = asyncio.get_running_loop().time
        while True:
            self.start()
            self._queues.to_start.clear()
            resume_at = self._queues.scheduler.resume_at
            await wait_for_event(self._queues.to_start, None if resume_at is None else resume_at - clock())

    def start(self) -> None:
        """Start all attempts that may start now."""
        if self._queues.closing:
            return
        queues, scheduler = self._queues, self._queues.scheduler
        resume_at = scheduler.resume_at
        for queue in scheduler.start(asyncio.get_running_loop().time(), self._clock_ms()):
            queues.owned_shards.begin(queue.shard)
            self._tasks.spawn(self._attempt(queue, queue.ready.pop(0)))
        if scheduler.resume_at != resume_at:
            queues.to_start.set()

    async def _attempt(self, queue: EndpointQueue, delivery: Claimed) -> None:
        endpoint, lapses = queue.endpoint, self._queues.lapses
        try:
            outcome = await self._sender.send(endpoint, delivery, now=self._now)
            settlement = judge(endpoint, delivery, outcome, self._schedule)
        except BaseException:
            self._queues.owned_shards.end(queue.shard)
            raise
        finally:
            self._queues.scheduler.end(queue)
            self._queues.memory.give(endpoint.namespace, delivery.size)
        if outcome.own_fault:
            self._postpone(queue, delivery, outcome, keep=lapses == self._queues.lapses)
        else:
            self._count(queue, delivery, outcome)
            self._log.attempted(endpoint, delivery, settlement)
            self._results.add(Result(queue, endpoint, settlement))
        if self._queues.ask(queue):
            self.start()

    def _now(self) -> float:
        return self._clock_ms() / 1000

    def _count(self, queue: EndpointQueue, delivery: Claimed, outcome: Outcome) -> None:
        now = asyncio.get_running_loop().time()
        queue.postponed = 0
        queue.ended(delivered=outcome.delivered, timed_out=outcome.timed_out, now=now, jitter=self._jitter())
        if delivery.attempts == 0:
            seconds = (outcome.started_ms + outcome.duration_ms - delivery.accepted_ms) / 1000
            metrics.LATENCY.observe(seconds, exemplar_of(delivery.trace) if delivery.trace else None)

    def _postpone(self, queue: EndpointQueue, delivery: Claimed, outcome: Outcome, *, keep: bool) -> None:
        now = asyncio.get_running_loop().time()
        metrics.OWN_FAULTS.labels(outcome.own_fault).inc()
        if outcome.own_fault == TOKEN_SERVER:
            self._results.observer.hindered(queue.endpoint, outcome.error)
            self._log.hindered(queue.endpoint, outcome.error)
        else:
            self._own_faults.allow(outcome.own_fault)
        if keep and queue.active and not self._queues.closing:
            queue.postpone(delivery, now)
            self._queues.memory.take(queue.endpoint.namespace, delivery.size)
        else:
            self._releaser.release([delivery])
        self._queues.owned_shards.end(queue.shard)


def _report_own_faults(reason: str, count: int) -> None:
    log.warning("attempts postponed, this installation lacks resources", reason=reason, attempts=count)
