"""Helpers of the store's tests: a clock that tests advance, events, settlements, and reads of the tables."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncpg
from sqlalchemy import Connection, func, select
from support.polling import PATIENCE, until

from hookwright_operator.ids import delivery_id, message_id
from hookwright_operator.store.chosen_replays import Wanted
from hookwright_operator.store.records import (
    Attempt,
    Choice,
    Claimed,
    NewDelivery,
    NewEvent,
    Replica,
    Settlement,
    State,
)
from hookwright_operator.store.schema import metadata
from hookwright_operator.store.sql import read
from hookwright_operator.store.store import Store

LEASE_MS = 10_000
TABLES = {name: table for name, table in metadata.tables.items() if name != "compatibility"}
EMPTY = f"TRUNCATE {', '.join(TABLES)}"


@dataclass(slots=True)
class Clock:
    """A clock in milliseconds that changes only when a test advances it."""

    now: int = 1_800_000_000_000

    def __call__(self) -> int:
        """Return the time."""
        return self.now

    def advance(self, milliseconds: int) -> None:
        """Advance the time."""
        self.now += milliseconds


@dataclass(slots=True)
class Observed:
    """The observed operations and their seconds."""

    operations: list[str] = field(default_factory=list)

    def __call__(self, operation: str, seconds: float) -> None:
        """Record an observation."""
        assert seconds >= 0
        self.operations.append(operation)

    @property
    def commits(self) -> int:
        """Return how many transactions were committed."""
        return self.operations.count("commit")


@asynccontextmanager
async def held(store: Store, url: str) -> AsyncIterator["asyncio.Future[str]"]:
    """Keep a transaction open while the block runs; its result is "done"."""
    begin, go_on = threading.Event(), threading.Event()

    def wait_here(_connection: Connection) -> str:
        begin.set()
        assert go_on.wait(PATIENCE)
        return "done"

    def wait_for_the_lock(connection: Connection) -> str:
        begin.set()
        connection.execute(select(func.pg_advisory_xact_lock(7)))
        return "done"

    if not store.is_shared:
        under_way = store.transactions.write("hold", wait_here)
        try:
            assert await asyncio.to_thread(begin.wait, PATIENCE)
            yield under_way
        finally:
            go_on.set()
        return
    holder = await asyncpg.connect(url)
    await holder.execute("SELECT pg_advisory_lock(7)")
    under_way = store.transactions.write("hold", wait_for_the_lock)
    try:
        await until(lambda: asyncio.sleep(0, begin.is_set()))
        yield under_way
    finally:
        await holder.close()


async def migrated(url: str) -> None:
    """Create the schema."""
    await (await Store.open(url, instance="migration", lease_ms=1, clock=lambda: 0)).close()


async def opened(url: str, clock: Clock | None = None, **options: Any) -> Store:
    """Open a store at a URL."""
    return await Store.open(url, instance="test", lease_ms=LEASE_MS, clock=clock or Clock(), **options)


async def neighbour_of(store: Store, url: str, clock: Clock) -> Store:
    """Open another replica on a store's database; on SQLite it shares the open database object."""
    if store.is_shared:
        return await Store.open(url, instance="neighbour", lease_ms=LEASE_MS, clock=clock)
    neighbour = Store(store.transactions.database, Replica("neighbour"), lease_ms=LEASE_MS, clock=clock)
    neighbour.transactions.slot = 1
    await neighbour.heartbeat()
    return neighbour


async def left(neighbour: Store) -> None:
    """Close a neighbour; leave a shared database open."""
    if not neighbour.is_shared:
        await neighbour.transactions.group_commit.close()
    else:
        await neighbour.close()


def event(
    *endpoint_uids: str,
    event_id: str | None = None,
    claimed: bool = False,
    body: bytes = b"{}",
    project: str = "billing",
) -> NewEvent:
    """Build an event for some endpoints."""
    return NewEvent(
        id=message_id(),
        namespace="acme",
        project=project,
        event_id=event_id,
        type="delivered",
        body=body,
        deliveries=tuple(NewDelivery(delivery_id(), uid, claimed) for uid in endpoint_uids),
    )


def settlement(delivery: Claimed | NewDelivery, state: State, *, status: int = 200, due_ms: int = 0) -> Settlement:
    """Build the settlement of an attempt."""
    attempt = Attempt(
        number=0, started_ms=1_800_000_000_000, duration_ms=7, status_code=status, error="", response="ok"
    )
    return Settlement(delivery.id, delivery.endpoint_uid, attempt, state, due_ms)


def failures_of(uid: str) -> Wanted:
    """Build a request for a replay of all failed deliveries of an endpoint."""
    return Wanted(uid, Choice((State.FAILED,)), since_ms=0, until_ms=1 << 47)


async def accept_one(store: Store, *, claimed: bool = False, uid: str = "orders") -> NewDelivery:
    """Accept an event for one endpoint, and return its delivery."""
    new = event(uid, claimed=claimed)
    await store.accept([new])
    return new.deliveries[0]


async def claimed_ids(store: Store, uid: str = "orders", limit: int = 100) -> list[str]:
    """Claim, and return the ids."""
    return [delivery.id for delivery in await store.claim([(uid, limit)])]


async def state_of(store: Store, delivery_id: str) -> State:
    """Return the state that the log shows."""
    record = await store.read_log(read.delivery, delivery_id)
    assert record is not None
    return record.state


async def rows_of(store: Store, table: str) -> int:
    """Return how many rows a table has."""
    count = await store.transactions.read(
        "test", lambda connection: connection.scalar(select(func.count()).select_from(TABLES[table]))
    )
    assert count is not None
    return count


async def all_rows(store: Store) -> dict[str, int]:
    """Return how many rows each table has."""
    return {table: await rows_of(store, table) for table in TABLES}


async def logged(store: Store, uid: str = "orders", *, state: State | None = None, limit: int = 3) -> list[str]:
    """Return the ids of an endpoint's log, page by page."""
    page, cursor = await store.read_log(read.log, uid, state=state, limit=limit)
    records = [record.id for record in page]
    while cursor:
        assert len(page) == limit
        page, cursor = await store.read_log(read.log, uid, state=state, limit=limit, cursor=cursor)
        records += [record.id for record in page]
    return records


def ids(new: Sequence[NewEvent]) -> list[str]:
    """Return the ids of the events' deliveries."""
    return [delivery.id for one in new for delivery in one.deliveries]
