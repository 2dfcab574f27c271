"""Databases that run transactions.

On SQLite one thread writes, and a few other threads read.

On PostgreSQL two connections write, one of them settlements; two read for deliveries, two read the delivery log, and
one carries notifications. A transaction runs again if PostgreSQL aborted it and it was not at fault, such as in a
deadlock. It also runs again if its connection turned out to be dead. This is safe because its work depends on nothing
but the database. The outcome of a transaction is unknown only if the connection is lost during COMMIT.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from hookwright_operator.store.database_errors import DATABASE_ERRORS, OutcomeUnknown, cause, sqlstate, translated
from hookwright_operator.store.notifications import Notifications
from hookwright_operator.store.postgres import connected, postgres_engine
from hookwright_operator.store.sql.statements import driver_of
from hookwright_operator.store.sqlite import BEGIN, sqlite_engine
from hookwright_runtime.errors import StoreUnavailable

T = TypeVar("T")

WRITERS: Final = 2
"""Connections to PostgreSQL that write: one writes settlements, the other one everything else."""
READERS: Final = 2
"""Connections that read for deliveries, and connections that read the delivery log.

A read of the log uses its own connections, so that no claim waits behind requests of the API.
"""

_MOMENT: Final = 0.001
"""Seconds for which a transaction may block the event loop. A slow disk or a lock must not block it longer."""
_TRIES: Final = 3

# Deadlock and serialization failure. A server that became read-only after a failover is replaced by another one.
_ABORTS: Final = ("40001", "40P01")
_READ_ONLY: Final = "25006"
_SAME_NUMBER: Final = "attempts_pkey"
"""Two replicas have given attempts of one delivery the same number, because one of them had lost its claim."""


class Database(Protocol):
    """An open database whose schema is up to date."""

    is_shared: bool
    """Whether other replicas may use the database."""
    notifications: Notifications
    """Notices to the other replicas."""

    async def write(self, work: Callable[[Connection], T], /) -> T:
        """Run a function in a transaction, possibly more than once, so the function must have no other effects.

        Raises:
            OutcomeUnknown: the transaction may have been committed.
        """

    async def read(self, work: Callable[[Connection], T], /, *, of_log: bool = False) -> T:
        """Run a function that only reads, beside writers and other readers.

        Args:
            work: the function.
            of_log: whether it reads the delivery log.
        """

    async def close(self) -> None:
        """Finish running transactions and close the database."""


class SqliteDatabase:
    """A SQLite file that this process has locked; all statements of a read see one state of the database."""

    is_shared = False

    def __init__(self, path: Path, lock: int, *, busy_timeout: float) -> None:
        self._lock = lock
        self.notifications = Notifications(None)
        self._writer = sqlite_engine(path, busy_timeout, connections=1, readonly=False)
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        self._readers = [sqlite_engine(path, busy_timeout, connections=READERS, readonly=True) for _ in range(2)]
        self._reading = [ThreadPoolExecutor(READERS, thread_name_prefix=name) for name in ("store-reader", "store-log")]

    @cached_property
    def _connection(self) -> Connection:
        """The only connection that writes; it stays open until the database is closed."""
        return self._writer.connect()

    async def write(self, work: Callable[[Connection], T], /) -> T:
        """Run a function in a transaction on the writer thread; block the event loop for 1 ms at most.

        Beside a busy event loop, the thread would wait for Python's global lock a dozen times, longer than it works.
        """
        running = _begun(self._writing, lambda: self.transact(work))
        with suppress(TimeoutError):
            running.exception(_MOMENT)
        return running.result() if running.done() else await asyncio.wrap_future(running)

    def transact(self, work: Callable[[Connection], T]) -> T:
        """Run a function in a transaction with the driver's calls: SQLAlchemy's calls take as long as SQLite itself."""
        connection, driver = self._connection, driver_of(self._connection)
        try:
            driver.execute(BEGIN)
            result = work(connection)
            driver.commit()
        except BaseException:
            connection.info.clear()
            driver.rollback()
            raise
        finally:
            # SQLAlchemy may have begun a transaction object, but the database has no transaction any more.
            connection.rollback()
        return result

    async def read(self, work: Callable[[Connection], T], /, *, of_log: bool = False) -> T:
        """Run a function on a thread that reads."""

        def look() -> T:
            with self._readers[of_log].begin() as connection:
                return work(connection)

        return await asyncio.wrap_future(_begun(self._reading[of_log], look))

    async def close(self) -> None:
        """Finish running transactions, close the database and unlock the file."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        for threads in (self._writing, *self._reading):
            threads.shutdown()
        for reader in self._readers:
            reader.dispose()
        if "_connection" in vars(self):
            self._connection.close()
        # SQLite writes the write-ahead log into the file when its last connection closes. That connection must be
        # allowed to write, so the writer's connection closes last.
        self._writer.dispose()
        os.close(self._lock)


