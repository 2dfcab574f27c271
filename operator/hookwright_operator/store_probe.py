"""Reports whether the store answers, for readiness."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from hookwright_runtime.errors import StoreError

log = structlog.get_logger(__name__)

_BACK: Final = 2
"""Consecutive answers after which the store counts as available again."""


class StoreProbe:
    """The availability of the store, for readiness.

    A pod that is not ready gets no requests at all. A ready pod without a store answers 503 with a reason and
    Retry-After. If replicas share a database, all of them would become unready at once. So readiness ignores short
    interruptions, such as a failover or a long lock. The store counts as unavailable when it has not answered for
    ``patience``, and as available again when it has answered twice in a row.

    Args:
        ping: returns when the store has answered.
        patience: in seconds.
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
        self._answers = 0
        self._away_since: float | None = None

    def away(self) -> str | None:
        """Return a sentence about the unavailable store, None if the store is available."""
        if self._away_since is None:
            return None
        return f"the store has not answered for {self._clock() - self._away_since:.0f} s"

    async def run(self) -> None:
        """Ping repeatedly, until cancelled."""
        while True:
            pinging = asyncio.ensure_future(self._answered())
            try:
                while not (await asyncio.wait([pinging], timeout=self._pause))[0]:
                    self._note(answered=False)
            finally:
                pinging.cancel()
            self._note(answered=pinging.result())
            await asyncio.sleep(self._pause)

    async def _answered(self) -> bool:
        try:
            await self._ping()
        except StoreError:
            return False
        return True

    def _note(self, *, answered: bool) -> None:
        now = self._clock()
        self._answers = self._answers + 1 if answered else 0
        if answered:
            self._answered_at = now
        if self._away_since is None:
            if now - self._answered_at >= self._patience:
                self._away_since = self._answered_at
                log.warning("store does not answer, replica not ready", seconds=round(now - self._answered_at))
        elif self._answers >= _BACK:
            log.info("store answers again, replica ready", seconds=round(now - self._away_since))
            self._away_since = None
