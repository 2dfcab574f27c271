"""A work queue: each key at most once at a time, coalesced, and again after a failure.

This is the level-based half of a controller: every change adds the key, and it does not matter how often or why. Its
clock is the event loop's. Namespaces take turns, and none has more than half of the workers, because a tenant decides
how many of its objects change and how long a reconcile lasts.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import structlog

from hookwright_operator import metrics
from hookwright_operator.watch.objects import Key
from hookwright_runtime.bounds import RECONCILES, Bound
from hookwright_runtime.errors import KubeError, StoreError, WriteRefused
from hookwright_runtime.log_bounds import LogBound
from hookwright_runtime.places import Places

log = structlog.get_logger(__name__)

_FIRST_BACKOFF: Final = 0.5
_LONGEST_BACKOFF: Final = 60.0

AT_ONCE: Final = 100
A_SECOND: Final = 2
"""Failed reconciles of one namespace that are logged, at once and in the long run."""

Reconcile = Callable[[Key], Awaitable[float | None]]
"""A function that reconciles one key; it returns the seconds until the next reconcile, or None."""


class WorkQueue:
    """Keys that wait to be reconciled, and the workers that reconcile them.

    Args:
        bound: keys that are reconciled at once.
    """

    def __init__(self, bound: Bound = RECONCILES) -> None:
        self._places = Places(bound)
        # Keys with a place, so there are never more of them than workers.
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._queued_keys: set[Key] = set()
        self._running: set[Key] = set()
        self._again: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}
        self._rest = asyncio.Event()
        self._log_bound = LogBound(burst=AT_ONCE, rate=A_SECOND, report=_report_omitted)

    def add(self, key: Key, delay: float = 0.0) -> None:
        """Reconcile a key after ``delay`` seconds, or earlier if another call asks for it."""
        if delay > 0:
            self._add_later(key, delay)
            return
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._running:
            self._again.add(key)
        elif key not in self._queued_keys:
            self._queued_keys.add(key)
            self._places.enqueue(key.namespace, partial(self._ready.put_nowait, key))

    async def settled(self) -> None:
        """Return when no key is queued or in progress; delayed keys do not count."""
        while self._queued_keys or self._running:
            self._rest.clear()
            await self._rest.wait()

    async def run(self, reconcile: Reconcile) -> None:
        """Reconcile keys until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._places.bound.at_once):
                group.create_task(self._work(reconcile), name=f"reconcile-{number}")

    def _add_later(self, key: Key, delay: float) -> None:
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + delay:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(delay, self._due, key)

    def _due(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def _work(self, reconcile: Reconcile) -> None:
        while True:
            key = await self._ready.get()
            self._queued_keys.discard(key)
            self._running.add(key)
            try:
                await self._turn(key, reconcile)
            finally:
                self._running.discard(key)
                self._places.end(key.namespace)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)
                if not self._queued_keys and not self._running:
                    self._rest.set()
            # A reconcile that waits for nothing would otherwise be followed by the next one, before all other work.
            await asyncio.sleep(0)

    async def _turn(self, key: Key, reconcile: Reconcile) -> None:
        result = "error"
        try:
            with metrics.RECONCILE_DURATION.labels(key.kind).time():
                again = await reconcile(key)
            self._failures.pop(key, None)
            result = "ok"
            if again is not None:
                self.add(key, max(again, 0.01))
        except WriteRefused as error:
            result = "refused"
            self._fail(key, str(error))
        except (KubeError, StoreError) as error:
            if isinstance(error, KubeError) and error.status in (404, 409):
                result = "conflict"
            self._fail(key, str(error))
        except Exception as error:
            if self._fail(key, type(error).__name__):
                log.exception("reconcile failed", kind=key.kind, namespace=key.namespace, name=key.name)
        finally:
            metrics.RECONCILES.labels(key.kind, result).inc()

    def _fail(self, key: Key, error: str) -> bool:
        """Retry a key later; return whether the failure was logged, within the allowance of its namespace."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(_FIRST_BACKOFF * 2 ** min(failures - 1, 10), _LONGEST_BACKOFF)
        self.add(key, delay)
        if not self._log_bound.allow(key.namespace):
            return False
        log.warning(
            "reconcile failed, retrying",
            kind=key.kind, namespace=key.namespace, name=key.name, error=error, after_seconds=delay,
        )  # fmt: skip
        return True


def _report_omitted(namespace: str, count: int) -> None:
    log.warning(
        "failed reconciles not logged, the namespace has used up its lines", namespace=namespace, reconciles=count
    )