def _begun(executor: Executor, work: Callable[[], T]) -> Future[T]:
    try:
        return executor.submit(work)
    except RuntimeError as error:
        raise StoreUnavailable(f"no thread available for the store: {error}") from error


class PostgresDatabase:
    """A PostgreSQL database that several replicas share, or another database that speaks its protocol and dialect."""

    is_shared = True

    def __init__(self, url: str) -> None:
        self._writer = postgres_engine(url, connections=WRITERS)
        self._readers = [postgres_engine(url, connections=READERS) for _ in range(2)]
        self.notifications = Notifications(lambda: connected(url))

    async def write(self, work: Callable[[Connection], T], /) -> T:
        """Run a function in a transaction; its outcome is unknown if the connection was lost during COMMIT."""
        return await _persist(self._writer, work, in_transaction=True)

    async def read(self, work: Callable[[Connection], T], /, *, of_log: bool = False) -> T:
        """Run a function that only reads; each of its statements sees everything that was committed before it."""
        return await _persist(self._readers[of_log], work, in_transaction=False)

    async def close(self) -> None:
        """Close every connection."""
        await self.notifications.close()
        for engine in (*self._readers, self._writer):
            await engine.dispose()


async def _persist(engine: AsyncEngine, work: Callable[[Connection], T], *, in_transaction: bool) -> T:
    tries = _TRIES
    while True:
        tries -= 1
        driver: Any = None
        try:
            async with engine.connect() as connection:
                driver = (await connection.get_raw_connection()).driver_connection
                try:
                    return await (_transact(connection, driver, work) if in_transaction else connection.run_sync(work))
                except BaseException as error:
                    if not await _is_rolled_back(driver, error):
                        await connection.invalidate()
                    raise
        except DATABASE_ERRORS as error:
            is_lost = driver is not None and driver.is_closed() and not isinstance(error, OSError)
            if not tries or not (is_lost or _may_pass(error)):
                # From None: PostgreSQL's error details may contain values of the rows.
                raise translated(error) from None


async def _is_rolled_back(driver: Any, error: BaseException) -> bool:
    """End the transaction of a failed call, if there is one; return whether the connection may be used again."""
    # A cancelled statement may still run on the server. A closed connection cannot say whether it has a transaction.
    is_cancelled = not isinstance(error, Exception)
    if is_cancelled or isinstance(error, OSError) or driver.is_closed() or sqlstate(error) == _READ_ONLY:
        return False
    try:
        if driver.is_in_transaction():
            await driver.execute("ROLLBACK")
    except DATABASE_ERRORS:
        return False
    return True


async def _transact(connection: AsyncConnection, driver: Any, work: Callable[[Connection], T]) -> T:
    await driver.execute("BEGIN")
    result = await connection.run_sync(work)
    try:
        await driver.execute("COMMIT")
    except DATABASE_ERRORS as error:
        if sqlstate(error) in _ABORTS:
            raise
        await connection.invalidate()
        raise OutcomeUnknown(f"the connection was lost during a commit: {cause(error)}", result) from None
    return result


def _may_pass(error: Exception) -> bool:
    """Return whether an immediate second try may succeed."""
    if sqlstate(error) in (*_ABORTS, _READ_ONLY):
        return True
    origin = getattr(error, "orig", error)
    return "InvalidCachedStatement" in type(origin).__name__ or getattr(origin, "constraint_name", "") == _SAME_NUMBER
