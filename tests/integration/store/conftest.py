"""Fixtures of the store's tests: stores on real databases; `support.store_databases` has the databases."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from support.store_factories import Clock, Observed, left, neighbour_of, opened

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


@pytest_asyncio.fixture
async def open_store(url: str, clock: Clock, observed: Observed) -> AsyncIterator[Open]:
    """Open a store on the test's database; at the end of the test it is closed."""
    entries: list[Store] = []

    async def open_one() -> Store:
        entries.append(await opened(url, clock, observe=observed))
        return entries[-1]

    yield open_one
    for store in entries:
        await store.close()


@pytest_asyncio.fixture
async def store(open_store: Open) -> Store:
    """Open a store on an empty database."""
    return await open_store()


@pytest_asyncio.fixture
async def neighbour(store: Store, url: str, clock: Clock) -> AsyncIterator[Store]:
    """Open the store of another replica on the same database."""
    second_store = await neighbour_of(store, url, clock)
    yield second_store
    await left(second_store)
