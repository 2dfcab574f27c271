"""Supervised loops: each is restarted after a failure, and liveness reports a loop that fails repeatedly."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from hookwright_operator import metrics
from hookwright_runtime.errors import KubeUnavailable, StoreUnavailable

log = structlog.get_logger(__name__)

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 15.0
_STABLE_SECONDS: Final = 60.0
"""Seconds of running after which earlier failures of a loop no longer count."""
_MOST_FAILURES: Final = 8


@dataclass(slots=True)
class Supervisor:
    """A runner of loops by name.

    Liveness is lost when a loop fails repeatedly and never runs for a minute in between. An unavailable store or API
    server is not such a failure.
    """

    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _failures: dict[str, int] = field(default_factory=dict)
    _failed_at: dict[str, float] = field(default_factory=dict)

    def start(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a loop until `stop`; ``run`` is called again each time it fails or ends."""
        metrics.LOOP_RESTARTS.labels(name)
        self._tasks[name] = asyncio.get_running_loop().create_task(self._keep(name, run), name=name)

    def dying(self) -> str | None:
        """Return the name of a loop that fails repeatedly, or None; a loop that runs again counts as healthy."""
        for name, failures in self._failures.items():
            recent = asyncio.get_running_loop().time() - self._failed_at.get(name, 0.0) <= _STABLE_SECONDS
            if failures > _MOST_FAILURES and recent:
                return name
        return None

    async def stop(self, *names: str) -> None:
        """Stop the named loops, or all."""
        tasks = [self._tasks.pop(name) for name in names or tuple(self._tasks) if name in self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        clock = asyncio.get_running_loop().time
        pause = _FIRST_PAUSE
        while True:
            began, failures = clock(), 1
            try:
                await run()
                log.warning("loop ended, restarting it", loop=name)
            except (KubeUnavailable, StoreUnavailable) as error:
                # The loop is not the cause, and a new process would not help: the loop waits.
                log.warning("dependency unavailable, loop retries", loop=name, error=str(error))
                failures = 0
            except Exception:
                log.exception("loop failed, restarting it", loop=name)
            metrics.LOOP_RESTARTS.labels(name).inc()
            if clock() - began > _STABLE_SECONDS:
                self._failures[name], pause = 0, _FIRST_PAUSE
            self._failures[name] = self._failures.get(name, 0) + failures
            if failures:
                self._failed_at[name] = clock()
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
