"""Writing what must be written, however long the store is away."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from hookwright_operator.errors import StoreError

log = structlog.get_logger(__name__)

_FIRST_BACKOFF: Final = 0.1
_LONGEST_BACKOFF: Final = 5.0


async def persist(write: Callable[[], Awaitable[None]], waits: str, **ids: str) -> None:
    """Write until it succeeds; what is held here nobody else can take while we live.

    Args:
        write: called again after each StoreError.
        waits: what the log says meanwhile.
        ids: what the log tells of what waits.
    """
    backoff = _FIRST_BACKOFF
    while True:
        try:
            await write()
        except StoreError as error:
            log.warning(waits, **ids, error=str(error))
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, _LONGEST_BACKOFF)
        else:
            return
