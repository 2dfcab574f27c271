"""Correction of due times after the clock was set back.

Due times in the store are clock times. Without a correction, a retry that is due in 30 seconds would wait longer by
the amount that the clock was set back. A clock that was set forward needs no correction: deliveries that are due by
the new time are sent.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

import structlog

from hookwright_operator.delivery.dispatcher import Dispatcher
from hookwright_operator.store.retry import persist
from hookwright_operator.store.sql.shift_due import Reached
from hookwright_operator.store.store import Store

log = structlog.get_logger(__name__)

_TOLERATED_MS: Final = 1000
"""NTP corrects smaller differences by slowing the clock, and a retry may be one second late."""
_ENDPOINTS_AT_ONCE: Final = 16
_STEP: Final = 500
"""Deliveries of one endpoint whose due time is changed in one call."""


class ClockJumps:
    """Comparison of the clock with a monotonic one, and correction of due times if the clock was set back.

    Pending deliveries become due earlier by the amount that the clock was set back. This applies to the endpoints that
    this replica delivers for, because their due times are of its clock.

    Args:
        clock_ms: the clock, in milliseconds since the epoch.
        steady: monotonic clock, in seconds.
        pause: seconds between two comparisons.
    """

    def __init__(
        self,
        store: Store,
        dispatcher: Dispatcher,
        clock_ms: Callable[[], int],
        *,
        steady: Callable[[], float] = time.monotonic,
        pause: float = 1.0,
    ) -> None:
        self._store, self._dispatcher = store, dispatcher
        self._clock_ms, self._steady, self._pause = clock_ms, steady, pause
        self._ahead = self._ahead_ms()

    async def run(self) -> None:
        """Compare the clocks repeatedly, until cancelled."""
        while True:
            await asyncio.sleep(self._pause)
            ahead = self._ahead_ms()
            back = self._ahead - ahead
            if back > _TOLERATED_MS:
                log.warning("clock was set back, moving due times of pending deliveries back", seconds=back / 1000)
                await self._correct(back, self._clock_ms())
            # Set only after the correction: if the store fails, this task restarts and must correct the times again.
            self._ahead = ahead
            if back > _TOLERATED_MS:
                # Queues load the earlier due times and forget the later ones.
                await self._dispatcher.reload_due_times()

    def _ahead_ms(self) -> int:
        return self._clock_ms() - int(self._steady() * 1000)

    async def _correct(self, by_ms: int, now_ms: int) -> None:
        mine = [uid for uid in await self._store.next_due() if self._dispatcher.owned_shards.owns(uid)]
        for first in range(0, len(mine), _ENDPOINTS_AT_ONCE):
            some = mine[first : first + _ENDPOINTS_AT_ONCE]
            await asyncio.gather(*(self._shift(uid, by_ms, now_ms) for uid in some))

    async def _shift(self, uid: str, by_ms: int, now_ms: int) -> None:
        reached: Reached | None = (now_ms, "")

        async def step() -> None:
            nonlocal reached
            if reached is not None:
                reached = await self._store.shift_due_times(uid, by_ms=by_ms, reached=reached, limit=_STEP)

        while reached is not None:
            await persist(step, "due times not corrected, retrying", endpoint=uid)
