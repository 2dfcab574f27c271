"""Waiting for a state of another process."""

import time
from collections.abc import Callable
from typing import TypeVar

from hookwright_dev.errors import DevError

_Value = TypeVar("_Value")


def eventually(read: Callable[[], _Value], subject: str, *, within: float = 60.0, every: float = 0.1) -> _Value:
    """Call a function until its result is true, and return this result.

    Raises:
        DevError: it was not true within so many seconds.
    """
    deadline = time.monotonic() + within
    while not (value := read()):
        if time.monotonic() > deadline:
            raise DevError(f"{subject}: not within {within:g} s")
        time.sleep(every)
    return value
