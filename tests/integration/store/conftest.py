"""Fixtures of the store's tests: stores on real databases, SQLite and PostgreSQL in turn."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.store_factories import EMPTY, LEASE_MS, Clock, Observed, left, migrated, neighbour_of

from hookwright_dev.cluster.postgres import PostgresServer, postgres_server, programs
from hookwright_operator.store.store import Store

Open = Callable[[], Awaitable[Store]]


@pytest.fixture
def clock() -> Clock:
    """Return the clock that the stores use."""
    return Clock()


@pytest.fixture
def observed() -> Observed:
    """Return the record of the stores' transactions."""
    return Observed()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Install PostgreSQL if it is missing. This can take a minute, and no test's time limit covers it."""
    if session.items and not session.config.option.collectonly:
        programs()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Start the session's PostgreSQL server."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url(postgres: PostgresServer) -> str:
    """Create a database with the schema, which tests use one after the other."""
    url = postgres.new_database("contract")
    asyncio.run(migrated(url))
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database, on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/deliveries.db"
    url = str(request.getfixturevalue("postgres_url"))
    request.getfixturevalue("postgres").execute(EMPTY, database="contract")
    return url


@pytest_asyncio.fixture
async def open_store(url: str, clock: Clock, observed: Observed) -> AsyncIterator[Open]:
    """Open a store on the test's database; at the end of the test it is closed."""
    opened: list[Store] = []

    async def open_one() -> Store:
        opened.append(await Store.open(url, instance="test", lease_ms=LEASE_MS, clock=clock, observe=observed))
        return opened[-1]

    yield open_one
    for store in opened:
        await store.close()


@pytest_asyncio.fixture
async def store(open_store: Open) -> Store:
    """Open a store on an empty database."""
    return await open_store()


@pytest_asyncio.fixture
async def neighbour(store: Store, url: str, clock: Clock) -> AsyncIterator[Store]:
    """Open the store of another replica on the same database."""
    other = await neighbour_of(store, url, clock)
    yield other
    await left(other)
