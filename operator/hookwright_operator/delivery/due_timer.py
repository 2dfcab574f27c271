"""One timer for all endpoint queues, which fires when a delivery of a queue in the store is due."""

import asyncio
import heapq
from collections.abc import Callable, Mapping
from typing import Final

from hookwright_operator.delivery.endpoint_queue import EndpointQueue

_LONGEST: Final = 60.0
"""Seconds after which the clock is read again, because it may have been set."""


class DueTimer:
    """Due times of endpoint queues, earliest first.

    Args:
        queues: queues by endpoint uid; due times of queues that are no longer in it are ignored.
        clock_ms: the time.
        ring: called with each queue whose due time has come.
    """

    def __init__(
        self, queues: Mapping[str, EndpointQueue], clock_ms: Callable[[], int], ring: Callable[[EndpointQueue], None]
    ) -> None:
        self._queues, self._clock_ms, self._ring = queues, clock_ms, ring
        self._due: list[tuple[int, str]] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._closed = False

    def add(self, queue: EndpointQueue, due_ms: int) -> None:
        """Call ``ring`` for a queue at a time, unless the queue has an earlier time already."""
        if queue.due_ms is None or due_ms < queue.due_ms:
            queue.due_ms = due_ms
            heapq.heappush(self._due, (due_ms, queue.endpoint.uid))
            self._set_alarm()

    def close(self) -> None:
        """Stop the timer."""
        self._closed = True
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._due and not self._closed:
            delay = max(0, self._due[0][0] - self._clock_ms()) / 1000
            self._alarm = asyncio.get_running_loop().call_later(min(delay, _LONGEST), self._look)

    def _look(self) -> None:
        now_ms = self._clock_ms()
        while self._due and self._due[0][0] <= now_ms:
            due_ms, uid = heapq.heappop(self._due)
            queue = self._queues.get(uid)
            if queue is not None and queue.due_ms == due_ms:
                queue.due_ms = None
                self._ring(queue)
        self._set_alarm()
