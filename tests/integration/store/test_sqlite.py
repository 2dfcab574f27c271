"""SQLite only: its file, its lock, its limits, and its query plans."""

import asyncio
import re
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
import pytest_asyncio
from alembic.script import ScriptDirectory
from sqlalchemy import ClauseElement, Connection
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.compiler import SQLCompiler
from support.store_factories import LEASE_MS, Clock, accept_one, all_rows, claimed_ids, event, held

from hookwright_operator.store import migrations
from hookwright_operator.store.database import SqliteDatabase
from hookwright_operator.store.records import Counts, State
from hookwright_operator.store.sql import (
    accept,
    bucket_counts,
    claim,
    prune,
    pull,
    read,
    replay,
    replay_choice,
    search,
    settle,
)
from hookwright_operator.store.store import Store
from hookwright_runtime.errors import StoreError, StoreUnavailable


@pytest.fixture
def path(database: Path) -> Path:
    """Return the path of the database."""
    return database


async def opened(path: Path, *, options: str = "") -> Store:
    """Open a store on a file."""
    return await Store.open(f"sqlite:///{path}{options}", instance="test", lease_ms=LEASE_MS, clock=Clock())


@pytest_asyncio.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    """Open a store that does not wait for locks of other processes."""
    store = await opened(path, options="?timeout=0.05")
    yield store
    await store.close()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "cannot be read"),
        ("deliveries.db", "cannot be read"),
        ("mysql://user:hush@db/hookwright", "no store for a mysql database"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:////tmp/x.db?mode=ro", "more than a path and a timeout"),
        ("sqlite:////tmp/x.db?timeout=soon", "timeout in the database URL is not a number"),
        ("sqlite:////no/such/folder/x.db", "cannot open /no/such/folder/x.db: No such file or directory"),
    ],
)
async def test_a_wrong_url_is_refused_with_what_is_wrong_about_it(url: str, says: str) -> None:
    """The error message names the fault of the setting, and contains no password."""
    with pytest.raises(StoreError, match=re.escape(says)) as error:
        await Store.open(url, instance="test", lease_ms=LEASE_MS, clock=Clock())

    assert "hush" not in str(error.value)


@pytest.fixture
def letter(path: Path) -> Path:
    """Write a file that is not a database."""
    path.write_bytes(b"a letter to a friend, nothing else" * 100)
    return path


async def test_a_file_that_is_no_database_is_refused(letter: Path) -> None:
    """The error message names the file, and the file is unlocked."""
    for _ in range(2):
        with pytest.raises(StoreError, match=f"cannot open {re.escape(str(letter))}: file is not a database"):
            await opened(letter)


async def test_a_second_opener_is_refused(store: Store, path: Path) -> None:
    """A second operator is refused, because each would treat the other's claims as those of a dead replica."""
    with pytest.raises(StoreError, match=f"another operator has {re.escape(str(path))} open"):
        await opened(path)

    await store.close()
    again = await opened(path)
    await again.close()


def modes_in(folder: Path) -> dict[str, int]:
    """Return the permissions of the files of a folder."""
    return {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}


async def test_the_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    """Only the operator's user may read the events in SQLite's files."""
    store = await opened(tmp_path / "deliveries.db")
    await accept_one(store)
    modes = modes_in(tmp_path)
    await store.close()

    names = ("deliveries.db", "deliveries.db-shm", "deliveries.db-wal", "deliveries.db.lock")
    assert modes == dict.fromkeys(names, 0o600)


async def test_a_commit_is_on_the_disk_before_it_is_answered(store: Store) -> None:
    """A power failure loses no answered request: write-ahead log, synced at every commit."""

    def pragmas(connection: Connection) -> tuple[object, object]:
        journal, synchronous = (
            connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")
        )
        return journal, synchronous

    assert await store.transactions.write("test", pragmas) == ("wal", 2)


async def test_what_was_stored_is_there_after_reopening(path: Path) -> None:
    """Deliveries, counters and event ids survive, and the closed store's claims are released."""
    store = await opened(path)
    await store.accept([event("orders", claimed=True, event_id="e-1")])
    before = await all_rows(store)
    await store.close()

    store = await opened(path)
    assert await all_rows(store) == before
    assert (await store.accept([event("orders", event_id="e-1")])).accepted == 0
    assert await store.read(read.counts_of, "orders") == Counts(pending=1)
    assert len(await claimed_ids(store)) == 1
    await store.close()


