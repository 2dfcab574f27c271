"""Group commit: whatever is asked for while a transaction runs goes together into the next one.

Each transaction takes what has gathered when it begins, and everyone is answered after its commit. A group is ordered
by operation, in the order in which the operations were first asked for, and each operation works through all of its
calls at once. If the database cannot commit, all fail alike. If anything else goes wrong, the transaction is undone and
each call is run again in one of its own, so that only the one at fault fails.

If more waits than one transaction may take, the tenants share it; see `turns`.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from sqlalchemy import Connection

from hookwright_operator import metrics
from hookwright_operator.errors import StoreUnavailable
from hookwright_operator.store import turns
from hookwright_operator.store.faults import OutcomeUnknown, translated

P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T")
A_contra = TypeVar("A_contra", contravariant=True)

Observe = Callable[[str, float], None]
"""Takes what was done (an operation's name, or ``commit``) and how many seconds it took."""

# Turns of the event loop that a transaction waits at most; measured, see docs/decisions.
_TURNS: Final = 5
MAX_WEIGHT = 1024
"""Weight of the calls that one transaction takes beside its oldest call; it bounds how long others wait."""


Work = Callable[[Connection], Any]
"""What is done inside one transaction."""

Transact = Callable[[Work], Awaitable[Any]]
"""Runs a work in a transaction, and returns what that returned; where it raises, nothing has changed, but for
`OutcomeUnknown`."""


class Lost(Protocol[A_contra]):
    """Is told the answer to a call that nobody waits for any more, or that nobody knows to be true."""

    def __call__(self, answer: A_contra, /, *, doubtful: bool) -> None:
        """Take an answer.

        Args:
            answer: what the call came to.
            doubtful: whether it may have come to nothing.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Operation(Generic[P, R]):
    """Something to be done in a transaction.

    Attributes:
        name: as it is observed.
        run: takes the payloads of all calls in a group, and returns an answer for each, in their order.
    """

    name: str
    run: Callable[[Connection, Sequence[P]], Sequence[R]]


class _Call(NamedTuple):
    operation: Operation[Any, Any]
    payload: Any
    weight: int
    parts: int
    tenant: str
    answer: "asyncio.Future[Any]"
    lost: "Lost[Any] | None"


class Batcher:
    """Gathers calls and runs them in shared transactions, one transaction at a time.

    Args:
        transact: runs a transaction.
        observe: told per transaction what each operation took, and as ``commit`` what the rest of it took.
    """

    def __init__(self, transact: Transact, observe: Observe) -> None:
        self._transact = transact
        self._observe = observe
        self._loop = asyncio.get_running_loop()
        self._waiting: list[_Call] = []
        self._weight = 0
        self._again: deque[_Call] = deque()
        self._under_way: Sequence[_Call] = ()
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
        lost: "Lost[R] | None" = None,
    ) -> "asyncio.Future[R]":
        """Ask for an operation in the next transaction; cancelling the future does not call it off.

        Args:
            operation: what to do.
            payload: what to do it with.
            weight: about how many rows it writes.
            parts: how many calls it stands for.
            tenant: who asks, such as a namespace; tenants have equal shares of a full transaction.
            lost: told an answer that nobody gets.

        Raises:
            StoreUnavailable: the store is closed or its writer has died.
        """
        if self._closing or self._writer.done():
            raise StoreUnavailable(self._obituary())
        answer: asyncio.Future[R] = self._loop.create_future()
        self._waiting.append(_Call(operation, payload, weight, parts, tenant, answer, lost))
        self._weight += weight
        self._wake.set()
        return answer

    async def close(self) -> None:
        """Take nothing more, and return when all that was asked for is done."""
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
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to those who asked
            self._fail(group, error)
        else:
            self._answer(group, answers)
        self._under_way = ()

    async def _gathered(self) -> Sequence[_Call]:
        """Wait for calls of the same moment, which get here some turns apart; a call by itself waits for no other."""
        waited = 0
        while waited < min(sum([call.parts for call in self._waiting]) - 1, _TURNS):
            await asyncio.sleep(0)
            waited += 1
        if self._weight <= MAX_WEIGHT:
            calls, self._waiting, self._weight = self._waiting, [], 0
        else:
            calls, self._waiting = turns.split(self._waiting, room=MAX_WEIGHT)
            self._weight = sum([call.weight for call in self._waiting])
        return calls

    def _fail(self, group: "_Group", error: Exception) -> None:
        if isinstance(error, OutcomeUnknown):
            self._leave_open(group.asked, error)
        elif len(group.calls) == 1 or isinstance(translated(error), StoreUnavailable):
            for call in group.calls:
                _refuse(call, error)
        else:
            self._again.extend(group.calls)

    def _answer(self, group: "_Group", done: Sequence[tuple[Sequence[Any], float]]) -> None:
        rest = perf_counter() - group.begun
        for (operation, asked), (answers, seconds) in zip(group.asked.items(), done, strict=True):
            for call, answer in zip(asked, answers, strict=True):
                if not call.answer.done():
                    call.answer.set_result(answer)
                elif call.lost is not None:
                    call.lost(answer, doubtful=False)
            self._observe(operation.name, seconds)
            rest -= seconds
        self._observe("commit", rest)

    @staticmethod
    def _leave_open(group: Mapping[Operation[Any, Any], Sequence[_Call]], error: OutcomeUnknown) -> None:
        """Tell each caller what its answer would have been, for it may have to be made undone."""
        done: Any = error.result
        for asked, (answers, _) in zip(group.values(), done, strict=True):
            for call, answer in zip(asked, answers, strict=True):
                if call.lost is not None:
                    call.lost(answer, doubtful=True)
                _refuse(call, OutcomeUnknown(str(error), answer))

    def _ended(self, _: "asyncio.Task[None]") -> None:
        """Leave nobody waiting for an answer that will not come."""
        left = [*self._under_way, *self._again, *self._waiting]
        self._again.clear()
        self._waiting.clear()
        for call in left:
            _refuse(call, StoreUnavailable(self._obituary()))

    def _obituary(self) -> str:
        if self._closing:
            return "the store is closed"
        error = None if self._writer.cancelled() else self._writer.exception()
        return f"the store's writer has ended: {error!r}" if error else "the store's writer was stopped"


class _Group:
    """Calls that share a transaction, by operation in the order in which these were first asked for."""

    __slots__ = ("asked", "begun", "calls")

    def __init__(self, calls: Sequence[_Call]) -> None:
        self.begun = perf_counter()
        self.calls = calls
        self.asked: dict[Operation[Any, Any], list[_Call]] = {}
        for call in calls:
            self.asked.setdefault(call.operation, []).append(call)

    def __call__(self, connection: Connection) -> list[tuple[Sequence[Any], float]]:
        done = []
        for operation, asked in self.asked.items():
            started = perf_counter()
            answers = operation.run(connection, [call.payload for call in asked])
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
