"""Storing of attempt results; the results of one turn of the event loop go to the store in one call.

One call for each result took 4 % more CPU with 100 endpoints.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from hookwright_operator import metrics
from hookwright_operator.delivery.endpoint_queue import EndpointQueue
from hookwright_operator.delivery.queues import EndpointQueues
from hookwright_operator.delivery.tasks import Tasks
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Settlement, State
from hookwright_operator.store.retry import persist
from hookwright_operator.store.store import Store

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


class Result(NamedTuple):
    """Result of one attempt.

    Attributes:
        endpoint: the snapshot with which the attempt began.
    """

    queue: EndpointQueue
    endpoint: Endpoint
    settlement: Settlement


class ResultWriter:
    """Results that are not stored yet.

    Args:
        tasks: in which results are stored.
        observer: called with every stored result.
    """

    def __init__(self, store: Store, queues: EndpointQueues, tasks: Tasks, observer: Observer) -> None:
        self._store, self._queues, self._tasks, self._observer = store, queues, tasks, observer
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
                self._observer.attempted(endpoint, settlement, limited_to=queue.limited_to)
        finally:
            self._end(results)

    def _end(self, results: Sequence[Result]) -> None:
        """Free the places of results that are stored, or that will not be stored because this process ends."""
        for queue, _, _ in results:
            queue.settling -= 1
            self._queues.owned_shards.end(queue.shard)
        for queue in dict.fromkeys([result.queue for result in results]):
            self._queues.wake(queue)
