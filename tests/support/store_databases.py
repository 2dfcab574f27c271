"""Fixtures of databases for stores: SQLite files, and one PostgreSQL server with one database that tests empty."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.store_factories import EMPTY, migrated

from hookwright_dev.cluster.postgres import PostgresServer, postgres_server, programs

DATABASE = "contract"
"""The database that tests use one after the other."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Install PostgreSQL if it is missing. This can take a minute, and no test's time limit covers it."""
    wanted = any({"postgres", "url"} & {*getattr(item, "fixturenames", ())} for item in session.items)
    if wanted and not session.config.option.collectonly:
        programs()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Start the session's PostgreSQL server."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def migrated_url(postgres: PostgresServer) -> str:
    """Create the database with the schema."""
    url = postgres.new_database(DATABASE)
    asyncio.run(migrated(url))
    return url


@pytest.fixture
def postgres_url(postgres: PostgresServer, migrated_url: str) -> str:
    """Return the URL of the database after emptying it."""
    postgres.execute(EMPTY, database=DATABASE)
    return migrated_url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database, on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/deliveries.db"
    return str(request.getfixturevalue("postgres_url"))
