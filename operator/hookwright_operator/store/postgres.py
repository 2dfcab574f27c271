"""A PostgreSQL database that several replicas share.

One connection writes, two read for deliveries, two read the delivery log, and one carries notices. A transaction runs
again if PostgreSQL aborted it and it was not at fault, such as in a deadlock. It also runs again if its connection
turned out to be dead. This is safe because its work depends on nothing but the database. The outcome of a transaction
is unknown only if the connection is lost during COMMIT.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlsplit

import asyncpg
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from hookwright_operator.store.database_errors import OutcomeUnknown, cause, sqlstate, translated
from hookwright_operator.store.migrations import Admit, upgrade
from hookwright_operator.store.notifications import REPORTS, Notifications
from hookwright_runtime.errors import StoreError

T = TypeVar("T")

READERS: Final = 2
LOG_READERS: Final = 2
CONNECT_SECONDS: Final = 5.0
STATEMENT_SECONDS: Final = 10.0
"""How long the server works at one statement; a client without an answer gives up soon after."""
_TRIES: Final = 3
_RECYCLE_SECONDS: Final = 1800

MIGRATING: Final = 4_716_552_001
"""The key of the advisory lock under which the schema is migrated, by one replica at a time."""

_SETTINGS: Final = {
    "application_name": "hookwright",
    "search_path": "public",
    # A statement that waited must see the rows that were committed meanwhile. Row locks do the rest.
    "default_transaction_isolation": "read committed",
    # A commit is on the disk before the caller gets its result, whatever the server's default is.
    "synchronous_commit": "on",
    # Every statement uses an index of tables that grow fast. A plan that was made for small tables, or before there
    # were statistics, would stay in the connection until its end.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_incremental_sort": "off",
    "jit": "off",
}
_LIMITS: Final = {
    "statement_timeout": f"{STATEMENT_SECONDS:g}s",
    # A call may also wait for the transaction before its own. Producers seldom wait 10 s for an answer.
    "lock_timeout": "4s",
    # A process that hangs must not keep its locks.
    "idle_in_transaction_session_timeout": "30s",
}

# Deadlock and serialization failure. A server that became read-only after a failover is replaced by another one.
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
        self._notices = Notifications(lambda: _connect(url, _LIMITS))

    @classmethod
    async def open(cls, url: str, *, admit: Admit | None = None) -> Self:
        """Connect, and bring the schema up to date; wait if another replica is migrating it.

        Args:
            url: ``postgresql://…``, in the form that libpq takes.
            admit: may refuse the database before its schema is changed.

        Raises:
            StoreError: the URL is wrong, or a newer operator has changed the schema so that this one cannot use it.
            StoreUnavailable: the server cannot be used right now.
        """
        try:
            await _migrate(url, admit)
        except (SQLAlchemyError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
            raise _not_opened(url, error) from None
        return cls(url)

    async def write(self, work: Callable[[Connection], T], /) -> T:
        """Run a function in a transaction, possibly more than once, so the function must have no other effects.

        Raises:
            OutcomeUnknown: the connection was lost during COMMIT.
        """
        return await _persist(self._writer, work)

    async def read(self, work: Callable[[Connection], T], /) -> T:
        """Run a function that only reads; each of its statements sees everything that was committed before it."""
        return await _persist(self._reader, work)

    async def read_log(self, work: Callable[[Connection], T], /) -> T:
        """Run a function that reads the delivery log, on connections that claims never wait for."""
        return await _persist(self._log_reader, work)

    def announce(self, endpoint_uids: Iterable[str]) -> None:
        """Notify other replicas that these endpoints have unclaimed deliveries."""
        self._notices.tell(endpoint_uids)

    def listen(self, on_notify: Callable[[str], None]) -> None:
        """Set the callback for endpoint uids that other replicas announce."""
        self._notices.listen(on_notify)

    def report(self, words: Iterable[str]) -> None:
        """Report results of attempts to the leader; a word must not contain a line break."""
        self._notices.tell(words, channel=REPORTS)

    def hear_reports(self, on_notify: Callable[[str], None]) -> None:
        """Set the callback for words that other replicas report."""
        self._notices.listen(on_notify, channel=REPORTS)

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
                # From None: PostgreSQL's error details may contain values of the rows.
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
    """Return whether an immediate second try may succeed."""
    if not isinstance(error, DBAPIError):
        return False
    stale = "InvalidCachedStatement" in type(error.orig).__name__
    return error.connection_invalidated or stale or sqlstate(error) in (*_BROKEN_OFF, _READ_ONLY)


async def _migrate(url: str, admit: Admit | None) -> None:
    # Creating an index on a big table can take long, so there is no timeout.
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: _connect(url, {}, command_timeout=None), poolclass=NullPool
    )
    try:
        async with engine.begin() as connection:
            await connection.execute(select(func.pg_advisory_xact_lock(MIGRATING)))
            await connection.run_sync(upgrade, admit)
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
        # The text after "@" may be part of a password, so the message must not contain it.
        return StoreError(
            "the database URL cannot be read; expected postgresql://<user>:<password>@<host>:<port>/<database>,"
            " with special characters of user and password percent-encoded"
        )
    told = translated(error)
    kind = type(told) if isinstance(told, StoreError) else StoreError
    return kind(f"cannot open the database at {where}: {cause(error)}")
