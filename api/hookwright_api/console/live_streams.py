"""Streams of server-sent events to browsers: bounded for each user and for the process, and ended with the session.

A stream is open for hours, so it must end when the user loses the right to read the log. Before each message the
session is checked again. A further stream of a user ends that user's oldest one, because the newest tab is in use.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from hookwright_runtime.problems import too_many

PER_USER: Final = 4
PER_ORGANIZATION: Final = 64
PER_PROCESS: Final = 256
"""Most streams at once. Each reads a page of the delivery log every few seconds."""
SECONDS: Final = 2.0
"""Between two reads of one stream."""
LIFETIME_SECONDS: Final = 900.0
"""After which a browser connects again, so that streams spread over the replicas."""
_HEARTBEAT: Final = 8
"""Reads without news after which a comment shows that the connection is alive."""

Look = Callable[[], Awaitable[str | None]]
"""Returns what the browser should show now, or None if it must not see it any more."""


class LiveStreams:
    """The open streams of this process."""

    def __init__(
        self,
        *,
        per_user: int = PER_USER,
        per_organization: int = PER_ORGANIZATION,
        per_process: int = PER_PROCESS,
        seconds: float = SECONDS,
    ) -> None:
        self._per_user, self._per_organization, self._per_process = per_user, per_organization, per_process
        self._seconds = seconds
        # By organization and user.
        self._open: dict[tuple[str, str], OrderedDict[int, asyncio.Event]] = {}
        self._number = 0
        self._closed = False

    def __len__(self) -> int:
        """Return the number of open streams."""
        return sum(len(streams) for streams in self._open.values())

    def close(self) -> None:
        """End every stream; later ones are refused."""
        self._closed = True
        for streams in self._open.values():
            for ended in streams.values():
                ended.set()

    def begin(self, user: str, look: Look, *, organization: str) -> AsyncIterator[str]:
        """Return the messages of a new stream, in the format of server-sent events.

        Args:
            user: whose bound counts.
            look: is called every few seconds; a changed result is a message.
            organization: whose bound counts.

        Raises:
            ProblemError: 429, the organization or the process has too many streams.
        """
        if self._full(organization):
            raise too_many("too many pages are live at once; this page shows its present state", retry_after=60)
        return self._messages((organization, user), look)

    def _full(self, organization: str) -> bool:
        of_organization = sum(len(streams) for (name, _), streams in self._open.items() if name == organization)
        return self._closed or of_organization >= self._per_organization or len(self) >= self._per_process

    async def _messages(self, user: tuple[str, str], look: Look) -> AsyncIterator[str]:
        # Registered only here, because the end of a generator that never began runs no code.
        if self._full(user[0]):
            return
        number, ended = self._register(user)
        shown: str | None = None
        try:
            # Browsers connect again after this time.
            yield "retry: 5000\n\n"
            for turn in range(round(LIFETIME_SECONDS / self._seconds)):
                found = None if ended.is_set() else await look()
                if self._closed:
                    return
                if found is None:
                    yield _message("ended", "")
                    return
                if found != shown:
                    shown = found
                    yield _message("rows", found)
                elif turn % _HEARTBEAT == 0:
                    yield ": \n\n"
                await _pause(ended, self._seconds)
        finally:
            self._remove(user, number)

    def _register(self, user: tuple[str, str]) -> tuple[int, asyncio.Event]:
        streams = self._open.setdefault(user, OrderedDict())
        while len(streams) >= self._per_user:
            streams.popitem(last=False)[1].set()
        self._number += 1
        streams[self._number] = ended = asyncio.Event()
        return self._number, ended

    def _remove(self, user: tuple[str, str], number: int) -> None:
        streams = self._open.get(user)
        if streams is not None:
            streams.pop(number, None)
            if not streams:
                del self._open[user]


async def _pause(ended: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await ended.wait()
    except TimeoutError:
        return


def _message(event: str, data: str) -> str:
    # A line of data must not contain any other end of line.
    lines = "".join(f"data: {line}\n" for line in data.splitlines()) or "data: \n"
    return f"event: {event}\n{lines}\n"
