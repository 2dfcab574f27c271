"""What the store's tests are made of: a clock to turn, events, settlements, and a look at the rows themselves."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import func, select
from ulid import ULID

from hookwright_operator.store.model import Attempt, Claimed, NewDelivery, NewEvent, Settlement, State
from hookwright_operator.store.schema import attempts, counters, deliveries, event_ids, events, instances
from hookwright_operator.store.store import Store

LEASE_MS = 10_000
TABLES = {table.name: table for table in (attempts, counters, deliveries, event_ids, events, instances)}


@dataclass(slots=True)
class Clock:
    """A clock that stands still until it is turned, in milliseconds."""

    now: int = 1_800_000_000_000

    def __call__(self) -> int:
        """The time."""
        return self.now

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        self.now += milliseconds


@dataclass(slots=True)
class Observed:
    """What a store said about its transactions."""

    operations: list[str] = field(default_factory=list)

    def __call__(self, operation: str, seconds: float) -> None:
        """Take note."""
        assert seconds >= 0
        self.operations.append(operation)

    @property
    def commits(self) -> int:
        """How many transactions were committed."""
        return self.operations.count("commit")


def event(
    *endpoint_uids: str,
    event_id: str | None = None,
    claimed: bool = False,
    body: bytes = b"{}",
    project: str = "billing",
) -> NewEvent:
    """An event for some endpoints."""
    return NewEvent(
        id=f"msg_{ULID()}",
        namespace="acme",
        project=project,
        event_id=event_id,
        type="delivered",
        body=body,
        deliveries=tuple(NewDelivery(f"dlv_{ULID()}", uid, claimed) for uid in endpoint_uids),
    )


def settlement(delivery: Claimed | NewDelivery, state: State, *, status: int = 200, due_ms: int = 0) -> Settlement:
    """The outcome of an attempt."""
    attempt = Attempt(
        number=0, started_ms=1_800_000_000_000, duration_ms=7, status_code=status, error="", response="ok"
    )
    return Settlement(delivery.id, delivery.endpoint_uid, attempt, state, due_ms)


async def accept_one(store: Store, *, claimed: bool = False, uid: str = "orders") -> NewDelivery:
    """Accept an event for one endpoint, and return its delivery."""
    new = event(uid, claimed=claimed)
    await store.accept([new])
    return new.deliveries[0]


async def claimed_ids(store: Store, uid: str = "orders", limit: int = 100) -> list[str]:
    """Claim, and return the ids."""
    return [delivery.id for delivery in await store.claim([(uid, limit)])]


async def state_of(store: Store, delivery_id: str) -> State:
    """The state that the log shows."""
    record = await store.delivery(delivery_id)
    assert record is not None
    return record.state


async def rows_of(store: Store, table: str) -> int:
    """How many rows a table has."""
    count = await store._database.read(
        lambda connection: connection.scalar(select(func.count()).select_from(TABLES[table]))
    )
    assert count is not None
    return count


async def all_rows(store: Store) -> dict[str, int]:
    """How many rows each table has."""
    return {table: await rows_of(store, table) for table in TABLES}


async def eventually(condition: Callable[[], Awaitable[bool]], *, within: float = 5.0) -> None:
    """Wait until something holds, and fail if it does not within some seconds."""
    deadline = time.monotonic() + within
    while not await condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        await asyncio.sleep(0.01)


def ids(new: Sequence[NewEvent]) -> list[str]:
    """The ids of the events' deliveries."""
    return [delivery.id for one in new for delivery in one.deliveries]
