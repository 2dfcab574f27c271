"""Asking the store for what must be done, however long it is away."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from hookwright_operator.errors import StoreError

T = TypeVar("T")

_LONGEST_BACKOFF: Final = 5.0


async def until_done(
    ask: Callable[[], Awaitable[T]], *, backoff: float, refused: Callable[[StoreError], None] = lambda _: None
) -> T:
    """Ask until it succeeds, and return the answer.

    Args:
        ask: called again after each StoreError.
        backoff: seconds before the second time; then twice as long each time, up to 5 s.
        refused: told each StoreError.
    """
    while True:
        try:
            return await ask()
        except StoreError as error:
            refused(error)
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, _LONGEST_BACKOFF)
