"""Group commit: all calls that arrive during a transaction share the next transaction.

Each transaction takes the calls that have arrived when it begins. The callers get their results after its commit. A
group runs its operations in the order in which they were first requested. Each operation handles all of its calls at
once.

If the database cannot commit, all calls of the group fail. After any other error, the transaction is rolled back and
each call runs again in its own transaction. Then only the faulty call fails.

If more calls wait than one transaction may take, the tenants share it; see `split`.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from sqlalchemy import Connection

from hookwright_operator import metrics
from hookwright_operator.store.database_errors import OutcomeUnknown, translated
from hookwright_runtime.errors import StoreUnavailable

P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T")
A_contra = TypeVar("A_contra", contravariant=True)

Observe = Callable[[str, float], None]
"""Receives the name of an operation (or ``commit``) and how many seconds it took."""

# Iterations of the event loop that a transaction waits at most; measured, see docs/decisions.
_TURNS: Final = 5
MAX_WEIGHT = 1024
"""Weight of the calls that one transaction takes beside its oldest call; it bounds how long other calls wait."""


Work = Callable[[Connection], Any]
"""The function that runs inside one transaction."""

Transact = Callable[[Work], Awaitable[Any]]
"""Runs a work in a transaction and returns the result. If it raises, nothing has changed, except after
`OutcomeUnknown`.
"""


class OnAbandoned(Protocol[A_contra]):
    """Receives the result of a call if its caller was cancelled, or if the outcome of the transaction is unknown."""

    def __call__(self, answer: A_contra, /, *, outcome_unknown: bool) -> None:
        """Receive a result.

        Args:
            answer: the result of the call.
            outcome_unknown: whether the transaction may not have been committed.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Operation(Generic[P, R]):
    """An operation that runs in a transaction.

    Attributes:
        name: the label in the metrics.
        run: takes the payloads of all calls in a group, and returns a result for each, in their order.
    """

    name: str
    run: Callable[[Connection, Sequence[P]], Sequence[R]]


class WaitingCall(NamedTuple):
    """A call that waits for a transaction; see `GroupCommit.submit`."""

    operation: Operation[Any, Any]
    payload: Any
    weight: int
    parts: int
    tenant: str
    answer: "asyncio.Future[Any]"
    on_abandoned: "OnAbandoned[Any] | None"


class GroupCommit:
    """Group commit: collects calls and runs them in shared transactions, one transaction at a time.

    Args:
        transact: runs a transaction.
        observe: receives the seconds of each operation per transaction, and the remaining seconds as ``commit``.
    """

    def __init__(self, transact: Transact, observe: Observe) -> None:
        self._transact = transact
        self._observe = observe
        self._loop = asyncio.get_running_loop()
        self._waiting: list[WaitingCall] = []
        self._weight = 0
        self._again: deque[WaitingCall] = deque()
        self._under_way: Sequence[WaitingCall] = ()
        self._wake = asyncio.Event()
        self._closing = False
        self._writer = asyncio.create_task(self._run(), name="store writer")
        self._writer.add_done_callback(self._ended)

    def submit(
        self,
        operation: Operation[P, R],
        payload: P,
        *,
        weight: int = 1,
        parts: int = 1,
        tenant: str = "",
        on_abandoned: "OnAbandoned[R] | None" = None,
    ) -> "asyncio.Future[R]":
        """Request an operation in the next transaction; cancelling the future does not cancel the operation.

        Args:
            operation: the operation to run.
            payload: its input.
            weight: about how many rows it writes.
            parts: how many calls of the store's users it contains.
            tenant: the tenant that requests it, such as a namespace; tenants have equal shares of a full transaction.
            on_abandoned: receives a result that no caller gets.

        Raises:
            StoreUnavailable: the store is closed, or its writer task has ended.
        """
        if self._closing or self._writer.done():
            raise StoreUnavailable(self._obituary())
        answer: asyncio.Future[R] = self._loop.create_future()
        self._waiting.append(WaitingCall(operation, payload, weight, parts, tenant, answer, on_abandoned))
        self._weight += weight
        self._wake.set()
        return answer

    async def close(self) -> None:
        """Refuse new calls, and return when all earlier calls are done."""
        self._closing = True
        self._wake.set()
        await asyncio.wait([self._writer])

    async def _run(self) -> None:
        while not (self._closing and not self._anything):
            await self._wake.wait()
            self._wake.clear()
            while self._anything:
                await self._run_next()

    @property
    def _anything(self) -> bool:
        return bool(self._again or self._waiting)

    async def _run_next(self) -> None:
        group = _Group([self._again.popleft()] if self._again else await self._gathered())
        self._under_way = group.calls
        try:
            answers = await self._transact(group)
        except Exception as error:  # noqa: BLE001 - every error belongs to the callers
            self._fail(group, error)
        else:
            self._answer(group, answers)
        self._under_way = ()

    async def _gathered(self) -> Sequence[WaitingCall]:
        """Wait for calls of the same moment, which arrive some loop iterations apart; a single call does not wait."""
        iterations = 0
        while iterations < min(sum([call.parts for call in self._waiting]) - 1, _TURNS):
            await asyncio.sleep(0)
            iterations += 1
        if self._weight <= MAX_WEIGHT:
            calls, self._waiting, self._weight = self._waiting, [], 0
        else:
            calls, self._waiting = split(self._waiting, room=MAX_WEIGHT)
            self._weight = sum([call.weight for call in self._waiting])
        return calls

    def _fail(self, group: "_Group", error: Exception) -> None:
        if isinstance(error, OutcomeUnknown):
            self._leave_open(group.operations, error)
        elif len(group.calls) == 1 or isinstance(translated(error), StoreUnavailable):
            for call in group.calls:
                _refuse(call, error)
        else:
            self._again.extend(group.calls)

    def _answer(self, group: "_Group", results: Sequence[tuple[Sequence[Any], float]]) -> None:
        rest = perf_counter() - group.start
        for (operation, calls), (answers, seconds) in zip(group.operations.items(), results, strict=True):
            for call, answer in zip(calls, answers, strict=True):
                if not call.answer.done():
                    call.answer.set_result(answer)
                elif call.on_abandoned is not None:
                    call.on_abandoned(answer, outcome_unknown=False)
            self._observe(operation.name, seconds)
            rest -= seconds
        self._observe("commit", rest)

    @staticmethod
    def _leave_open(group: Mapping[Operation[Any, Any], Sequence[WaitingCall]], error: OutcomeUnknown) -> None:
        """Pass each caller the result that it would have got, because the caller may have to undo it."""
        results: Any = error.result
        for calls, (answers, _) in zip(group.values(), results, strict=True):
            for call, answer in zip(calls, answers, strict=True):
                if call.on_abandoned is not None:
                    call.on_abandoned(answer, outcome_unknown=True)
                _refuse(call, OutcomeUnknown(str(error), answer))

    def _ended(self, _: "asyncio.Task[None]") -> None:
        """Refuse all remaining calls, because the writer task has ended."""
        remaining = [*self._under_way, *self._again, *self._waiting]
        self._again.clear()
        self._waiting.clear()
        for call in remaining:
            _refuse(call, StoreUnavailable(self._obituary()))

    def _obituary(self) -> str:
        if self._closing:
            return "the store is closed"
        error = None if self._writer.cancelled() else self._writer.exception()
        return f"the store's writer has ended: {error!r}" if error else "the store's writer was stopped"