_ACCEPTS_AND_WAITS = """
import asyncio, sys
from hookwright_operator.store.records import NewDelivery, NewEvent
from hookwright_operator.store.store import Store

async def main():
    store = await Store.open(sys.argv[1], instance="test", lease_ms=3_600_000, clock=lambda: 1_800_000_000_000)
    for n in range(100):
        deliveries = (NewDelivery(f"dlv_{n}", "orders", n % 2 == 0),)
        await store.accept([NewEvent(f"msg_{n}", "acme", "billing", None, "delivered", b"{}", deliveries)])
    print(len(await store.claim([("orders", 10)])), flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture
def orphaned(path: Path) -> Path:
    """Create a database whose process was killed after it had accepted 100 deliveries, half of them as claimed."""
    command = [sys.executable, "-c", _ACCEPTS_AND_WAITS, f"sqlite:///{path}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "10\n"
        process.kill()
    return path


async def test_a_killed_process_loses_nothing_that_was_accepted(orphaned: Path) -> None:
    """SIGKILL leaves no lock, and all accepted deliveries can be claimed at once, claimed before or not."""
    store = await opened(orphaned)
    assert sorted(await claimed_ids(store)) == sorted(f"dlv_{n}" for n in range(100))
    await store.close()


async def test_a_full_disk_is_unavailable_and_passes(store: Store) -> None:
    """No call is half written, reads and claims work, and all calls work when there is space again."""
    delivery = await accept_one(store)
    before = await all_rows(store)

    def limit_pages(connection: Connection, more: int) -> None:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages + more}")

    await store.transactions.write("test", lambda connection: limit_pages(connection, 2))
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="full"):
            await store.accept([event("orders", body=b"x" * 100_000, event_id="e-1")])
        assert await all_rows(store) == before
    assert await claimed_ids(store) == [delivery.id]

    await store.transactions.write("test", lambda connection: limit_pages(connection, 1_000_000))
    assert (await store.accept([event("orders", body=b"x" * 100_000, event_id="e-1")])).accepted == 1


async def test_a_database_that_is_locked_at_the_start_is_unavailable(path: Path) -> None:
    """The error message names the file, and the operator's own lock is released."""
    await (await opened(path)).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as intruder:
        intruder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match=f"cannot open {re.escape(str(path))}: database is locked"):
            await opened(path, options="?timeout=0.1")

    await (await opened(path)).close()


async def test_a_long_transaction_does_not_hold_the_event_loop_up(store: Store, path: Path) -> None:
    """A short transaction blocks the event loop, but a slow one blocks it for 1 ms at most."""
    async with held(store, f"sqlite:///{path}"):
        waiting = asyncio.create_task(store.accept([event("orders")]))
        for _ in range(200):
            await asyncio.sleep(0.001)
        # The transaction continues only at the end of the block: a loop that waited for it would not get here.
        assert not waiting.done()
    await waiting


async def test_a_refused_accept_changes_nothing_for_the_next_one(path: Path) -> None:
    """After an accept of a connection was rolled back as a whole, the next one is committed."""
    first = event("orders")
    store = await opened(path)
    await store.accept([first])
    await store.close()

    store = await opened(path)
    with pytest.raises(StoreError, match="UNIQUE"):
        await store.accept([first])
    assert (await store.accept([event("orders")])).accepted == 1
    with pytest.raises(StoreError, match="UNIQUE"):
        await store.accept([first])
    assert (await store.accept([event("orders")])).accepted == 1
    assert await store.read(read.counts_of, "orders") == Counts(pending=3)
    await store.close()


async def test_a_lost_writer_thread_is_unavailable(path: Path) -> None:
    """Calls do not wait for a missing thread."""
    store = await opened(path)
    database = store.transactions.database
    assert isinstance(database, SqliteDatabase)
    database._writing.shutdown()

    with pytest.raises(StoreUnavailable, match="no thread available"):
        await store.ping()
    await store.close()


@pytest.mark.parametrize(("revision", "oldest"), [("r9999", "r9998"), ("0014", "0005")], ids=["newer", "development"])
async def test_a_schema_of_an_unknown_revision_is_refused(path: Path, revision: str, oldest: str) -> None:
    """The error names the file, the revision, and what to do."""
    await (await opened(path)).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", [revision])
        connection.execute("UPDATE compatibility SET oldest = ?", [oldest])

    text = f"schema of database {path} has revision {revision}, which this operator does not know.* recreate the"
    with pytest.raises(StoreError, match=text):
        await opened(path)


async def test_a_schema_of_the_future_that_still_serves_is_used_as_it_is(path: Path) -> None:
    """Old and new replicas can start side by side if the new schema is compatible with the old operator."""
    await (await opened(path)).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'r9999'")

    store = await opened(path)
    await accept_one(store)
    await store.close()


