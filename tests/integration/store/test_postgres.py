"""PostgreSQL only: its URL, migrations, and several replicas on one database."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from uuid import uuid4

import asyncpg
import pytest
from integration.store.conftest import Open
from sqlalchemy import Connection, TextClause, func, select, text
from support.polling import PATIENCE, until
from support.store_factories import (
    LEASE_MS,
    Clock,
    accept_one,
    claimed_ids,
    event,
    failures_of,
    ids,
    opened,
    settlement,
)

from hookwright_dev.cluster.postgres import PostgresServer
from hookwright_operator.store import postgres as postgres_module
from hookwright_operator.store.records import ClaimRequest, Counts, State
from hookwright_operator.store.schema import deliveries
from hookwright_operator.store.sql import read as read_sql
from hookwright_operator.store.store import CLAIM_ROOM, Store
from hookwright_runtime.errors import StoreError, StoreUnavailable


@pytest.fixture
def url(postgres_url: str) -> str:
    """Use PostgreSQL only."""
    return postgres_url


@pytest.fixture
def blank_url(postgres: PostgresServer) -> str:
    """Create a database without a schema."""
    return postgres.new_database(f"blank-{uuid4().hex[:8]}")


# ------------------------------------------------------------------------------------------ opening


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://hookwright:hush@127.0.0.1:nonsense/x", "cannot be read"),
        ("postgresql+psycopg://hookwright:hush@127.0.0.1/x", "no store for a postgresql+psycopg database"),
        ("postgresql://hookwright:hush@127.0.0.1:{port}/none", "cannot open the database at 127.0.0.1:{port}/none: "),
        ("postgresql://hookwright:hush@127.0.0.1:{port}/none", 'database "none" does not exist'),
        ("postgresql://nobody:hush@127.0.0.1:{port}/contract", 'role "nobody" does not exist'),
        ("postgresql://hookwright:hush@127.0.0.1:{port}/contract?sslmode=off", "`sslmode` parameter must be one of"),
        ("postgresql://hookwright:hu/sh@127.0.0.1:{port}/contract", "special characters of user and password"),
        ("postgresql://hookwright:hush@127.0.0.1:{port},127.0.0.1:1/none", 'database "none" does not exist'),
        ("postgresql://hookwright:hush@127.0.0.1:{port}/contract?sslmode=require", "cannot open the database"),
        ("postgresql://hookwright:hush@127.0.0.1:1/contract", "cannot open the database at 127.0.0.1:1/contract: "),
    ],
)
async def test_a_url_that_leads_nowhere_is_refused_without_its_password(
    url: str, says: str, postgres: PostgresServer
) -> None:
    """The error message names the fault of the setting."""
    with pytest.raises(StoreError, match=re.escape(says.format(port=postgres.port))) as error:
        await opened(url.format(port=postgres.port))

    assert "hush" not in str(error.value)
    assert error.value.__suppress_context__ or error.value.__context__ is None


async def test_both_spellings_of_the_url_are_taken(url: str) -> None:
    """The URL may name the driver."""
    for spelling in (url, url.replace("postgresql://", "postgresql+asyncpg://")):
        await (await opened(spelling)).close()


async def test_replicas_that_start_together_migrate_once(blank_url: str) -> None:
    """One replica creates the schema, the others wait for it, and all can use it."""
    stores = await asyncio.gather(*[opened(blank_url) for _ in range(4)])

    assert sorted(store.transactions.slot for store in stores) == [0, 1, 2, 3]
    for store in stores:
        await store.ping()
        await store.close()


async def test_an_old_replica_starts_beside_a_new_one(blank_url: str) -> None:
    """A schema of a later revision is used if it is compatible with this operator, and refused otherwise."""
    store = await opened(blank_url)
    await store.transactions.write(
        "test", lambda c: c.execute(text("UPDATE alembic_version SET version_num = 'r9999'")) and None
    )

    await (await opened(blank_url)).close()

    await store.transactions.write(
        "test", lambda c: c.execute(text("UPDATE compatibility SET oldest = 'r9998'")) and None
    )
    await store.close()
    with pytest.raises(StoreError, match="revision r9999, which this operator does not know"):
        await opened(blank_url)


def _execute(connection: Connection, statement: TextClause) -> None:
    connection.execute(statement)


async def test_a_database_of_a_development_version_is_refused(blank_url: str) -> None:
    """Its revision is not taken for a newer one, although its operators could share a database."""
    store = await opened(blank_url)
    for table, column, revision in (("alembic_version", "version_num", "0014"), ("compatibility", "oldest", "0001")):
        change = text(f"UPDATE {table} SET {column} = '{revision}'")  # noqa: S608 - only constants
        await store.transactions.write("test", partial(_execute, statement=change))
    await store.close()

    message = f"database {blank_url.rpartition('/')[2]} has revision 0014, which this operator does not know"
    with pytest.raises(StoreError, match=message):
        await opened(blank_url)


async def test_a_commit_is_on_the_disk_before_it_is_answered(url: str) -> None:
    """A commit is on the disk, whatever the server's default is; the default of this server is off."""
    store = await opened(url)

    assert await store.transactions.write("test", lambda c: c.scalar(text("SHOW synchronous_commit"))) == "on"

    await store.close()


