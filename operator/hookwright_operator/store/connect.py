"""Opening of a database: from a URL to an object that runs transactions."""

import asyncio
import sqlite3
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from hookwright_operator.store.database import Database, PostgresDatabase, SqliteDatabase
from hookwright_operator.store.database_errors import DATABASE_ERRORS, cause, translated
from hookwright_operator.store.migrations import Admit, upgrade
from hookwright_operator.store.postgres import migrate, not_opened
from hookwright_operator.store.sqlite import file_of, locked
from hookwright_runtime.errors import StoreError

_EXPECTED = "sqlite:///<path> or postgresql://<user>:<password>@<host>:<port>/<database>"
_POSTGRESQL = ("postgresql", "postgres", "postgresql+asyncpg")


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
        return await _open_postgres(f"postgresql://{rest}", admit)
    try:
        parts = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreError(f"the database URL cannot be read; expected {_EXPECTED}") from None
    if parts.drivername != "sqlite":
        raise StoreError(f"no store for a {parts.drivername} database; expected {_EXPECTED}")
    path, busy_timeout = file_of(parts)
    return await _open_sqlite(path, busy_timeout, admit)


async def _open_sqlite(path: Path, busy_timeout: float, admit: Admit | None) -> SqliteDatabase:
    database = SqliteDatabase(path, locked(path), busy_timeout=busy_timeout)
    try:
        await asyncio.to_thread(database.transact, lambda connection: upgrade(connection, admit))
    except Exception as error:
        await database.close()
        if isinstance(error, SQLAlchemyError | sqlite3.Error):
            raise type(translated(error))(f"cannot open {path}: {cause(error)}") from error
        raise
    return database


async def _open_postgres(url: str, admit: Admit | None) -> PostgresDatabase:
    try:
        await migrate(url, admit)
    except (*DATABASE_ERRORS, ValueError) as error:
        raise not_opened(url, error) from None
    return PostgresDatabase(url)
