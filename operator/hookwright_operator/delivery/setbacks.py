"""Makes good that the clock was set back.

Times in the store are those of the clock, and a retry that was due in half a minute would wait as much longer as the
clock was set back by. What was set forward needs no care: what is due by the new time goes out.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import structlog

from hookwright_operator.delivery.loops import Dispatcher
from hookwright_operator.delivery.persisting import persist
from hookwright_operator.store.advancing import Reached

log = structlog.get_logger(__name__)

_TOLERATED_MS: Final = 1000
"""NTP corrects less than that by running slower, and a retry that is a second late is none the worse."""
_ENDPOINTS_AT_ONCE: Final = 16
_STEP: Final = 500
"""Deliveries of one endpoint whose time is changed at once."""


class Store(Protocol):
    """What is needed of the store."""

    async def next_due(self) -> Mapping[str, int]: ...  # noqa: D102
    async def advance(  # noqa: D102
        self, endpoint_uid: str, *, by_ms: int, reached: Reached, limit: int
    ) -> Reached | None: ...


class Setbacks:
    """Compares the clock with one that nobody sets, and has what waits due earlier by as much as it was set back.

    That goes for the endpoints that this process delivers for: their times are of its clock.

    Args:
        clock_ms: the clock, in milliseconds since the epoch.
        steady: in seconds, never set.
        pause: seconds between two looks.
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
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(self._pause)
            ahead = self._ahead_ms()
            back = self._ahead - ahead
            if back > _TOLERATED_MS:
                log.warning(
                    "the clock was set back; what waits for its time is due earlier by as much", seconds=back / 1000
                )
                await self._correct(back, self._clock_ms())
            # Not before: where the store is away, this runs anew, and the time is still to be corrected.
            self._ahead = ahead
            if back > _TOLERATED_MS:
                # Lanes learn the earlier times; the later ones that they knew then mean nothing.
                await self._dispatcher.recover()

    def _ahead_ms(self) -> int:
        return self._clock_ms() - int(self._steady() * 1000)

    async def _correct(self, by_ms: int, now_ms: int) -> None:
        mine = [uid for uid in await self._store.next_due() if self._dispatcher.ground.owns(uid)]
        for first in range(0, len(mine), _ENDPOINTS_AT_ONCE):
            some = mine[first : first + _ENDPOINTS_AT_ONCE]
            await asyncio.gather(*(self._advance(uid, by_ms, now_ms) for uid in some))

    async def _advance(self, uid: str, by_ms: int, now_ms: int) -> None:
        reached: Reached | None = (now_ms, "")

        async def step() -> None:
            nonlocal reached
            if reached is not None:
                reached = await self._store.advance(uid, by_ms=by_ms, reached=reached, limit=_STEP)

        while reached is not None:
            await persist(step, "times wait to be corrected", endpoint=uid)
