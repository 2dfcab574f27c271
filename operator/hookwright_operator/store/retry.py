"""Repeated calls of the store until it is available."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from hookwright_runtime.errors import StoreError

log = structlog.get_logger(__name__)

_FIRST_BACKOFF: Final = 0.1

T = TypeVar("T")

_LONGEST_BACKOFF: Final = 5.0


async def until_done(
    ask: Callable[[], Awaitable[T]], *, backoff: float, on_error: Callable[[StoreError], None] = lambda _: None
) -> T:
    """Call until it succeeds, and return the result.

    Args:
        ask: called again after each StoreError.
        backoff: seconds before the second call; the time doubles with each further call, up to 5 s.
        on_error: receives each StoreError.
    """
    while True:
        try:
            return await ask()
        except StoreError as error:
            on_error(error)
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, _LONGEST_BACKOFF)


async def persist(write: Callable[[], Awaitable[None]], waits: str, **ids: str) -> None:
    """Write until it succeeds; no other replica can claim these deliveries while this one renews its claim lease.

    Args:
        write: called again after each StoreError.
        waits: text of the log line for each failure.
        ids: fields of the log line.
    """
    await until_done(write, backoff=_FIRST_BACKOFF, on_error=lambda error: log.warning(waits, **ids, error=str(error)))
