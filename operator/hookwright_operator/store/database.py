"""Database connections: from a URL to an object that runs transactions.

The module `postgres` implements PostgreSQL. On SQLite one thread writes, and a few other threads read. A SQLite file
belongs to one process. This process keeps a lock on ``<file>.lock`` while the database is open. The kernel releases the
lock when the process ends, even after a crash.
"""

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final, Protocol, Self, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from hookwright_operator.store.database_errors import cause, translated
from hookwright_operator.store.migrations import Admit, upgrade
from hookwright_operator.store.postgres import PostgresDatabase
from hookwright_operator.store.sql.statements import driver_of
from hookwright_runtime.errors import StoreError, StoreUnavailable

T = TypeVar("T")

BUSY_TIMEOUT = 4.0
"""Seconds to wait for a lock of another process on the database; ``?timeout=`` in the URL changes it.

A call may also wait for the transaction before its own. Producers seldom wait 10 s for an answer.
"""

READERS = 2
"""Threads and connections of SQLite that read for deliveries."""
LOG_READERS = 2
"""Threads and connections that read the delivery log. Claims use others, so they never wait behind API requests."""

_MOMENT: Final = 0.001
"""Seconds for which a transaction may block the event loop. A slow disk or a lock must not block it longer."""

_EXPECTED = "sqlite:///<path> or postgresql://<user>:<password>@<host>:<port>/<database>"
_POSTGRESQL = ("postgresql", "postgres", "postgresql+asyncpg")


class Read(Protocol):
    """Runs a function that only reads."""

    async def __call__(self, work: Callable[[Connection], T], /) -> T: ...  # noqa: D102


class Reports(Protocol):
    """Reports of attempt results from a replica to the leader; delivery of a report is not guaranteed."""

    def report(self, words: Iterable[str], /) -> None:
        """Send words to the other replicas; a word must not contain a line break."""

    def hear_reports(self, on_notify: Callable[[str], None], /) -> None:
        """Set the callback for words that other replicas report; it runs on the event loop."""


class Database(Reports, Protocol):
    """An open database whose schema is up to date."""

    exclusive: bool
    """Whether no other process can have the database open."""

    async def write(self, work: Callable[[Connection], T], /) -> T:
        """Run a function in a transaction that may write.

        Raises:
            OutcomeUnknown: the transaction may have been committed.
        """

    async def read(self, work: Callable[[Connection], T], /) -> T:
        """Run a function that only reads, beside writers and other readers."""

    async def read_log(self, work: Callable[[Connection], T], /) -> T:
        """Run a function that reads the delivery log, on connections that no `read` uses."""

    def announce(self, endpoint_uids: Iterable[str], /) -> None:
        """Notify other replicas that these endpoints have unclaimed deliveries."""

    def listen(self, on_notify: Callable[[str], None], /) -> None:
        """Set the callback for endpoint uids that other replicas announce."""

    async def close(self) -> None:
        """Finish running transactions and close the database."""


async def open_database(url: str, *, admit: Admit | None = None) -> Database:
    """Open the database at a URL and bring its schema up to date.

    Args:
        url: ``sqlite:///<path>``, or ``postgresql://<user>:<password>@<host>:<port>/<database>``.
        admit: may refuse the database before its schema is changed.

    Raises:
        StoreError: the URL is wrong, another operator has locked the file, or a newer operator wrote it.
        StoreUnavailable: the database cannot be used right now.
    """
    scheme, _, rest = url.partition("://")
    if scheme in _POSTGRESQL:
        return await PostgresDatabase.open(f"postgresql://{rest}", admit=admit)
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreError(f"the database URL cannot be read; expected {_EXPECTED}") from None
    if parsed.drivername != "sqlite":
        raise StoreError(f"no store for a {parsed.drivername} database; expected {_EXPECTED}")
    path, busy_timeout = _sqlite_settings(parsed)
    return await asyncio.to_thread(SqliteDatabase.open, path, busy_timeout=busy_timeout, admit=admit)


def _sqlite_settings(url: URL) -> tuple[Path, float]:
    if url.database in {None, "", ":memory:"}:
        raise StoreError("the database URL names no file; expected sqlite:///<path>")
    options = dict(url.query)
    try:
        busy_timeout = float(str(options.pop("timeout", BUSY_TIMEOUT)))
    except ValueError:
        raise StoreError("timeout in the database URL is not a number of seconds") from None
    if options or url.host or url.username:
        raise StoreError("the database URL has more than a path and a timeout; expected sqlite:///<path>")
    return Path(str(url.database)), busy_timeout