# ------------------------------------------------------------------------------------------ beside one another


async def test_living_instances_have_counters_of_their_own(open_store: Open, clock: Clock) -> None:
    """The slot of a replica with an expired claim lease is used again, and its counts stay."""
    first, second = await open_store(), await open_store()
    for store in (first, second):
        await accept_one(store)
    clock.advance(LEASE_MS - 1)
    await second.heartbeat()
    clock.advance(1)
    third = await open_store()
    await accept_one(third)

    assert [store.transactions.slot for store in (first, second, third)] == [0, 1, 0]
    assert await third.read(read_sql.counts_of, "orders") == Counts(pending=3)


@asynccontextmanager
async def lock_held(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Keep the lock that `wait_for_the_lock` waits for; stores opened later wait for it as long as a test runs."""
    for limit in ("lock_timeout", "statement_timeout"):
        monkeypatch.setitem(postgres_module.LIMITS, limit, f"{PATIENCE:g}s")
    holder = await asyncpg.connect(url)
    await holder.execute("SELECT pg_advisory_lock(7)")
    try:
        yield
    finally:
        await holder.close()


def wait_for_the_lock(connection: Connection) -> None:
    """Keep a transaction open until the lock is released."""
    connection.execute(select(func.pg_advisory_xact_lock(7)))


async def test_a_transaction_waits_for_no_other_instance(
    open_store: Open, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """During a transaction of one replica for an endpoint, another replica accepts, claims and settles for it."""
    async with lock_held(url, monkeypatch):
        first, second = await open_store(), await open_store()
        waiting = await accept_one(first)
        hold = asyncio.Event()

        def accept_and_hold(connection: Connection) -> None:
            first._accept_all(connection, [[event("orders", claimed=True)]])
            asyncio.get_running_loop().call_soon(hold.set)
            wait_for_the_lock(connection)

        slow = first.transactions.write("slow", accept_and_hold)
        await hold.wait()
        await second.accept([event("orders")])
        claims = await second.claim([("orders", 1)])
        await second.settle([settlement(claims[0], State.DELIVERED)])

        assert not slow.done()
        assert claims[0].id == waiting.id
    await slow
    assert (await second.read(read_sql.counts_of, "orders")).pending == 2


async def test_a_claim_passes_by_what_another_transaction_is_taking(
    open_store: Open, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other claim takes the next deliveries and does not wait."""
    async with lock_held(url, monkeypatch):
        first, second = await open_store(), await open_store()
        new = event(*["orders"] * 4)
        await first.accept([new])
        hold = asyncio.Event()

        def claim_and_hold(connection: Connection) -> list[str]:
            [claims] = first._claim_all(connection, [ClaimRequest([("orders", 2)], CLAIM_ROOM)])
            asyncio.get_running_loop().call_soon(hold.set)
            wait_for_the_lock(connection)
            return [delivery.id for delivery in claims or ()]

        slow = first.transactions.write("slow", claim_and_hold)
        await hold.wait()
        claim_ids = await claimed_ids(second)

        assert not slow.done()
    assert [*await slow, *claim_ids] == ids([new])


async def test_a_page_of_the_log_leaves_out_what_changes_while_it_is_read(
    postgres: PostgresServer, open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page skips deliveries that were removed or left the state meanwhile; the next page starts as planned."""
    store = await open_store()
    new = event(*["orders"] * 5)
    await store.accept([new])
    newest = ids([new])[::-1]
    changes = (
        f"DELETE FROM deliveries WHERE id = '{newest[2]}'",  # noqa: S608 - only test ids
        f"UPDATE deliveries SET state = 'failed' WHERE id = '{newest[0]}'",  # noqa: S608
    )
    read: Callable[..., object] = read_sql.newest

    def changed(*asked: object, **how: object) -> object:
        matches = read(*asked, **how)
        with ThreadPoolExecutor(1) as elsewhere:
            elsewhere.submit(postgres.execute, *changes, database="contract").result()
        return matches

    with monkeypatch.context() as patch:
        patch.setattr(read_sql, "newest", changed)
        page, cursor = await store.read_log(read_sql.log, "orders", state=State.PENDING, limit=3)
    rest, end = await store.read_log(read_sql.log, "orders", state=State.PENDING, limit=3, cursor=cursor)

    assert [record.id for record in page] == [newest[1]]
    assert [record.id for record in rest] == newest[3:]
    assert end is None


async def test_instances_that_do_everything_at_once_keep_the_counters_right(open_store: Open, clock: Clock) -> None:
    """The counters are correct after every kind of write has run concurrently on the same endpoints."""
    stores = [await open_store() for _ in range(3)]
    uids = ["orders", "audit"]
    rounds = iter(range(60))
    delivering = 9

    async def deliver(store: Store, number: int) -> None:
        nonlocal delivering
        for _ in rounds:
            await store.accept([event(*uids, *uids, claimed=False, event_id=f"e-{number % 7}"), event(*uids)])
            claims = await store.claim([(uid, 5) for uid in uids])
            outcomes = [State.DELIVERED, State.FAILED, State.PENDING]
            await store.settle(
                [settlement(delivery, outcomes[n % 3], due_ms=clock.now) for n, delivery in enumerate(claims)]
            )
            if claims:
                await store.retry(claims[0].id)
            number += 1
        delivering -= 1

    async def disturb(store: Store) -> None:
        number = 0
        while delivering:
            number += 1
            await store.discard("audit", "endpoint deleted")
            job = await store.chosen_replays.begin(f"rec_{store.instance}_{number}", failures_of("orders"))
            await store.chosen_replays.advance(job.id, limit=100)
            await store.prune(delivered_before_ms=0, failed_before_ms=0, limit=50)

    work = [deliver(store, n) for n, store in enumerate(stores) for _ in range(3)]
    await asyncio.gather(*work, *[disturb(store) for store in stores[:2]])

    def rows(connection: Connection) -> Counter[tuple[str, str]]:
        result = connection.execute(select(deliveries.c.endpoint_uid, deliveries.c.state))
        return Counter((uid, state) for uid, state in result)

    answer, result = await stores[0].read(read_sql.counts), await stores[0].transactions.read("test", rows)
    assert result.total() > 100
    for uid in uids:
        assert {state: getattr(answer[uid], state) for state in State} == {state: result[uid, state] for state in State}


async def test_a_deadlock_is_broken_and_nobody_notices(open_store: Open, url: str) -> None:
    """The transaction that PostgreSQL aborted runs again."""
    store = await open_store()
    new = event("orders", "orders", claimed=True)
    await store.accept([new])
    first, second = sorted(ids([new]))
    intruder = await asyncpg.connect(url, server_settings={"deadlock_timeout": "20s"})
    lock = "SELECT 1 FROM deliveries WHERE id = $1 FOR UPDATE"
    async with intruder.transaction():
        await intruder.execute(lock, second)
        settling = asyncio.create_task(
            store.settle([settlement(delivery, State.DELIVERED) for delivery in new.deliveries])
        )
        await until(lambda: waits_for_a_lock(url))
        await intruder.execute(lock, first)
    await intruder.close()
    await settling

    assert (await store.read(read_sql.counts_of, "orders")).delivered == 2
    record = await store.read_log(read_sql.delivery, first)
    assert record is not None
    assert len(record.attempts) == 1


async def test_results_of_one_delivery_at_the_same_time_get_two_numbers(
    open_store: Open, neighbour: Store, clock: Clock, url: str
) -> None:
    """A late result of the replica that lost the claim is recorded while the new owner settles the delivery."""
    store = await open_store()
    delivery = await accept_one(neighbour, claimed=True)
    clock.advance(LEASE_MS)
    assert await claimed_ids(store) == [delivery.id]
    late = await asyncpg.connect(url)
    async with late.transaction():
        await late.execute("SELECT 1 FROM deliveries WHERE id = $1 FOR NO KEY UPDATE", delivery.id)
        await late.execute("INSERT INTO attempts VALUES ($1, 1, 0, 5, 500, '', '')", delivery.id)
        settling = asyncio.create_task(store.settle([settlement(delivery, State.DELIVERED)]))
        await until(lambda: waits_for_a_lock(url))
    await late.close()
    await settling

    record = await store.read_log(read_sql.delivery, delivery.id)
    assert record is not None
    assert record.state is State.DELIVERED
    assert [(attempt.number, attempt.status_code) for attempt in record.attempts] == [(1, 500), (2, 200)]
    assert (await store.read(read_sql.counts_of, "orders")).delivered == 1


async def waits_for_a_lock(url: str) -> bool:
    """Return whether a transaction waits for another one."""
    connection = await asyncpg.connect(url)
    try:
        return bool(await connection.fetchval("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
    finally:
        await connection.close()


async def test_a_lock_that_somebody_holds_too_long_is_unavailable_and_passes(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls fail and do not hang during a long lock, and reads work."""
    monkeypatch.setitem(postgres_module.LIMITS, "lock_timeout", "100ms")
    store = await opened(url)
    delivery = await accept_one(store, claimed=True)
    intruder = await asyncpg.connect(url)
    async with intruder.transaction():
        await intruder.execute("SELECT 1 FROM deliveries FOR UPDATE")
        with pytest.raises(StoreUnavailable, match="lock timeout"):
            await store.settle([settlement(delivery, State.DELIVERED)])
        assert await store.read(read_sql.counts_of, "orders") == Counts(pending=1)
    await intruder.close()

    await store.settle([settlement(delivery, State.DELIVERED)])
    assert (await store.read(read_sql.counts_of, "orders")).delivered == 1
    await store.close()