def test_the_newest_migration_is_the_one_that_opening_looks_for() -> None:
    """The constant that opening compares the schema's revision with is the newest migration's."""
    assert ScriptDirectory(str(Path(migrations.__file__).parent)).get_current_head() == migrations.HEAD


SCANNED = (
    "rows_json|uids_json|types_json|keys_json|made_json|moved_json|instances|counters|busy|gone_endpoints|due|stretch"
)
TABLE_SCAN = re.compile(rf"SCAN (?!{SCANNED})")

PLANS = {
    "claim": (claim.CLAIM, "deliveries_to_claim (endpoint_uid=? AND due_ms<?)"),
    "due too late": (claim.HASTEN, "deliveries_to_claim (endpoint_uid=? AND due_ms>?)"),
    "own": (claim.SET_OWNER, "deliveries USING PRIMARY KEY (id=?)"),
    "large bodies": (claim.BODIES, "events USING INDEX sqlite_autoindex_events_1 (id=?)"),
    "release": (claim.RELEASE, "deliveries USING PRIMARY KEY (id=?)"),
    "next_due": (read.NEXT_DUE, "deliveries_to_claim (endpoint_uid=?)"),
    "discard": (prune.DISCARD, "deliveries_to_claim (endpoint_uid=?)"),
    "settled before": (settle.STORED_ATTEMPTS, "attempts USING PRIMARY KEY (delivery_id=?)"),
    "settle": (settle.MOVE, "deliveries USING PRIMARY KEY (id=?)"),
    "lock": (settle.LOCK, "deliveries USING PRIMARY KEY (id=?)"),
    "attempts": (settle.INSERT_ATTEMPTS, "attempts USING PRIMARY KEY (delivery_id=?)"),
    "repetitions": (accept.REPETITIONS, "event_ids USING PRIMARY KEY"),
    "forget ids": (accept.FORGET, "event_ids USING PRIMARY KEY"),
    "due of a replay": (replay.DUE, "deliveries_to_claim (endpoint_uid=? AND due_ms<?)"),
    "next_due of endpoints": (read.NEXT_DUE_OF, "counters USING PRIMARY KEY (endpoint_uid=?)"),
    "pending of endpoints": (read.PENDING_OF, "counters USING PRIMARY KEY (endpoint_uid=?)"),
    "counts of endpoints": (read.SUMS_OF, "counters USING PRIMARY KEY (endpoint_uid=?)"),
    "next deleted endpoints": (prune.NEXT_GONE, "gone_endpoints USING PRIMARY KEY (endpoint_uid>?)"),
    "forget": (prune.FORGETTABLE, "deliveries_log (endpoint_uid=?)"),
    "prune delivered": (prune.OLD_DONE, "deliveries_done_by_age (ended_ms<?)"),
    "prune failed": (prune.OLD_FAILED, "deliveries_failed_by_age (ended_ms<?)"),
    "prune event ids": (prune.DROP_EVENT_IDS, "event_ids_by_age (accepted_ms<?)"),
    "prune unsent events": (prune.DROP_UNSENT, "events_without_deliveries (id<?)"),
    "statistics": (bucket_counts.BUCKETS, "statistics USING PRIMARY KEY (width_s=? AND begin_s=? AND endpoint_uid=?)"),
    "messages to take": (pull.TAKE, "deliveries_to_claim (endpoint_uid=? AND (due_ms,id)<(?,?))"),
    "last message to examine": (pull.LAST_EXAMINED, "INDEX deliveries_to_claim (endpoint_uid=? AND due_ms<?)"),
    "waiting messages": (pull.WAITING, "deliveries_to_claim (endpoint_uid=? AND due_ms<?)"),
    "messages that are not due": (pull.NOT_DUE, "deliveries_to_claim (endpoint_uid=? AND due_ms>?)"),
    "old statistics": (bucket_counts.DROP_OLD, "statistics USING PRIMARY KEY (width_s=? AND begin_s<?)"),
    "stretch of a replay": (replay_choice.SUCCESSES.stretch, "deliveries_log (endpoint_uid=? AND id>? AND id<?)"),
    "replay of types": (replay_choice.SUCCESSES.matching_types, "deliveries_log (endpoint_uid=? AND id>? AND id<?)"),
    "stretch of failures": (replay_choice.FAILURES.stretch, "deliveries_failed_log (endpoint_uid=? AND id>? AND id<?)"),
    "replay of failures": (replay_choice.FAILURES.matching, "deliveries_failed_log (endpoint_uid=? AND id>? AND id<?)"),
    "stretch of missed events": (replay_choice.MISSES.stretch, "sqlite_autoindex_events_1 (id>? AND id<?)"),
    "missed events": (replay_choice.MISSES.matching_types, "sqlite_autoindex_events_1 (id>? AND id<?)"),
    "sent events": (replay_choice.MISSES.matching_types, "deliveries_log (endpoint_uid=? AND id>? AND id<?)"),
    "log": (read.NEWEST[None], "deliveries_log (endpoint_uid=? AND id>? AND id<?)"),
    "failed log": (read.NEWEST[State.FAILED], "deliveries_failed_log (endpoint_uid=? AND id>? AND id<?)"),
    "stretch of the log": (read.STRETCH, "deliveries_log (endpoint_uid=? AND id>? AND id<?)"),
    "state in a stretch": (read.IN_STATE, "deliveries_log (endpoint_uid=? AND id>? AND id<?)"),
    "replays of an endpoint": (replay._LATEST, "replays_of_endpoint (endpoint_uid=?)"),
    "records of a page": (read._PAGE, "deliveries USING PRIMARY KEY (id=?)"),
    "old attempts": (settle.DROP_OLD_ATTEMPTS, "attempts USING PRIMARY KEY (delivery_id=?)"),
    "attempts of a page": (read.ATTEMPTS_OF_PAGE, "attempts USING PRIMARY KEY (delivery_id=? AND number>?)"),
    "attempts of a delivery": (read.ATTEMPTS_OF_ONE, "attempts USING PRIMARY KEY (delivery_id=? AND number>?)"),
}


