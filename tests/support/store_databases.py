"""Fixtures of databases for stores: copies of a migrated SQLite file, and one PostgreSQL database that tests empty.

A test with the fixture ``url`` runs on SQLite. With the marker ``both_engines`` it runs on PostgreSQL too, because the
engines can differ there. The other tests run on PostgreSQL with the slow ones.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from shutil import copy2

import pytest
from support.needed_programs import need
from support.store_factories import EMPTY, migrated

from hookwright_dev.cluster.postgres import PostgresServer, postgres_server, programs

DATABASE = "contract"
"""The database that tests use one after the other."""


for fixture in ("postgres", "database_engine"):
    need(fixture, programs)


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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the engines of a test."""
    if "database_engine" in metafunc.fixturenames:
        marks = () if metafunc.definition.get_closest_marker("both_engines") else (pytest.mark.slow,)
        metafunc.parametrize("database_engine", ["sqlite", pytest.param("postgresql", marks=marks)])


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a SQLite file with the schema, to copy."""
    path = tmp_path_factory.mktemp("migrated") / "deliveries.db"
    asyncio.run(migrated(f"sqlite:///{path}"))
    return path


@pytest.fixture
def database(migrated_file: Path, tmp_path: Path) -> Path:
    """Return the path of a SQLite file with the schema and no rows."""
    return Path(copy2(migrated_file, tmp_path / "deliveries.db"))


@pytest.fixture
def url(database_engine: str, request: pytest.FixtureRequest) -> str:
    """Return the URL of a database without rows on the engine of the test."""
    if database_engine == "sqlite":
        return f"sqlite:///{request.getfixturevalue('database')}"
    return str(request.getfixturevalue("postgres_url"))