class _Group:
    """Calls that share a transaction, by operation, in the order in which the operations were first requested."""

    __slots__ = ("calls", "operations", "start")

    def __init__(self, calls: Sequence[WaitingCall]) -> None:
        self.start = perf_counter()
        self.calls = calls
        self.operations: dict[Operation[Any, Any], list[WaitingCall]] = {}
        for call in calls:
            self.operations.setdefault(call.operation, []).append(call)

    def __call__(self, connection: Connection) -> list[tuple[Sequence[Any], float]]:
        results = []
        for operation, calls in self.operations.items():
            start = perf_counter()
            answers = operation.run(connection, [call.payload for call in calls])
            results.append((answers, perf_counter() - start))
        return results


def split(waiting: Sequence[WaitingCall], *, room: int) -> tuple[list[WaitingCall], list[WaitingCall]]:
    """Choose the calls of the next transaction.

    The oldest call is always chosen, so every call runs eventually. Calls without a tenant are always chosen, too:
    claims, results and claim leases of this replica, on which the deliveries of all tenants depend. Other calls join
    them up to a weight, tenants with the lowest total weight first. So a light call waits for one transaction, however
    much another tenant has requested.

    Args:
        waiting: at least one call, in the order of arrival.
        room: the weight of tenants' calls beside the oldest.

    Returns:
        The chosen calls and the calls that still wait, both in the order of arrival; so are the calls of one tenant.
    """
    totals: dict[str, int] = {}
    sums = []
    for call in waiting:
        totals[call.tenant] = total = totals.get(call.tenant, 0) + call.weight
        sums.append(total)
    go = {place for place, call in enumerate(waiting) if not call.tenant} | {0}
    for place in sorted(set(range(len(waiting))) - go, key=sums.__getitem__):
        room -= waiting[place].weight
        if room < 0:
            break
        go.add(place)
    return (
        [call for place, call in enumerate(waiting) if place in go],
        [call for place, call in enumerate(waiting) if place not in go],
    )


def counted(refusal: Exception) -> Exception:
    """Count an error that an operation failed with, and return it."""
    metrics.STORE_ERRORS.labels("unavailable" if isinstance(refusal, StoreUnavailable) else "refused").inc()
    return refusal


def _refuse(call: WaitingCall, error: Exception) -> None:
    if not call.answer.done():
        # Each caller gets its own exception: raising one exception in several tasks would mix their tracebacks.
        refusal = counted(translated(error))
        refusal.__cause__ = None if refusal is error else error
        call.answer.set_exception(refusal)