PARTIAL = {
    "claim": (claim.CLAIM, "deliveries.state = 'pending'"),
    "due too late": (claim.HASTEN, "deliveries.state = 'pending'"),
    "next_due": (read.NEXT_DUE, "deliveries.state = 'pending'"),
    "replay of failures": (replay_choice.FAILURES.matching, "deliveries.state = 'failed'"),
    "failed log": (read.NEWEST[State.FAILED], "deliveries.state = 'failed'"),
    "prune unsent events": (prune.DROP_UNSENT, "events.deliveries = 0"),
}


@pytest.mark.parametrize(("statement", "condition"), PARTIAL.values(), ids=PARTIAL.keys())
def test_the_conditions_of_partial_indexes_are_constants(statement: ClauseElement, condition: str) -> None:
    """The conditions have no parameters, because SQLite would prepare the statement again at each execution."""
    assert condition in str(statement.compile(dialect=sqlite.dialect()))


async def plan_of(store: Store, statement: ClauseElement) -> list[str]:
    """Return the steps of SQLite's plan of a statement."""
    statement_text = statement.compile(
        dialect=sqlite.dialect(paramstyle="qmark"), compile_kwargs={"render_postcompile": True}
    )
    assert isinstance(statement_text, SQLCompiler)
    parameters = tuple(statement_text.params[name] or 1 for name in statement_text.positiontup or ())

    def explain(connection: Connection) -> list[str]:
        return [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement_text}", parameters)]

    return await store.transactions.read("test", explain)


SEARCHES = {
    "search of endpoints": (search.OF_ENDPOINTS, "deliveries USING PRIMARY KEY (id>? AND id<?)"),
    "deliveries of found events": (search.OF_EVENTS, "deliveries USING INDEX deliveries_by_event (event_id=?)"),
    "message id": (search.BY_MESSAGE_ID, "events USING INDEX events_by_message_id (message_id_digest=?)"),
    "event id": (search.BY_EVENT_ID, "events USING INDEX events_by_event_id (event_id_digest=?)"),
    "check of a search": (search.CHECK, "deliveries USING PRIMARY KEY (id=?)"),
}


@pytest.mark.parametrize(("statement", "uses"), SEARCHES.values(), ids=SEARCHES.keys())
async def test_searches_go_by_their_index(store: Store, statement: ClauseElement, uses: str) -> None:
    """No search reads all rows of a table."""
    plan = await plan_of(store, statement)

    assert any(uses in step for step in plan), plan
    assert not any(TABLE_SCAN.match(step) for step in plan), plan


@pytest.mark.parametrize(("statement", "uses"), PLANS.values(), ids=PLANS.keys())
async def test_queries_go_by_their_index(store: Store, statement: ClauseElement, uses: str) -> None:
    """No query reads rows that it does not need, and no query sorts rows that an index has in order."""
    plan = await plan_of(store, statement)

    assert any(uses in step for step in plan), plan
    assert not any(TABLE_SCAN.match(step) or "ORDER BY" in step for step in plan), plan
