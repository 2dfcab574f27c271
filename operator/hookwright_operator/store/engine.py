"""Opening a database: from a URL to something that runs transactions.

PostgreSQL has a module of its own, `postgres`. SQLite is written by one thread, the only one that ever writes, and read
by a few others. Its file belongs to one process: a lock on ``<file>.lock`` is held as long as the database is open, and
the system takes it away with the process, however that ends.
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

from hookwright_operator.errors import StoreError, StoreUnavailable
from hookwright_operator.store.faults import cause, translated
from hookwright_operator.store.migrations import upgrade
from hookwright_operator.store.postgres import PostgresDatabase
from hookwright_operator.store.statements import driver_of

T = TypeVar("T")

BUSY_TIMEOUT = 4.0
"""Seconds to wait for a lock on the database that somebody else holds; ``?timeout=`` in the URL changes it.

A call may wait for the transaction before its own, too, and producers seldom wait 10 s for an answer.
"""

READERS = 2
"""Threads and connections of SQLite that read for deliveries."""
LOG_READERS = 2
"""Those that read the delivery log: callers ask for it, so claims never queue behind it."""

_MOMENT: Final = 0.001
"""Seconds for which a transaction may hold the event loop up: a slow disk or a lock must not."""

_EXPECTED = "sqlite:///<path> or postgresql://<user>:<password>@<host>:<port>/<database>"
_POSTGRESQL = ("postgresql", "postgres", "postgresql+asyncpg")


class Read(Protocol):
    """Runs a function that only reads."""

    async def __call__(self, work: Callable[[Connection], T], /) -> T: ...  # noqa: D102


class Reports(Protocol):
    """How a process tells the one that leads what attempts have shown; without a promise."""

    def report(self, words: Iterable[str], /) -> None:
        """Tell other processes; no word has a line break."""

    def hear_reports(self, hears: Callable[[str], None], /) -> None:
        """Call back, on the event loop, with each word that other processes report."""


class Database(Reports, Protocol):
    """An open database whose schema is up to date."""

    exclusive: bool
    """Whether no other process can have it open."""

    async def write(self, work: Callable[[Connection], T], /) -> T:
        """Run a function in a transaction that may write.

        Raises:
            OutcomeUnknown: it may have been committed.
        """

    async def read(self, work: Callable[[Connection], T], /) -> T:
        """Run a function that only reads, beside writers and other readers."""

    async def read_log(self, work: Callable[[Connection], T], /) -> T:
        """Run a function that reads the delivery log, on connections that no `read` uses."""

    def announce(self, endpoint_uids: Iterable[str], /) -> None:
        """Tell other processes that these endpoints have deliveries that nobody holds."""

    def listen(self, hears: Callable[[str], None], /) -> None:
        """Call back with each endpoint uid that other processes announce."""

    async def close(self) -> None:
        """Finish what is under way and let the database go."""


def has_company(connection: Connection) -> bool:
    """Whether other transactions may write while this one does."""
    return connection.dialect.name != "sqlite"


async def open_database(url: str) -> Database:
    """Open the database at a URL and bring its schema up to date.

    Args:
        url: ``sqlite:///<path>``, or ``postgresql://<user>:<password>@<host>:<port>/<database>``.

    Raises:
        StoreError: the URL is wrong, another operator has the file, or a newer operator wrote it.
        StoreUnavailable: the database cannot be used right now.
    """
    scheme, _, rest = url.partition("://")
    if scheme in _POSTGRESQL:
        return await PostgresDatabase.open(f"postgresql://{rest}")
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreError(f"the database URL cannot be read; expected {_EXPECTED}") from None
    if parsed.drivername != "sqlite":
        raise StoreError(f"no store for a {parsed.drivername} database; expected {_EXPECTED}")
    path, busy_timeout = _sqlite_settings(parsed)
    return await asyncio.to_thread(SqliteDatabase.open, path, busy_timeout=busy_timeout)


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
    """A SQLite file, owned by this process."""

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
        """The one that writes, for the life of the database."""
        return self._writer.connect()

    @classmethod
    def open(cls, path: Path, *, busy_timeout: float) -> Self:
        """Lock the file, open it and bring its schema up to date; blocks meanwhile.

        Raises:
            StoreError: another operator has the file, its folder does not exist, or a newer operator wrote it.
            StoreUnavailable: somebody else has locked the database, or the disk is full.
        """
        lock = _locked(path)
        database = cls(path, lock, busy_timeout=busy_timeout)
        try:
            database._transact(upgrade)
        except Exception as error:
            database._let_go()
            if isinstance(error, SQLAlchemyError | sqlite3.Error):
                raise type(translated(error))(f"cannot open {path}: {cause(error)}") from error
            raise
        return database

    async def write(self, work: Callable[[Connection], T], /) -> T:
        """Run a function in a transaction on the writer thread, while the event loop stands still for a moment at most.

        Beside a busy loop it would wait for Python's global lock a dozen times, longer than it works.
        """
        running = _begun(self._writing, lambda: self._transact(work))
        with suppress(TimeoutError):
            running.exception(_MOMENT)
        return running.result() if running.done() else await asyncio.wrap_future(running)

    def _transact(self, work: Callable[[Connection], T]) -> T:
        """Run a function in a transaction, with the driver's own calls: SQLAlchemy's would take as long as SQLite."""
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
            # What SQLAlchemy ran has begun a transaction of its own, which there is none of in the database any more.
            connection.rollback()
        return result

    async def read(self, work: Callable[[Connection], T], /) -> T:
        """Run a function on a reader thread; it sees one state of the database throughout."""
        return await _in(self._reading, lambda: _look(self._reader, work))

    async def read_log(self, work: Callable[[Connection], T], /) -> T:
        """Run a function on a thread that reads the delivery log; it sees one state of the database throughout."""
        return await _in(self._log_reading, lambda: _look(self._log_reader, work))

    def announce(self, endpoint_uids: Iterable[str], /) -> None:
        """There is nobody to tell."""

    def listen(self, hears: Callable[[str], None], /) -> None:
        """There is nobody to hear."""

    def report(self, words: Iterable[str], /) -> None:
        """There is nobody to tell."""

    def hear_reports(self, hears: Callable[[str], None], /) -> None:
        """There is nobody to hear."""

    async def close(self) -> None:
        """Finish what is under way, and unlock the file."""
        await asyncio.to_thread(self._let_go)

    def _let_go(self) -> None:
        self._writing.shutdown()
        for threads, engine in ((self._reading, self._reader), (self._log_reading, self._log_reader)):
            threads.shutdown()
            engine.dispose()
        if "_connection" in vars(self):
            self._connection.close()
        # The last connection to go folds the write-ahead log into the file, which takes one that may write.
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
        raise StoreUnavailable(f"the store has no thread to work with: {error}") from error


def _locked(path: Path) -> int:
    """Create the file where there is none, lock it, and return the descriptor that holds the lock."""
    try:
        # Events are nobody else's business.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(f"cannot open {path}: {error.strerror}; its folder must exist and be writable") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise StoreError(f"another operator has {path} open; each needs a database of its own") from error
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
        # Transactions begin where `begin` says, not where the driver guesses.
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
    # Every commit is on the disk before it is answered.
    "synchronous=FULL",
    # Statements on many rows keep a journal of their own while they run; in a file it would cost more than their work.
    "temp_store=MEMORY",
    # So many pages go into the file at once: what is written again and again goes there the less often.
    "wal_autocheckpoint=4000",
    "journal_size_limit=67108864",
)
