"""Connections to PostgreSQL: settings, limits, and the engines of SQLAlchemy."""

from typing import Final
from urllib.parse import urlsplit

import asyncpg
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from hookwright_operator.store.database_errors import cause, translated
from hookwright_operator.store.migrations import Admit, upgrade
from hookwright_runtime.errors import StoreError

CONNECT_SECONDS: Final = 5.0
STATEMENT_SECONDS: Final = 10.0
"""How long the server works at one statement; a client without an answer gives up soon after."""
MIGRATING: Final = 4_716_552_001
"""The key of the advisory lock under which the schema is migrated, by one replica at a time."""

_RECYCLE_SECONDS: Final = 1800
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
LIMITS: Final = {
    "statement_timeout": f"{STATEMENT_SECONDS:g}s",
    # A call may also wait for the transaction before its own. Producers seldom wait 10 s for an answer.
    "lock_timeout": "4s",
    # A process that hangs must not keep its locks.
    "idle_in_transaction_session_timeout": "30s",
}
"""Settings of all connections except the one that migrates."""


async def connected(
    url: str, limits: dict[str, str] = LIMITS, *, command_timeout: float | None = STATEMENT_SECONDS + 2
) -> "asyncpg.Connection[asyncpg.Record]":
    """Connect as libpq would with this URL: several hosts, TLS, a password file and so on."""
    return await asyncpg.connect(
        url,
        timeout=CONNECT_SECONDS,
        command_timeout=command_timeout,
        # Frequent statements stay prepared as long as their connection.
        max_cached_statement_lifetime=0,
        server_settings={**_SETTINGS, **limits},
        target_session_attrs="read-write",
    )


def postgres_engine(url: str, *, connections: int) -> AsyncEngine:
    """Create an engine; its connections are opened when they are used, and SQLAlchemy begins no transactions."""
    return create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: connected(url),
        hide_parameters=True,
        pool_size=connections,
        max_overflow=0,
        pool_recycle=_RECYCLE_SECONDS,
        isolation_level="AUTOCOMMIT",
    )


async def migrate(url: str, admit: Admit | None) -> None:
    """Bring the schema up to date; wait if another replica is migrating it."""
    # Creating an index on a big table can take long, so there is no timeout.
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: connected(url, {}, command_timeout=None), poolclass=NullPool
    )
    try:
        async with engine.begin() as connection:
            await connection.execute(select(func.pg_advisory_xact_lock(MIGRATING)))
            await connection.run_sync(upgrade, admit)
    finally:
        await engine.dispose()


def not_opened(url: str, error: Exception) -> StoreError:
    """Return the error for a database that could not be opened; it contains no password."""
    parts = urlsplit(url)
    location = parts.netloc.rpartition("@")[2] + parts.path
    unreadable = isinstance(error, ValueError) and not isinstance(error, asyncpg.InterfaceError)
    if unreadable or parts.netloc.count("@") != url.count("@"):
        # The text after "@" may be part of a password, so the message must not contain it.
        return StoreError(
            "the database URL cannot be read; expected postgresql://<user>:<password>@<host>:<port>/<database>,"
            " with special characters of user and password percent-encoded"
        )
    translation = translated(error)
    kind = type(translation) if isinstance(translation, StoreError) else StoreError
    return kind(f"cannot open the database at {location}: {cause(error)}")
