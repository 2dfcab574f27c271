"""What the store's tests share: stores on real databases, one engine after the other."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from store.making import EMPTY, LEASE_MS, Clock, Observed, left, migrated, neighbour_of

from hookwright_dev.postgres import PostgresServer, postgres_server, programs
from hookwright_operator.store.store import Store

Open = Callable[[], Awaitable[Store]]


@pytest.fixture
def clock() -> Clock:
    """The clock that the stores go by."""
    return Clock()


@pytest.fixture
def observed() -> Observed:
    """What the stores say about their transactions."""
    return Observed()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Install what is missing before the first test: that can take a minute, and no test's time limit covers it."""
    if session.items and not session.config.option.collectonly:
        programs()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The session's PostgreSQL server."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url(postgres: PostgresServer) -> str:
    """A database with the schema in it, which tests use one after the other."""
    url = postgres.new_database("contract")
    asyncio.run(migrated(url))
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each engine."""
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
    """A store on an empty database."""
    return await open_store()


@pytest_asyncio.fixture
async def neighbour(store: Store, url: str, clock: Clock) -> AsyncIterator[Store]:
    """Another instance on the same database, as several replicas would have it."""
    other = await neighbour_of(store, url, clock)
    yield other
    await left(other)
