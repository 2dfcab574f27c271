"""Reads of the delivery log cost deliveries and other tenants nothing.

The attack: 16 callers read the discarded deliveries of an endpoint, of which each 500th is discarded. No index has only
these, so a page without a limit would examine all deliveries of the endpoint.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from shutil import copy2

import pytest
from sqlalchemy import Connection
from support.store_factories import Clock, event

from hookwright_dev.cluster.postgres import PostgresServer
from hookwright_operator.store.records import DeliveryRecord, Search, State
from hookwright_operator.store.sql import paging
from hookwright_operator.store.sql import read as read_sql
from hookwright_operator.store.sql import search as search_sql
from hookwright_operator.store.sql.statements import driver_of
from hookwright_operator.store.store import Store

RARE = 120
APART = 1_000
"""Every so many rows one is discarded; the endpoint has half of the rows between."""
BUSY = "uid-busy"
LIMIT = 250
STEPS_A_ROW = 30
"""Steps of SQLite's machine that one examined row may take; a row takes about half of them."""
MOST_STEPS = STEPS_A_ROW * (paging.ROWS + paging.STRETCH_ROWS)

# Ids are in the order of acceptance.
FILL = f"""
    INSERT INTO deliveries (id, event_id, endpoint_uid, state, reason, due_ms, attempts, ended_ms)
    WITH RECURSIVE series(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM series WHERE n < {RARE * APART - 1})
    SELECT printf('dlv_01K9%04d%018d', n / {APART}, n % {APART} * 1000000000000),
      'msg_1', CASE WHEN n % 2 = 0 THEN '{BUSY}' ELSE 'uid-' || (n % 50) END,
      CASE WHEN n % {APART} = 0 THEN 'discarded' ELSE 'delivered' END, '', 1, 1, 1
    FROM series
"""  # noqa: S608 - our own numbers
REST = [
    """INSERT INTO events (id, namespace, project, type, accepted_ms, deliveries, body)
        VALUES ('msg_1', 'acme', 'billing', 'delivered', 1, 1, '{}')""",
]


