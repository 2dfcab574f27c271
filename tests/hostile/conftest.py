"""Databases that the hostile tests share: one PostgreSQL server, and one database with the schema that tests empty."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.store_factories import EMPTY, migrated

from hookwright_dev.cluster.postgres import PostgresServer, postgres_server

_DATABASE = "hostile"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Yield the session's PostgreSQL server."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def migrated_url(postgres: PostgresServer) -> str:
    """Return a database that has the schema."""
    url = postgres.new_database(_DATABASE)
    asyncio.run(migrated(url))
    return url


@pytest.fixture
def postgres_url(postgres: PostgresServer, migrated_url: str) -> str:
    """Return an empty PostgreSQL database."""
    postgres.execute(EMPTY, database=_DATABASE)
    return migrated_url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return an empty database of each engine."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/deliveries.db"
    return str(request.getfixturevalue("postgres_url"))
