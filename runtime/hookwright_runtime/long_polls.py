"""Requests that wait for messages, bounded for each namespace and in all."""

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from starlette.types import Receive

from hookwright_runtime.problems import too_many, unavailable
from hookwright_runtime.quotas import Full, Quotas

POLLS: Final = 256
POLLS_OF_NAMESPACE: Final = 16
"""Requests at once that take messages, in one process."""
_RETRY_AFTER_SECONDS: Final = 1

T = TypeVar("T")


class LongPolls:
    """The requests for messages that are in progress.

    Args:
        total: requests of all namespaces; a quarter of them only for namespaces that have none in progress, so that
            a few namespaces cannot use all.
        each: requests of one namespace.

    Attributes:
        ending: set when the process stops; requests that wait then get an empty answer.
    """

    def __init__(self, *, total: int = POLLS, each: int = POLLS_OF_NAMESPACE) -> None:
        self._quotas = Quotas(total=total, each=each, reserved=total // 4)
        self.ending = asyncio.Event()

    @property
    def number(self) -> int:
        """How many requests are in progress."""
        return self._quotas.held

    @property
    def largest_use(self) -> float:
        """The largest part of its bound that a namespace uses, from 0 to 1."""
        return self._quotas.largest / self._quotas.each

    @contextmanager
    def one(self, namespace: str) -> Iterator[None]:
        """Count a request inside the context.

        Raises:
            ProblemError: 429, the namespace has too many; 503, the process has too many.
        """
        full = self._quotas.take(namespace)
        if full is Full.HOLDER:
            raise too_many(
                f'namespace "{namespace}" has {self._quotas.each} requests for messages in progress; send fewer at '
                "once, each with a larger limit",
                retry_after=_RETRY_AFTER_SECONDS,
            )
        if full is Full.TOTAL:
            raise unavailable(f"{self._quotas.total} requests for messages are in progress")
        try:
            yield
        finally:
            self._quotas.release(namespace)


async def until_gone(work: Awaitable[T], receive: Receive, ending: asyncio.Event) -> T | None:
    """Return the result of a work, or cancel it and return None if the client disconnects or the process ends.

    Args:
        work: waits for messages.
        receive: of the request, whose body was read.
        ending: set when the process ends.
    """
    tasks: list[asyncio.Future[object]] = [
        asyncio.ensure_future(work),
        asyncio.ensure_future(_disconnected(receive)),
        asyncio.ensure_future(ending.wait()),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            return tasks[0].result()  # type: ignore[return-value]
        return None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
