"""A PostgreSQL database, shared with other processes.

One connection writes, two read for deliveries, two read the delivery log, and one carries notices. A transaction that
PostgreSQL broke off without fault of its own, as a deadlock, or whose connection turned out to be dead, is run again:
its work is a function of nothing but the database. Only a connection that is lost during COMMIT leaves it open what
became of it.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlsplit

import asyncpg
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from hookwright_operator.errors import StoreError
from hookwright_operator.store.faults import OutcomeUnknown, cause, sqlstate, translated
from hookwright_operator.store.migrations import upgrade
from hookwright_operator.store.notices import REPORTS, Notices

T = TypeVar("T")

READERS: Final = 2
LOG_READERS: Final = 2
CONNECT_SECONDS: Final = 5.0
STATEMENT_SECONDS: Final = 10.0
"""How long the server works at one statement; a client that hears nothing gives up soon after."""
_TRIES: Final = 3
_RECYCLE_SECONDS: Final = 1800

MIGRATING: Final = 4_716_552_001
"""The key of the lock under which the schema is migrated, by one replica at a time."""

_SETTINGS: Final = {
    "application_name": "hookwright",
    "search_path": "public",
    # What a statement waited for it must see; row locks do the rest.
    "default_transaction_isolation": "read committed",
    # Every commit is on the disk before it is answered, whatever the server's own default is.
    "synchronous_commit": "on",
    # Every statement goes by an index into tables that grow fast. A plan that was made while they were small, or before
    # statistics were, would stay in the connection for ever.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_incremental_sort": "off",
    "jit": "off",
}
_LIMITS: Final = {
    "statement_timeout": f"{STATEMENT_SECONDS:g}s",
    # A call may wait for the transaction before its own, too, and producers seldom wait 10 s for an answer.
    "lock_timeout": "4s",
    # A process that hangs must not hold its locks.
    "idle_in_transaction_session_timeout": "30s",
}

# Deadlock and serialization failure; a server that is read-only since a failover is left for another.
_BROKEN_OFF: Final = ("40001", "40P01")
_READ_ONLY: Final = "25006"


class PostgresDatabase:
    """A PostgreSQL database, or another one that speaks its protocol and dialect."""

    exclusive = False

    def __init__(self, url: str) -> None:
        self._writer = _engine(url, pool_size=1, max_overflow=0, pool_recycle=_RECYCLE_SECONDS)
        self._reader, self._log_reader = [
            _engine(url, pool_size=size, max_overflow=0, pool_recycle=_RECYCLE_SECONDS, isolation_level="AUTOCOMMIT")
            for size in (READERS, LOG_READERS)
        ]
        self._notices = Notices(lambda: _connect(url, _LIMITS))

    @classmethod
    async def open(cls, url: str) -> Self:
        """Connect, and bring the schema up to date unless another replica is at it or has done it.

        Args:
            url: ``postgresql://…``, as libpq takes it.

        Raises:
            StoreError: the URL is wrong, or a newer operator has changed the schema beyond our use.
            StoreUnavailable: the server cannot be used right now.
        """
        try:
            await _migrate(url)
        except (SQLAlchemyError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
            raise _not_opened(url, error) from None
        return cls(url)

    async def write(self, work: Callable[[Connection], T], /) -> T:
        """Run a function in a transaction; it may be run again in another, so it must do nothing else.

        Raises:
            OutcomeUnknown: the connection was lost during COMMIT.
        """
        return await _persist(self._writer, work)

    async def read(self, work: Callable[[Connection], T], /) -> T:
        """Run a function that only reads; each of its statements sees what is committed by then."""
        return await _persist(self._reader, work)

    async def read_log(self, work: Callable[[Connection], T], /) -> T:
        """Run a function that reads the delivery log, on connections that claims never wait for."""
        return await _persist(self._log_reader, work)

    def announce(self, endpoint_uids: Iterable[str]) -> None:
        """Tell other replicas that these endpoints have deliveries that nobody holds."""
        self._notices.tell(endpoint_uids)

    def listen(self, hears: Callable[[str], None]) -> None:
        """Call back with each endpoint uid that other replicas announce."""
        self._notices.listen(hears)

    def report(self, words: Iterable[str]) -> None:
        """Tell the replica that leads what attempts have shown; a word has no line break."""
        self._notices.tell(words, channel=REPORTS)

    def hear_reports(self, hears: Callable[[str], None]) -> None:
        """Call back with each word that other replicas report."""
        self._notices.listen(hears, channel=REPORTS)

    async def close(self) -> None:
        """Close every connection."""
        await self._notices.close()
        await self._reader.dispose()
        await self._log_reader.dispose()
        await self._writer.dispose()


async def _persist(engine: AsyncEngine, work: Callable[[Connection], T]) -> T:
    left = _TRIES
    while True:
        left -= 1
        try:
            async with engine.connect() as connection:
                return await _transact(connection, work)
        except (SQLAlchemyError, OSError) as error:
            if not left or not _may_pass(error):
                # From None: what PostgreSQL says besides may repeat what was in the rows.
                raise translated(error) from None


async def _transact(connection: AsyncConnection, work: Callable[[Connection], T]) -> T:
    try:
        result = await connection.run_sync(work)
    except (DBAPIError, OSError) as error:
        if isinstance(error, OSError) or sqlstate(error) == _READ_ONLY:
            await connection.invalidate()
        raise
    try:
        await connection.commit()
    except (SQLAlchemyError, OSError) as error:
        if sqlstate(error) in _BROKEN_OFF:
            raise
        await connection.invalidate()
        raise OutcomeUnknown(f"the connection was lost during a commit: {cause(error)}", result) from None
    return result


def _may_pass(error: Exception) -> bool:
    """Whether trying again at once is worth it."""
    if not isinstance(error, DBAPIError):
        return False
    stale = "InvalidCachedStatement" in type(error.orig).__name__
    return error.connection_invalidated or stale or sqlstate(error) in (*_BROKEN_OFF, _READ_ONLY)


async def _migrate(url: str) -> None:
    # An index on a big table takes its time.
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: _connect(url, {}, command_timeout=None), poolclass=NullPool
    )
    try:
        async with engine.begin() as connection:
            await connection.execute(select(func.pg_advisory_xact_lock(MIGRATING)))
            await connection.run_sync(upgrade)
    finally:
        await engine.dispose()


def _engine(url: str, **options: Any) -> AsyncEngine:
    return create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: _connect(url, _LIMITS), hide_parameters=True, **options
    )


async def _connect(
    url: str, limits: dict[str, str], *, command_timeout: float | None = STATEMENT_SECONDS + 2
) -> "asyncpg.Connection[asyncpg.Record]":
    """Connect as libpq would with this URL: several hosts, TLS, a password file and so on."""
    return await asyncpg.connect(
        url,
        timeout=CONNECT_SECONDS,
        command_timeout=command_timeout,
        server_settings={**_SETTINGS, **limits},
        target_session_attrs="read-write",
    )


def _not_opened(url: str, error: Exception) -> Exception:
    parts = urlsplit(url)
    where = parts.netloc.rpartition("@")[2] + parts.path
    unreadable = isinstance(error, ValueError) and not isinstance(error, asyncpg.InterfaceError)
    if unreadable or parts.netloc.count("@") != url.count("@"):
        # What looks like a host may be a part of the password.
        return StoreError(
            "the database URL cannot be read; expected postgresql://<user>:<password>@<host>:<port>/<database>,"
            " with special characters of user and password percent-encoded"
        )
    told = translated(error)
    kind = type(told) if isinstance(told, StoreError) else StoreError
    return kind(f"cannot open the database at {where}: {cause(error)}")
