"""Starts the loops of the leader when this replica becomes the leader, and stops them when it no longer is."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog

from hookwright_operator.leader import gauges
from hookwright_operator.leader.election import Leadership
from hookwright_operator.supervisor import Supervisor

log = structlog.get_logger(__name__)

_TERM_PAUSE: Final = 0.2


class Leader:
    """Starter of a leader's loops: starts them when this replica becomes leader and stops them when it is not leader.

    Args:
        term: leadership of this replica.
        loops: runs the loops.
        leading: the loops of a leader, by name.
    """

    def __init__(
        self, term: Leadership, loops: Supervisor, leading: Mapping[str, Callable[[], Awaitable[None]]]
    ) -> None:
        self._term, self._loops, self._leading = term, loops, leading
        self._led = 0

    async def run(self) -> None:
        """Check the leadership repeatedly, until cancelled; in addition, every write checks it."""
        while True:
            number = self._term.number if self._term.holds else 0
            if self._led not in {0, number}:
                log.warning("leadership lost, this replica stops writing to the cluster")
                await self._end()
            if number and not self._led:
                log.info("leadership acquired, this replica writes to the cluster", term=number)
                self._begin(number)
            await asyncio.sleep(_TERM_PAUSE)

    async def stop(self) -> None:
        """Stop the loops finally."""
        await self._loops.stop("lead")
        if self._led:
            log.info("leadership ended, this replica shuts down")
            await self._end()

    def _begin(self, number: int) -> None:
        self._led = number
        gauges.show()
        for name, run in self._leading.items():
            self._loops.start(name, run)

    async def _end(self) -> None:
        gauges.hide()
        await self._loops.stop(*self._leading)
        self._led = 0
