"""Notifications between replicas: endpoints that have unclaimed deliveries in the store, and results of attempts.

A notification saves other replicas the wait for their next query of the store. A lost one costs this wait and nothing
else. So notifications are sent after the commit and not in the transaction: PostgreSQL commits transactions with
notifications one at a time. They are also collected for a while and sent together.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final, TypeAlias

import asyncpg
import structlog

log = structlog.get_logger(__name__)

Connect: TypeAlias = Callable[[], Awaitable["asyncpg.Connection[asyncpg.Record]"]]

CHANNEL: Final = "hookwright_waiting"
REPORTS: Final = "hookwright_reports"
"""The channel on which a replica reports the results of attempts to the leader; a report may be lost."""
SPACING: Final = 0.02
"""Seconds between two notifications."""
HEARTBEAT: Final = 30.0
"""Seconds of silence after which the connection is checked."""
_MOST_QUEUED: Final = 100_000
_PAYLOAD_BYTES: Final = 7900
"""Bytes that one notification may contain, a little less than PostgreSQL's limit of 8000."""
_FIRST_BACKOFF: Final = 0.1
_LONGEST_BACKOFF: Final = 5.0


class Notifications:
    """One connection that sends and receives notifications; a lost connection is replaced by a new one.

    Args:
        connect: opens a connection; None if there are no other replicas, so that there is nothing to send.
    """

    def __init__(self, connect: Connect | None) -> None:
        self._on_notify: dict[str, Callable[[str], None]] = {}
        # Texts in sending order, each once.
        self._queued: dict[tuple[str, str], None] = {}
        self._sending: dict[tuple[str, str], None] = {}
        self._wake = asyncio.Event()
        self._closing = False
        self._task = asyncio.create_task(self._keep(connect), name="store notifications") if connect else None

    def send(self, texts: Iterable[str], *, channel: str = CHANNEL) -> None:
        """Queue texts for the other replicas, none with a line break; the queue is cleared if it is too long."""
        if self._task is None:
            return
        if len(self._queued) > _MOST_QUEUED:
            self._queued.clear()
        self._queued.update(((channel, text), None) for text in texts)
        self._wake.set()

    def listen(self, on_notify: Callable[[str], None], *, channel: str = CHANNEL) -> None:
        """Set the callback for texts that other replicas send on a channel; it runs on the event loop."""
        self._on_notify[channel] = on_notify

    async def close(self) -> None:
        """Send the queued texts within one second, and close the connection."""
        if self._task is None:
            return
        self._closing = True
        self._wake.set()
        await asyncio.wait([self._task], timeout=1 if self._queued or self._sending else 0)
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _keep(self, connect: Connect) -> None:
        backoff = _FIRST_BACKOFF
        while not self._closing:
            try:
                connection = await connect()
                try:
                    backoff = _FIRST_BACKOFF
                    await self._serve(connection)
                finally:
                    connection.terminate()
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
                log.debug("notification connection unavailable, reconnecting", error=type(error).__name__)
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, _LONGEST_BACKOFF)

    async def _serve(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        connection.add_termination_listener(lambda _: self._wake.set())
        for channel in (CHANNEL, REPORTS):
            await connection.add_listener(channel, self._received)
        while not connection.is_closed() and not (self._closing and not self._queued):
            try:
                async with asyncio.timeout(HEARTBEAT):
                    await self._wake.wait()
            except TimeoutError:
                await connection.execute("SELECT 1")
            self._wake.clear()
            await self._send_queued(connection)
            await asyncio.sleep(SPACING)

    async def _send_queued(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        # A text that is queued again while it is being sent is sent twice, because it reports something new.
        self._sending, self._queued = self._queued, {}
        try:
            for channel in (CHANNEL, REPORTS):
                for payload in payloads(text for towards, text in self._sending if towards == channel):
                    await connection.execute("SELECT pg_notify($1, $2)", channel, payload)
            self._sending = {}
        finally:
            # Texts that were not sent when the connection broke are sent over the next connection.
            self._queued = self._sending | self._queued
            self._sending = {}

    def _received(self, connection: object, pid: int, channel: str, payload: object) -> None:
        on_notify = self._on_notify.get(channel)
        if on_notify is None or (isinstance(connection, asyncpg.Connection) and pid == connection.get_server_pid()):
            return
        for text in str(payload).split("\n"):
            on_notify(text)


def payloads(texts: Iterable[str]) -> Iterator[str]:
    """Join texts, as many as fit into one notification."""
    lines: list[str] = []
    size = 0
    for text in texts:
        size += len(text.encode()) + 1
        if lines and size > _PAYLOAD_BYTES:
            yield "\n".join(lines)
            lines, size = [], len(text.encode()) + 1
        lines.append(text)
    if lines:
        yield "\n".join(lines)
