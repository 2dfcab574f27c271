"""Group commit: whatever is asked for while a transaction runs goes together into the next one.

One task takes what has gathered, runs it as one transaction and answers everyone after the commit. A group is ordered
by operation, in the order in which the operations were first asked for, and each operation works through all of its
calls at once. If the database cannot commit, all fail alike. If anything else goes wrong, the transaction is undone and
each call is run again in one of its own, so that only the one at fault fails.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy import Connection

from hookwright_operator import metrics
from hookwright_operator.errors import StoreUnavailable
from hookwright_operator.store.faults import OutcomeUnknown, translated

P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T")

Observe = Callable[[str, float], None]
"""Takes what was done (an operation's name, or ``commit``) and how many seconds it took."""

# Bounds how long one transaction keeps others waiting.
MAX_WEIGHT = 4096


class Transact(Protocol):
    """Runs a function inside one transaction of its own."""

    def __call__(self, work: Callable[[Connection], T], /) -> Awaitable[T]:
        """Begin, run the work, commit; roll back and raise if that fails."""


@dataclass(frozen=True, slots=True, eq=False)
class Operation(Generic[P, R]):
    """Something to be done in a transaction.

    Attributes:
        name: as it is observed.
        run: takes the payloads of all calls in a group, and returns an answer for each, in their order.
    """

    name: str
    run: Callable[[Connection, Sequence[P]], Sequence[R]]


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    operation: Operation[Any, Any]
    payload: Any
    weight: int
    answer: "asyncio.Future[Any]"


class Batcher:
    """Gathers calls and runs them in shared transactions, one transaction at a time.

    Args:
        transact: runs one transaction.
        observe: told per transaction what each operation took, and as ``commit`` what the rest of it took.
    """

    def __init__(self, transact: Transact, observe: Observe) -> None:
        self._transact = transact
        self._observe = observe
        self._waiting: deque[_Call] = deque()
        self._under_way: Sequence[_Call] = ()
        self._wake = asyncio.Event()
        self._closing = False
        self._writer = asyncio.create_task(self._run(), name="store writer")
        self._writer.add_done_callback(self._ended)

    def submit(self, operation: Operation[P, R], payload: P, *, weight: int = 1) -> "asyncio.Future[R]":
        """Ask for an operation in the next transaction; cancelling the future does not call it off.

        Args:
            operation: what to do.
            payload: what to do it with.
            weight: about how many rows it writes.

        Raises:
            StoreUnavailable: the store is closed or its writer has died.
        """
        if self._closing or self._writer.done():
            raise StoreUnavailable(self._obituary())
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Call(operation, payload, weight, answer))
        self._wake.set()
        return answer

    async def close(self) -> None:
        """Take nothing more, and return when all that was asked for is done."""
        self._closing = True
        self._wake.set()
        await asyncio.wait([self._writer])

    async def _run(self) -> None:
        while not (self._closing and not self._waiting):
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                self._under_way = self._take()
                await self._write(self._under_way)
                self._under_way = ()

    def _take(self) -> list[_Call]:
        calls = [self._waiting.popleft()]
        weight = calls[0].weight
        while self._waiting and (weight := weight + self._waiting[0].weight) <= MAX_WEIGHT:
            calls.append(self._waiting.popleft())
        return calls

    async def _write(self, calls: Sequence[_Call]) -> None:
        group: dict[Operation[Any, Any], list[_Call]] = {}
        for call in calls:
            group.setdefault(call.operation, []).append(call)
        work = [(operation, [call.payload for call in asked]) for operation, asked in group.items()]
        started = perf_counter()
        try:
            done = await self._transact(partial(_perform, work))
        except OutcomeUnknown as error:
            self._leave_open(group, error)
            return
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to the callers
            await self._recover(calls, error)
            return
        rest = perf_counter() - started
        for (operation, asked), (answers, seconds) in zip(group.items(), done, strict=True):
            for call, answer in zip(asked, answers, strict=True):
                if not call.answer.done():
                    call.answer.set_result(answer)
            self._observe(operation.name, seconds)
            rest -= seconds
        self._observe("commit", rest)

    @staticmethod
    def _leave_open(group: Mapping[Operation[Any, Any], Sequence[_Call]], error: OutcomeUnknown) -> None:
        """Tell each caller what its answer would have been, for it may have to be made undone."""
        done: Any = error.result
        for asked, (answers, _) in zip(group.values(), done, strict=True):
            for call, answer in zip(asked, answers, strict=True):
                _refuse(call, OutcomeUnknown(str(error), answer))

    async def _recover(self, calls: Sequence[_Call], error: Exception) -> None:
        if len(calls) == 1 or isinstance(translated(error), StoreUnavailable):
            for call in calls:
                _refuse(call, error)
        else:
            for call in calls:
                await self._write([call])

    def _ended(self, _: "asyncio.Task[None]") -> None:
        """Leave nobody waiting for an answer that will not come."""
        for call in (*self._under_way, *self._waiting):
            _refuse(call, StoreUnavailable(self._obituary()))
        self._waiting.clear()

    def _obituary(self) -> str:
        if self._closing:
            return "the store is closed"
        error = None if self._writer.cancelled() else self._writer.exception()
        return f"the store's writer has ended: {error!r}" if error else "the store's writer was stopped"


def _perform(
    work: Sequence[tuple[Operation[Any, Any], Sequence[Any]]], connection: Connection
) -> list[tuple[Sequence[Any], float]]:
    done = []
    for operation, payloads in work:
        started = perf_counter()
        answers = operation.run(connection, payloads)
        done.append((answers, perf_counter() - started))
    return done


def counted(refusal: Exception) -> Exception:
    """Count what an operation was refused with, and return it."""
    metrics.STORE_ERRORS.labels("unavailable" if isinstance(refusal, StoreUnavailable) else "refused").inc()
    return refusal


def _refuse(call: _Call, error: Exception) -> None:
    if not call.answer.done():
        # Each caller gets an exception of its own, for raising one in several tasks would mix their tracebacks up.
        refusal = counted(translated(error))
        refusal.__cause__ = None if refusal is error else error
        call.answer.set_exception(refusal)
