"""Connections to a SQLite file: the lock of the file, settings, and the engines of SQLAlchemy.

A file belongs to one process, which keeps a lock on ``<file>.lock`` while the database is open. The kernel releases the
lock when the process ends, even after a crash.
"""

import fcntl
import os
import sqlite3
from pathlib import Path
from typing import Final

from sqlalchemy import URL, Connection, Engine, create_engine, event

from hookwright_operator.store.sql.statements import driver_of
from hookwright_runtime.errors import StoreError

BUSY_TIMEOUT: Final = 4.0
"""Seconds to wait for a lock of another process on the database; ``?timeout=`` in the URL changes it.

A call may also wait for the transaction before its own. Producers seldom wait 10 s for an answer.
"""
BEGIN: Final = "BEGIN IMMEDIATE"
"""Begins a transaction that may write."""

_PRAGMAS: Final = (
    "journal_mode=WAL",
    # A commit is on the disk before the caller gets its result.
    "synchronous=FULL",
    # SQLite keeps a statement journal for statements on many rows; in a file it would cost more than the statements.
    "temp_store=MEMORY",
    # SQLite copies this many pages into the file at once. Pages that change often are then written less often.
    "wal_autocheckpoint=4000",
    "journal_size_limit=67108864",
    # Debian's SQLite fills each freed page with zeros: the removal of a large body then writes as much as its insert.
    "secure_delete=FAST",
)


def file_of(url: URL) -> tuple[Path, float]:
    """Return the path of a URL, and how many seconds to wait for locks.

    Raises:
        StoreError: the URL names no file, or has unknown parts.
    """
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


def locked(path: Path) -> int:
    """Create the file if it does not exist, lock it, and return the descriptor that holds the lock.

    Raises:
        StoreError: another operator has locked the file, or its folder does not exist.
    """
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


def sqlite_engine(path: Path, busy_timeout: float, *, connections: int, readonly: bool) -> Engine:
    """Create an engine; its connections are opened when they are used."""
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": busy_timeout, "check_same_thread": False},
        pool_size=connections,
        max_overflow=0,
        hide_parameters=True,
    )

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _: object) -> None:
        # `start` begins each transaction. Without this setting the driver begins one before some statements.
        connection.isolation_level = None
        for pragma in (*_PRAGMAS, f"query_only={readonly:d}"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        if not driver_of(connection).in_transaction:
            connection.exec_driver_sql("BEGIN" if readonly else BEGIN)

    return engine