class SqliteDatabase:
    """A SQLite file that this process has locked."""

    exclusive = True

    def __init__(self, path: Path, lock: int, *, busy_timeout: float) -> None:
        self._lock = lock
        self._writer = _engine(path, busy_timeout, begin=_BEGIN, pool_size=1)
        self._reader = _engine(path, busy_timeout, begin="BEGIN", pool_size=READERS, readonly=True)
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        self._reading = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        self._log_reader = _engine(path, busy_timeout, begin="BEGIN", pool_size=LOG_READERS, readonly=True)
        self._log_reading = ThreadPoolExecutor(LOG_READERS, thread_name_prefix="store-log")

    @cached_property
    def _connection(self) -> Connection:
        """The only connection that writes; it stays open until the database is closed."""
        return self._writer.connect()

    @classmethod
    def open(cls, path: Path, *, busy_timeout: float, admit: Admit | None = None) -> Self:
        """Lock the file, open it and bring its schema up to date; this call blocks.

        Raises:
            StoreError: another operator has locked the file, its folder does not exist, or a newer operator wrote it.
            StoreUnavailable: another process has locked the database, or the disk is full.
        """
        lock = _locked(path)
        database = cls(path, lock, busy_timeout=busy_timeout)
        try:
            database._transact(lambda connection: upgrade(connection, admit))
        except Exception as error:
            database._let_go()
            if isinstance(error, SQLAlchemyError | sqlite3.Error):
                raise type(translated(error))(f"cannot open {path}: {cause(error)}") from error
            raise
        return database

    async def write(self, work: Callable[[Connection], T], /) -> T:
        """Run a function in a transaction on the writer thread; block the event loop for 1 ms at most.

        Beside a busy event loop, the thread would wait for Python's global lock a dozen times, longer than it works.
        """
        running = _begun(self._writing, lambda: self._transact(work))
        with suppress(TimeoutError):
            running.exception(_MOMENT)
        return running.result() if running.done() else await asyncio.wrap_future(running)

    def _transact(self, work: Callable[[Connection], T]) -> T:
        """Run a function in a transaction with the driver's calls: SQLAlchemy's calls take as long as SQLite itself."""
        connection, driver = self._connection, driver_of(self._connection)
        try:
            driver.execute(_BEGIN)
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

    async def read(self, work: Callable[[Connection], T], /) -> T:
        """Run a function on a reader thread; all its statements see one state of the database."""
        return await _in(self._reading, lambda: _look(self._reader, work))

    async def read_log(self, work: Callable[[Connection], T], /) -> T:
        """Run a function on a thread that reads the delivery log; all its statements see one state of the database."""
        return await _in(self._log_reading, lambda: _look(self._log_reader, work))

    def announce(self, endpoint_uids: Iterable[str], /) -> None:
        """Do nothing, because no other replica uses the file."""

    def listen(self, on_notify: Callable[[str], None], /) -> None:
        """Do nothing, because no other replica uses the file."""

    def report(self, words: Iterable[str], /) -> None:
        """Do nothing, because no other replica uses the file."""

    def hear_reports(self, on_notify: Callable[[str], None], /) -> None:
        """Do nothing, because no other replica uses the file."""

    async def close(self) -> None:
        """Finish running transactions, close the database and unlock the file."""
        await asyncio.to_thread(self._let_go)

    def _let_go(self) -> None:
        self._writing.shutdown()
        for threads, engine in ((self._reading, self._reader), (self._log_reading, self._log_reader)):
            threads.shutdown()
            engine.dispose()
        if "_connection" in vars(self):
            self._connection.close()
        # SQLite writes the write-ahead log into the file when its last connection closes. That connection must be
        # allowed to write, so the writer's connection closes last.
        self._writer.dispose()
        os.close(self._lock)


def _look(engine: Engine, work: Callable[[Connection], T]) -> T:
    with engine.begin() as connection:
        return work(connection)


async def _in(executor: Executor, work: Callable[[], T]) -> T:
    return await asyncio.wrap_future(_begun(executor, work))


def _begun(executor: Executor, work: Callable[[], T]) -> Future[T]:
    try:
        return executor.submit(work)
    except RuntimeError as error:
        raise StoreUnavailable(f"no thread available for the store: {error}") from error


def _locked(path: Path) -> int:
    """Create the file if it does not exist, lock it, and return the descriptor that holds the lock."""
    try:
        # Only the operator's user may read the events.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(f"cannot open {path}: {error.strerror}; its folder must exist and be writable") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise StoreError(f"another operator has {path} open; give each operator its own database") from error
    return lock


def _engine(path: Path, busy_timeout: float, *, begin: str, pool_size: int, readonly: bool = False) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": busy_timeout, "check_same_thread": False},
        pool_size=pool_size,
        max_overflow=0,
        hide_parameters=True,
    )

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _: object) -> None:
        # `begin` begins each transaction. Without this setting the driver begins one before some statements.
        connection.isolation_level = None
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        if readonly:
            connection.execute("PRAGMA query_only=ON")

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        if not driver_of(connection).in_transaction:
            connection.exec_driver_sql(begin)

    return engine


_BEGIN: Final = "BEGIN IMMEDIATE"
_PRAGMAS = (
    "journal_mode=WAL",
    # A commit is on the disk before the caller gets its result.
    "synchronous=FULL",
    # SQLite keeps a statement journal for statements on many rows; in a file it would cost more than the statements.
    "temp_store=MEMORY",
    # SQLite copies this many pages into the file at once. Pages that change often are then written less often.
    "wal_autocheckpoint=4000",
    "journal_size_limit=67108864",
)
