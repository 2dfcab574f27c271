"""Notices between replicas: which endpoints have deliveries in the store that nobody holds.

A notice saves others the wait for their next look into the store, and nothing more: one that is lost costs that wait.
So notices are sent after the commit and not in the transaction, where PostgreSQL would let only one of all the
transactions that have notices commit at a time, and they are gathered for a while.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final, TypeAlias

import asyncpg
import structlog

log = structlog.get_logger(__name__)

Connect: TypeAlias = Callable[[], Awaitable["asyncpg.Connection[asyncpg.Record]"]]

CHANNEL: Final = "hookwright_waiting"
SPACING: Final = 0.02
"""Seconds between two notices."""
HEARTBEAT: Final = 30.0
"""Seconds of silence after which the connection is tried."""
_PAYLOAD_BYTES: Final = 7900
"""What one notice may carry, a little less than PostgreSQL's bound of 8000."""
_FIRST_BACKOFF: Final = 0.1
_LONGEST_BACKOFF: Final = 5.0


class Notices:
    """One connection over which notices go and come; it is made anew when it is lost.

    Args:
        connect: makes a connection.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._hears: Callable[[str], None] = lambda _: None
        self._untold: set[str] = set()
        self._wake = asyncio.Event()
        self._closing = False
        self._task = asyncio.create_task(self._keep(), name="store notices")

    def tell(self, endpoint_uids: Iterable[str]) -> None:
        """Tell the others that these endpoints have something waiting."""
        self._untold.update(endpoint_uids)
        self._wake.set()

    def listen(self, hears: Callable[[str], None]) -> None:
        """Call back with each uid that others tell of."""
        self._hears = hears

    async def close(self) -> None:
        """Tell what is left to tell, for a second at most, and let the connection go."""
        self._closing = True
        self._wake.set()
        await asyncio.wait([self._task], timeout=1 if self._untold else 0)
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _keep(self) -> None:
        backoff = _FIRST_BACKOFF
        while not self._closing:
            try:
                connection = await self._connect()
                try:
                    backoff = _FIRST_BACKOFF
                    await self._serve(connection)
                finally:
                    connection.terminate()
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                log.debug("no notices from other replicas right now", error=type(error).__name__)
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, _LONGEST_BACKOFF)

    async def _serve(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        connection.add_termination_listener(lambda _: self._wake.set())
        await connection.add_listener(CHANNEL, self._heard)
        while not connection.is_closed() and not (self._closing and not self._untold):
            try:
                async with asyncio.timeout(HEARTBEAT):
                    await self._wake.wait()
            except TimeoutError:
                await connection.execute("SELECT 1")
            self._wake.clear()
            for payload in payloads(sorted(self._untold)):
                await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, payload)
            # What was not told when the connection broke is told over the next one.
            self._untold.clear()
            await asyncio.sleep(SPACING)

    def _heard(self, connection: object, pid: int, _channel: str, payload: object) -> None:
        if isinstance(connection, asyncpg.Connection) and pid == connection.get_server_pid():
            return
        for uid in str(payload).split("\n"):
            self._hears(uid)


def payloads(uids: Iterable[str]) -> Iterator[str]:
    """Put uids together, as many in one notice as it takes."""
    gathered: list[str] = []
    size = 0
    for uid in uids:
        size += len(uid.encode()) + 1
        if gathered and size > _PAYLOAD_BYTES:
            yield "\n".join(gathered)
            gathered, size = [], len(uid.encode()) + 1
        gathered.append(uid)
    if gathered:
        yield "\n".join(gathered)
