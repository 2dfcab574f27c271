"""Writes to the store that are retried until they succeed."""

from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from hookwright_operator.store.retrying import until_done

log = structlog.get_logger(__name__)

_FIRST_BACKOFF: Final = 0.1


async def persist(write: Callable[[], Awaitable[None]], waits: str, **ids: str) -> None:
    """Write until it succeeds; no other replica can claim these deliveries while this one renews its claim lease.

    Args:
        write: called again after each StoreError.
        waits: text of the log line for each failure.
        ids: fields of the log line.
    """
    await until_done(write, backoff=_FIRST_BACKOFF, refused=lambda error: log.warning(waits, **ids, error=str(error)))
