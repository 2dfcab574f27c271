"""Reports whether the store answers, for readiness."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from hookwright_runtime.errors import StoreError


class StoreProbe:
    """The availability of the store, for readiness.

    A pod that is not ready gets no requests at all. A ready pod without a store answers 503 with a reason and
    Retry-After. If replicas share a database, all of them would become unready at once. So readiness ignores short
    interruptions, such as a failover or a long lock.

    Args:
        ping: returns when the store has answered.
        patience: seconds without an answer after which the store counts as unavailable.
        pause: seconds between two pings; at most one ping is in progress.
    """

    def __init__(
        self,
        ping: Callable[[], Awaitable[None]],
        *,
        patience: float = 10.0,
        pause: float = 3.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ping, self._patience, self._pause, self._clock = ping, patience, pause, clock
        self._answered_at = clock()

    def away(self) -> str | None:
        """Return a sentence about the unavailable store, None if the store is available."""
        seconds = self._clock() - self._answered_at
        return f"the store has not answered for {seconds:.0f} s" if seconds >= self._patience else None

    async def run(self) -> None:
        """Ping repeatedly, until cancelled."""
        while True:
            with suppress(StoreError):
                await self._ping()
                self._answered_at = self._clock()
            await asyncio.sleep(self._pause)
