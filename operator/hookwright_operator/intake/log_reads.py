"""Reads of the delivery log, one at a time for each namespace."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Final

from hookwright_runtime.problems import too_many

WAITING: Final = 15
"""Reads of one namespace that may wait for the read before them."""
RETRY_AFTER_SECONDS: Final = 1


class LogReads:
    """Queues of log reads by namespace: a namespace waits for its own reads, never for another namespace.

    A read with a large answer keeps its turn until the answer is sent: one answer of a namespace is in memory at once.
    """

    def __init__(self, waiting: int = WAITING) -> None:
        self._most = 1 + waiting
        self._asked: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def turn(self, namespace: str) -> AsyncIterator[None]:
        """Wait until no other read of the namespace is in progress; the turn ends with the context.

        Raises:
            ProblemError: 429, too many reads of the namespace already wait.
        """
        with ExitStack() as held:
            await self.begin(namespace, held)
            yield

    async def begin(self, namespace: str, held: ExitStack) -> None:
        """Wait until no other read of the namespace is in progress; the turn ends when ``held`` is closed.

        Raises:
            ProblemError: 429, too many reads of the namespace already wait.
        """
        if self._asked[namespace] >= self._most:
            raise too_many(
                f'more than {self._most} requests for delivery logs of namespace "{namespace}" at once; '
                "send fewer at once",
                retry_after=RETRY_AFTER_SECONDS,
            )
        self._asked[namespace] += 1
        held.callback(self._leave, namespace)
        turn = self._turns.setdefault(namespace, asyncio.Lock())
        await turn.acquire()
        held.callback(turn.release)

    def _leave(self, namespace: str) -> None:
        self._asked[namespace] -= 1
        if not self._asked[namespace]:
            del self._asked[namespace], self._turns[namespace]
