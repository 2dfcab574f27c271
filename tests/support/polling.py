"""Waiting in tests for an event that must happen, on a machine that does other work too."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")

PATIENCE: Final = 60.0
"""Seconds. A busy machine needs part of it; only a test that fails waits for all of it."""
_SAMPLE: Final = 0.05


def eventually(look: Callable[[], T | None], what: str, within: float = PATIENCE, every: float = 0.05) -> T:
    """Poll until ``look`` returns a true value, and return that value; fail after ``within`` seconds.

    A look that takes long, such as a start of kubectl, is followed by a pause of the same length, so that the processes
    for which it waits have the CPU.
    """
    deadline = time.monotonic() + within
    while True:
        start = time.monotonic()
        if result := look():
            return result
        end = time.monotonic()
        assert end < deadline, f"not within {within:g} s: {what}"
        time.sleep(max(every, min(end - start, 0.5)))


async def until(condition: Callable[[], bool | Awaitable[bool]], *, within: float = PATIENCE) -> None:
    """Wait until a condition is true; fail after ``within`` seconds."""
    deadline = time.monotonic() + within
    while True:
        holds = condition()
        if holds if isinstance(holds, bool) else await holds:
            return
        assert time.monotonic() < deadline, f"the condition was not true within {within:g} s"
        await asyncio.sleep(0.005)


def busy_seconds(quiet: float) -> float:
    """Return the time limit on this machine for an operation that takes ``quiet`` seconds on a quiet machine.

    The measure is how much time passes while this thread computes for 50 ms: 50 ms on a quiet machine. Several
    processes take part in the operation one after another, and each may wait for a processor, so the excess counts
    three times.
    """
    began, cpu_start = time.monotonic(), time.thread_time()
    while time.thread_time() - cpu_start < _SAMPLE:
        pass
    slowdown = max(1.0, (time.monotonic() - began) / _SAMPLE)
    return quiet * (1 + 3 * (slowdown - 1))
