"""Writing what must be written, however long the store is away."""

from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from hookwright_operator.store.retrying import until_done

log = structlog.get_logger(__name__)

_FIRST_BACKOFF: Final = 0.1


async def persist(write: Callable[[], Awaitable[None]], waits: str, **ids: str) -> None:
    """Write until it succeeds; what is held here nobody else can take while we live.

    Args:
        write: called again after each StoreError.
        waits: what the log says meanwhile.
        ids: what the log tells of what waits.
    """
    await until_done(write, backoff=_FIRST_BACKOFF, refused=lambda error: log.warning(waits, **ids, error=str(error)))
