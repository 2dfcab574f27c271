"""Repeated calls of the store until it is available."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from hookwright_operator.errors import StoreError

T = TypeVar("T")

_LONGEST_BACKOFF: Final = 5.0


async def until_done(
    ask: Callable[[], Awaitable[T]], *, backoff: float, refused: Callable[[StoreError], None] = lambda _: None
) -> T:
    """Call until it succeeds, and return the result.

    Args:
        ask: called again after each StoreError.
        backoff: seconds before the second call; the time doubles with each further call, up to 5 s.
        refused: receives each StoreError.
    """
    while True:
        try:
            return await ask()
        except StoreError as error:
            refused(error)
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, _LONGEST_BACKOFF)