@pytest.fixture(scope="module")
def filled(migrated_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a SQLite file with the log in it, to copy."""
    path = Path(copy2(migrated_file, tmp_path_factory.mktemp("filled") / "deliveries.db"))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        for statement in (FILL, *REST, "PRAGMA wal_checkpoint(TRUNCATE)"):
            connection.execute(statement)
    return path


@pytest.fixture
async def store(filled: Path, tmp_path: Path) -> AsyncIterator[Store]:
    """Yield a store on a copy of the file."""
    url = f"sqlite:///{copy2(filled, tmp_path / 'deliveries.db')}"
    store = await Store.open(url, instance="test", lease_ms=60_000, clock=Clock())
    yield store
    await store.close()


def rare_ids() -> list[str]:
    """Return the discarded deliveries of the endpoint, the newest first."""
    return [f"dlv_01K9{number:04}{0:018}" for number in reversed(range(RARE))]


def page_of_state(
    connection: Connection, state: State | None, cursor: str | None
) -> tuple[list[DeliveryRecord], str | None]:
    """Read a page of the log of the endpoint."""
    return read_sql.log(connection, BUSY, state=state, limit=LIMIT, cursor=cursor)


def page_of_search(
    connection: Connection, wanted: Search, cursor: str | None
) -> tuple[list[DeliveryRecord], str | None]:
    """Read a page of a search."""
    return search_sql.page(connection, wanted, limit=10, cursor=cursor)


async def steps_of(
    store: Store, page_of: Callable[[Connection], tuple[list[DeliveryRecord], str | None]]
) -> tuple[list[str], str | None, int]:
    """Read one page; return its ids, its cursor, and the steps of SQLite's machine that it took, in hundreds."""

    def read(connection: Connection) -> tuple[list[str], str | None, int]:
        steps = 0

        def count() -> None:
            nonlocal steps
            steps += 100

        driver_of(connection).set_progress_handler(count, 100)
        try:
            page, following = page_of(connection)
        finally:
            driver_of(connection).set_progress_handler(None, 100)
        return [record.id for record in page], following, steps

    return await store.transactions.read("test", of_log=True, work=read)


@pytest.mark.parametrize(("state", "found"), [(State.DISCARDED, rare_ids()), (State.PENDING, []), (State.FAILED, [])])
async def test_a_page_examines_a_bounded_number_of_rows_and_cursors_lead_to_the_end(
    store: Store, state: State, found: list[str]
) -> None:
    """Every delivery comes exactly once, in order, in pages that may be short, and no cursor discloses a foreign id."""
    records: list[str] = []
    cursor, pages = None, 0
    while True:
        page, cursor, steps = await steps_of(store, partial(page_of_state, state=state, cursor=cursor))
        assert steps <= MOST_STEPS
        records += page
        pages += 1
        if cursor is None:
            break
        record = await store.read_log(read_sql.delivery, cursor)
        assert record is None or record.endpoint_uid == BUSY
    assert records == found
    assert pages == (1 if state is State.FAILED else 2)


@pytest.mark.parametrize("event_type", ["delivered", "opened"])
async def test_a_search_by_event_type_examines_a_bounded_number_of_rows(
    store: Store, monkeypatch: pytest.MonkeyPatch, event_type: str
) -> None:
    """All deliveries that a page checks share one budget of rows; cursors lead to the end."""
    # 40 discarded deliveries of the endpoint are spread over most of the rows of one page.
    monkeypatch.setattr(search_sql, "CHECKED_AT_ONCE", 40)
    expected = Search([BUSY], "acme", event_type=event_type, state=State.DISCARDED)
    records: list[str] = []
    cursor, pages = None, 0
    while pages == 0 or cursor is not None:
        page, cursor, steps = await steps_of(store, partial(page_of_search, wanted=expected, cursor=cursor))
        assert steps <= MOST_STEPS
        records += page
        pages += 1
    assert records == (rare_ids() if event_type == "delivered" else [])


async def test_a_budget_that_ends_between_two_finds_loses_and_repeats_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The budget is smaller than the distance of two finds, so pages are empty and the cursor goes on all the same."""
    monkeypatch.setattr(paging, "STRETCH_ROWS", 70)
    monkeypatch.setattr(paging.RowBudget, "__init__", lambda budget: setattr(budget, "rows", 230))
    records: list[str] = []
    empty = 0
    page, cursor = await store.read_log(read_sql.log, BUSY, state=State.DISCARDED, limit=LIMIT)
    while cursor is not None:
        records += [record.id for record in page]
        empty += not page
        before = cursor
        page, cursor = await store.read_log(read_sql.log, BUSY, state=State.DISCARDED, limit=LIMIT, cursor=cursor)
        assert cursor is None or cursor < before
    assert [*records, *[record.id for record in page]] == rare_ids()
    assert empty


async def test_claims_and_other_tenants_do_not_wait_for_readers(store: Store) -> None:
    """Beside 16 readers, `next_due`, an acceptance and a claim come back while most of the pages are still read."""
    for _ in range(3):
        readers = [
            asyncio.create_task(store.read_log(read_sql.log, BUSY, state=State.DISCARDED, limit=LIMIT))
            for _ in range(16)
        ]
        await asyncio.sleep(0)
        new = event("uid-other")
        await store.accept([new])
        assert set(await store.next_due()) == {"uid-other"}
        [delivery] = await store.claim([("uid-other", 1)])
        assert delivery.event_id == new.id
        still_reading = sum(not reader.done() for reader in readers)
        await asyncio.gather(*readers)
        assert still_reading >= 8


@pytest.mark.slow
async def test_a_rare_state_on_postgresql_examines_a_bounded_number_of_rows(postgres: PostgresServer) -> None:
    """An endpoint with few discarded among many delivered deliveries: pages are short, and cursors lead to the end."""
    rows = 2 * paging.ROWS + 1000
    url = await asyncio.to_thread(postgres.new_database, "rare")
    store = await Store.open(url, instance="test", lease_ms=60_000, clock=Clock())
    fill = f"""
        INSERT INTO deliveries (id, event_id, endpoint_uid, state, reason, due_ms, attempts, ended_ms)
        SELECT 'dlv_01K9' || lpad(CAST(n AS TEXT), 22, '0'), 'msg_1', '{BUSY}',
          CASE WHEN n % 40000 = 7 THEN 'discarded' ELSE 'delivered' END, '', 1, 1, 1
        FROM generate_series(0, {rows - 1}) AS n
    """  # noqa: S608 - our own numbers
    await asyncio.to_thread(postgres.execute, REST[0], fill, database="rare")
    records: list[str] = []
    cursor, pages = None, 0
    while pages == 0 or cursor is not None:
        page, cursor = await store.read_log(read_sql.log, BUSY, state=State.DISCARDED, limit=LIMIT, cursor=cursor)
        records += [record.id for record in page]
        pages += 1
    dense, following = await store.read_log(read_sql.log, BUSY, state=State.DELIVERED, limit=LIMIT)
    await store.close()
    assert [int(entry[8:]) for entry in records] == sorted(range(7, rows, 40_000), reverse=True)
    assert pages == 3
    assert (len(dense), following) == (LIMIT, dense[-1].id)
