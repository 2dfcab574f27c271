"""Loops that must not die: each is started again after a failure, and liveness tells of one that cannot live."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from hookwright_operator import metrics
from hookwright_operator.errors import KubeUnavailable, StoreUnavailable

log = structlog.get_logger(__name__)

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 15.0
_LIVED: Final = 60.0
"""Seconds after which a loop counts as having lived, and its earlier failures as over."""
_TOLERATED: Final = 8


@dataclass(slots=True)
class Supervisor:
    """Runs loops by name.

    Liveness is lost when a loop fails again and again without a minute of life between; that the store
    or the API server is away is no such failure.
    """

    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _failures: dict[str, int] = field(default_factory=dict)
    _failed_at: dict[str, float] = field(default_factory=dict)

    def start(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a loop until `stop`; ``run`` is called again each time it fails or ends."""
        metrics.LOOP_RESTARTS.labels(name)
        self._tasks[name] = asyncio.get_running_loop().create_task(self._keep(name, run), name=name)

    def dying(self) -> str | None:
        """Return the name of a loop that cannot be kept alive, or None; one that lives again is well."""
        for name, failures in self._failures.items():
            recent = asyncio.get_running_loop().time() - self._failed_at.get(name, 0.0) <= _LIVED
            if failures > _TOLERATED and recent:
                return name
        return None

    async def stop(self, *names: str) -> None:
        """End the named loops, or all."""
        tasks = [self._tasks.pop(name) for name in names or tuple(self._tasks) if name in self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        clock = asyncio.get_running_loop().time
        pause = _FIRST_PAUSE
        while True:
            began, failed = clock(), 1
            try:
                await run()
                log.warning("a loop ended and is started again", loop=name)
            except (KubeUnavailable, StoreUnavailable) as error:
                # Not the loop's fault, and nothing that a new process would mend: it is alive and waits.
                log.warning("a loop waits for what is away", loop=name, error=str(error))
                failed = 0
            except Exception:
                log.exception("a loop failed and is started again", loop=name)
            metrics.LOOP_RESTARTS.labels(name).inc()
            if clock() - began > _LIVED:
                self._failures[name], pause = 0, _FIRST_PAUSE
            self._failures[name] = self._failures.get(name, 0) + failed
            if failed:
                self._failed_at[name] = clock()
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
