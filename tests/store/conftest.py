"""What the store's tests share: stores on real databases, one engine after the other."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from store.making import LEASE_MS, Clock, Observed

from hookwright_operator.store.store import DEDUPE_WINDOW_MS, Store

Open = Callable[[], Awaitable[Store]]


@pytest.fixture
def clock() -> Clock:
    """The clock that the stores go by."""
    return Clock()


@pytest.fixture
def observed() -> Observed:
    """What the stores say about their transactions."""
    return Observed()


@pytest.fixture(params=["sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each engine."""
    assert request.param == "sqlite"
    return f"sqlite:///{tmp_path}/deliveries.db"


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
async def neighbour(store: Store, clock: Clock) -> AsyncIterator[Store]:
    """Another instance on the same database, as several replicas would have it."""
    other = Store(
        store._database,
        instance="neighbour",
        lease_ms=LEASE_MS,
        clock=clock,
        observe=lambda _operation, _seconds: None,
        dedupe_window_ms=DEDUPE_WINDOW_MS,
    )
    await other.heartbeat()
    yield other
    await other._batcher.close()
