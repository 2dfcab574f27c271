"""Stores what became of attempts; the results of one turn of the event loop go to the store in one call.

A call for each took 4 % more CPU with 100 endpoints.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hookwright_operator.delivery.lanes import Lane
from hookwright_operator.delivery.persisting import persist
from hookwright_operator.delivery.seams import Store
from hookwright_operator.delivery.tasks import Tasks
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.model import Settlement


class Result(NamedTuple):
    """What became of one attempt.

    Attributes:
        endpoint: as it was when the attempt began.
    """

    lane: Lane
    endpoint: Endpoint
    settlement: Settlement


class Results:
    """What waits to be stored.

    Args:
        tasks: in which results are stored.
        stored: told of the results that are in the store.
        over: told of those after that, and of those that never will be stored, for this process ends.
    """

    def __init__(
        self,
        store: Store,
        tasks: Tasks,
        *,
        stored: Callable[[Sequence[Result]], None],
        over: Callable[[Sequence[Result]], None],
    ) -> None:
        self._store, self._tasks, self._stored, self._over = store, tasks, stored, over
        self._gathered: list[Result] = []

    def add(self, result: Result) -> None:
        """Have a result stored, however long the store is away."""
        if not self._gathered:
            self._tasks.spawn(self._store_gathered())
        self._gathered.append(result)

    async def _store_gathered(self) -> None:
        results, self._gathered = self._gathered, []
        try:
            await self._store.settle([result.settlement for result in results])
        except Exception:  # noqa: BLE001 - whatever it is, each raises its own
            for result in results:
                result.lane.refused += 1
                self._tasks.spawn(self._persist(result))
        except BaseException:
            self._over(results)
            raise
        else:
            self._end(results)

    async def _persist(self, result: Result) -> None:
        """Store a result by itself, for what was refused may be only one of them.

        The failed call may have been carried out all the same, so the store is asked to store each attempt once.
        """
        lane, endpoint, settlement = result
        try:
            await persist(
                lambda: self._store.settle((settlement,), again=True),
                "a result waits to be stored",
                delivery=settlement.delivery_id,
                event_id=settlement.event_id,
                namespace=endpoint.namespace,
                endpoint=endpoint.name,
            )
        except BaseException:
            lane.refused -= 1
            self._over((result,))
            raise
        lane.refused -= 1
        self._end((result,))

    def _end(self, results: Sequence[Result]) -> None:
        try:
            self._stored(results)
        finally:
            self._over(results)
