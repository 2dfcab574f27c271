"""Delivered deliveries stay in the log until they are pruned, in whichever slice they are."""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy import Connection
from support.store_factories import LEASE_MS, Clock, logged, settlement

from hookwright_operator.ids import message_id
from hookwright_operator.store.records import NewDelivery, NewEvent, Settlements, State
from hookwright_operator.store.store import Store

DAY_MS = 24 * 60 * 60 * 1000


def delivery_of(slice_number: int, number: int, uid: str = "orders") -> NewDelivery:
    """Build a delivery whose id contains the time of its acceptance, and so its slice and position."""
    return NewDelivery(f"dlv_01K9{slice_number:04}{number:018}", uid, claimed=True)


def ids(found: Sequence[NewDelivery]) -> list[str]:
    """Return their ids, the newest first."""
    return sorted((delivery.id for delivery in found), reverse=True)


async def accepted(store: Store, *deliveries: NewDelivery) -> None:
    """Accept an event for each delivery."""
    await store.accept([NewEvent(message_id(), "acme", "billing", None, "x", b"{}", (one,)) for one in deliveries])


async def delivered(store: Store, *deliveries: NewDelivery) -> None:
    """Accept and deliver deliveries."""
    await accepted(store, *deliveries)
    await store.settle([settlement(delivery, State.DELIVERED) for delivery in deliveries])


async def test_what_is_delivered_late_stays_as_long_as_what_was_delivered_at_once(store: Store, clock: Clock) -> None:
    """A delivery is pruned by its own age, even if others of the same second were pruned before."""
    early, late = delivery_of(1, 1), delivery_of(1, 2)
    await delivered(store, early)
    await accepted(store, late)
    clock.advance(3 * DAY_MS)
    await store.settle([settlement(late, State.DELIVERED)])
    clock.advance(1)

    assert await store.prune(delivered_before_ms=clock.now - DAY_MS, failed_before_ms=0, limit=10)
    assert await store.prune(delivered_before_ms=clock.now - DAY_MS, failed_before_ms=0, limit=10) == 0
    assert await logged(store) == [late.id]

    clock.advance(DAY_MS)
    assert await store.prune(delivered_before_ms=clock.now - 1, failed_before_ms=0, limit=10)
    assert await logged(store) == []


async def test_what_comes_after_a_slice_was_removed_is_in_the_log(store: Store, clock: Clock) -> None:
    """A delivery after a prune is in the log, even if the clock was set back."""
    await delivered(store, delivery_of(1, 1))
    clock.advance(DAY_MS)
    while await store.prune(delivered_before_ms=clock.now, failed_before_ms=0, limit=10):
        pass
    clock.advance(-DAY_MS)
    late = delivery_of(1, 2)
    await delivered(store, late)

    assert await logged(store) == [late.id]


async def test_what_was_retried_by_hand_goes_by_how_it_ended_last(store: Store, clock: Clock) -> None:
    """A delivery that was delivered and then failed is pruned at the age of failed ones, and leaves no rows."""
    delivery = delivery_of(1, 1)
    await delivered(store, delivery)
    await store.retry(delivery.id)
    [again] = await store.claim([("orders", 1)])
    clock.advance(DAY_MS)
    await store.settle([settlement(again, State.FAILED)])
    await store.discard("orders", "endpoint deleted")
    clock.advance(1)

    while await store.prune(delivered_before_ms=clock.now, failed_before_ms=0, limit=10):
        pass
    assert await logged(store) == [delivery.id]
    assert (await store.counts()).keys() == {"orders"}

    while await store.prune(delivered_before_ms=clock.now, failed_before_ms=clock.now, limit=10):
        pass
    assert await logged(store) == []
    assert await store.counts() == {}


class RefusedError(Exception):
    """An error that ends a transaction."""


async def test_what_was_rolled_back_is_not_taken_for_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next delivery of the same second is in the log after a rollback."""
    first, second = delivery_of(1, 1), delivery_of(1, 2)
    await accepted(store, first, second)
    work = store._settle.run

    def fail(connection: Connection, calls: Sequence[Settlements]) -> list[frozenset[str]]:
        work(connection, calls)
        raise RefusedError

    monkeypatch.setattr(store, "_settle", replace(store._settle, run=fail))
    with pytest.raises(RefusedError):
        await store.settle([settlement(first, State.DELIVERED)])
    monkeypatch.undo()
    assert await logged(store, state=State.DELIVERED) == []

    await store.settle([settlement(second, State.DELIVERED)])

    assert await logged(store, state=State.DELIVERED) == [second.id]


@pytest_asyncio.fixture
async def file(tmp_path: Path, clock: Clock) -> AsyncIterator[tuple[Store, Path]]:
    """Open a store on a file."""
    path = tmp_path / "deliveries.db"
    store = await Store.open(f"sqlite:///{path}", instance="test", lease_ms=LEASE_MS, clock=clock)
    yield store, path
    await store.close()


async def test_a_slice_is_written_once(file: tuple[Store, Path], clock: Clock) -> None:
    """A slice has one row per endpoint, and one per second of a delivery; it is removed with its last delivery."""
    store, path = file
    for number in range(4):
        await delivered(store, *[delivery_of(1, 100 * number + place) for place in range(20 * number + 1)])
    assert rows_of(path) == [[("orders", "dlv_01K90001")], [(clock.now // 1000, "dlv_01K90001")]]
    clock.advance(1000)
    await delivered(store, delivery_of(1, 500))
    assert rows_of(path)[1] == [(second, "dlv_01K90001") for second in (clock.now // 1000 - 1, clock.now // 1000)]

    clock.advance(1000)
    while await store.prune(delivered_before_ms=clock.now, failed_before_ms=0, limit=10):
        pass
    assert rows_of(path) == [[], []]


def rows_of(path: Path) -> list[list[tuple[object, ...]]]:
    """Return the slices of endpoints, and those of seconds."""
    with closing(sqlite3.connect(path)) as connection:
        return [
            connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall()  # noqa: S608 - only constants
            for name in ("log_slices", "ended_slices")
        ]
