"""Starts the loops of the leader when this replica becomes the leader, and stops them when it no longer is."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import structlog

from hookwright_operator.delivery.status_reporter import StatusReporter
from hookwright_operator.leader import gauges
from hookwright_operator.leader.election import Election, Leadership
from hookwright_operator.supervisor import Supervisor
from hookwright_operator.watch.changes import Changes
from hookwright_runtime.errors import KubeError

log = structlog.get_logger(__name__)

_CHECK_PAUSE: Final = 0.2
_FLUSH_SECONDS: Final = 1.0


@dataclass(slots=True)
class Leader:
    """Starter of a leader's loops: starts them when this replica becomes leader and stops them when it is not leader.

    Attributes:
        election: gets the leadership; None if this replica leads without an election.
        loops: the loops of a leader, by name.
        changes: the election begins when they are synced, so that this replica can lead without delay.
        reporter: publishes due statuses before the leadership is released.
    """

    leadership: Leadership
    election: Election | None
    supervisor: Supervisor
    loops: Mapping[str, Callable[[], Awaitable[None]]]
    changes: Changes
    reporter: StatusReporter
    _number: int = 0

    def start(self) -> None:
        """Take part in the election, and lead when this replica is elected."""
        self.supervisor.start("lead", self._run)
        if self.election is not None:
            self.supervisor.start("election", self._elect)

    async def release(self) -> None:
        """Publish due statuses and release the leadership at once; attempts in progress may finish after that."""
        if self.election is None:
            return
        await self.supervisor.stop("election")
        with suppress(Exception):
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self.reporter.flush()
                await self.changes.queue.settled()
        try:
            await self.election.release()
        except (KubeError, TimeoutError) as error:
            log.warning("leadership not released, another replica acquires it in some seconds", error=str(error))
        await self.stop()

    async def stop(self) -> None:
        """Stop the loops finally."""
        await self.supervisor.stop("lead")
        if self._number:
            log.info("leadership ended, this replica shuts down")
            await self._end()

    async def _elect(self) -> None:
        assert self.election is not None
        await self.changes.synced.wait()
        await self.election.run()

    async def _run(self) -> None:
        """Check the leadership repeatedly, until cancelled; in addition, every write checks it."""
        while True:
            number = self.leadership.number if self.leadership.holds else 0
            if self._number not in {0, number}:
                log.warning("leadership lost, this replica stops writing to the cluster")
                await self._end()
            if number and not self._number:
                log.info("leadership acquired, this replica writes to the cluster", term=number)
                self._begin(number)
            await asyncio.sleep(_CHECK_PAUSE)

    def _begin(self, number: int) -> None:
        self._number = number
        gauges.show()
        for name, run in self.loops.items():
            self.supervisor.start(name, run)

    async def _end(self) -> None:
        gauges.hide()
        await self.supervisor.stop(*self.loops)
        self._number = 0
