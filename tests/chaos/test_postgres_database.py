"""A restart, failover, stall or lock of the PostgreSQL server causes seconds of 503 and loses no event."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import asyncpg
import pytest
from chaos.conftest import LEASE_SECONDS, on_postgres
from chaos.site import UNSETTLED, Site
from support.tcp_proxy import proxied

from hookwright_dev.cluster.postgres import PostgresServer

Record = Callable[[str, object], None]


@pytest.fixture
def site(site: Site, postgres_url: str) -> Site:
    """Configure an operator to use PostgreSQL."""
    return on_postgres(site, postgres_url)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fast", "immediate"])
async def test_a_restart_of_the_database_costs_seconds_and_no_event(
    site: Site,
    postgres: PostgresServer,
    how: str,
    long: bool,  # noqa: FBT001
    record_property: Record,
) -> None:
    """Intake answers 503 during the restart, then both replicas continue without repeated deliveries.

    The long form restarts for longer than the claim leases.
    """
    site.replica("replica-1", HOOKWRIGHT_INSTANCE="replica-1")
    await site.endpoints()
    await site.start()
    processes = [one.running for one in site.replicas]
    async with site.load(rate=100):
        for countdown in reversed(range(10 if long else 1)):
            await site.more_accepted(50)
            end = time.monotonic()
            await asyncio.to_thread(postgres.stop, immediate=how == "immediate")
            await site.refused(3)
            if long and not countdown:
                await asyncio.sleep(LEASE_SECONDS + 5)  # it stays down
            await asyncio.to_thread(postgres.start)
            up = time.monotonic()
            await site.more_accepted(1)
            record_property("away", f"{up - end:.1f} s, then {time.monotonic() - up:.1f} s until the next 202")
            await site.more_accepted(20)
    # The first living replica takes over the other's deliveries, whose results could not be stored.
    await site.arrived_once(repeated=UNSETTLED if long else 0)
    record_property("at most", site.silence())
    assert all(process.running for process in processes)


@pytest.mark.slow
async def test_a_failover_to_a_synchronous_standby_loses_nothing_that_was_answered(
    site: Site,
    postgres: PostgresServer,
    long: bool,  # noqa: FBT001
    record_property: Record,
) -> None:
    """The URL names both servers; after the standby's promotion, both replicas use it without help."""
    primary, standby = postgres, await asyncio.to_thread(postgres.standby, "one")
    try:
        await asyncio.to_thread(primary.commit_with, "one")
        on_postgres(site, primary.url("hookwright", standby))
        site.replica("replica-1", HOOKWRIGHT_INSTANCE="replica-1")
        await site.endpoints()
        await site.start()
        async with site.load(rate=100):
            for number in range(6 if long else 1):
                await site.more_accepted(50)
                kill_time = time.monotonic()
                primary.kill()
                await site.refused(1)
                began = time.monotonic()
                await asyncio.to_thread(standby.promote)
                end = time.monotonic()
                await site.more_accepted(1)
                record_property(
                    "failover",
                    f"{began - kill_time:.1f} s until it began, {end - began:.1f} s to promote,"
                    f" {time.monotonic() - end:.1f} s until the next 202",
                )
                await asyncio.to_thread(primary.remove)
                primary, standby = standby, primary
                if long:
                    name = f"again-{number}"
                    standby = await asyncio.to_thread(primary.standby, name, port=standby.port)
                    await asyncio.to_thread(primary.commit_with, name)
            await site.more_accepted(20)
        await site.arrived_once()
        record_property("at most", site.silence())
    finally:
        await asyncio.to_thread(primary.remove)
        await asyncio.to_thread(standby.remove)


@pytest.mark.slow
async def test_nothing_is_answered_202_that_the_synchronous_standby_does_not_have(
    site: Site,
    postgres: PostgresServer,
    long: bool,  # noqa: FBT001
) -> None:
    """A commit that waits for its standby gives 503; no event is lost if the primary dies then."""
    async with proxied(postgres.url()) as (line, line_url):
        through = int(line_url.rpartition(":")[2].partition("/")[0])
        standby = await asyncio.to_thread(postgres.standby, "one", through=through)
        try:
            await asyncio.to_thread(postgres.commit_with, "one")
            on_postgres(site, postgres.url("hookwright", standby))
            site.patience = 30
            await site.endpoints()
            await site.start()
            async with site.load(rate=100):
                await site.more_accepted(50)
                line.flowing.clear()
                await site.refused(1)
                count_before = len(site.ledger.accepted)
                # Time for all timeouts: statements at the server, commits here.
                await asyncio.sleep(60 if long else 1)
                assert len(site.ledger.accepted) == count_before
                postgres.kill()
                line.close()
                await asyncio.to_thread(standby.promote)
                await site.more_accepted(20)
            await site.arrived_once()
        finally:
            await asyncio.to_thread(standby.remove)


@pytest.mark.slow
async def test_a_table_that_somebody_has_locked_is_a_503_and_passes(
    site: Site,
    postgres_url: str,
    long: bool,  # noqa: FBT001
) -> None:
    """No event is lost or sent twice, even if the lock lasts longer than the claim lease."""
    await site.endpoints()
    await site.start()
    async with site.load(rate=100):
        await site.more_accepted(50)
        async with locked(postgres_url):
            await site.refused(1)
            count_before = len(site.ledger.accepted)
            await asyncio.sleep(LEASE_SECONDS + 10 if long else 0)  # the lock continues
            assert len(site.ledger.accepted) == count_before
        await site.more_accepted(20)
    await site.arrived_once()


@pytest.mark.slow
async def test_a_slow_disk_of_the_database_costs_time_alone(
    site: Site,
    postgres: PostgresServer,
    long: bool,  # noqa: FBT001
) -> None:
    """Commits that take 100 ms each are shared by more calls, and every event is delivered once."""
    await asyncio.to_thread(
        postgres.execute,
        "ALTER SYSTEM SET fsync = on",
        "ALTER SYSTEM SET commit_siblings = 0",
        "ALTER SYSTEM SET commit_delay = 100000",
        "SELECT pg_reload_conf()",
    )
    await site.endpoints()
    await site.start()
    async with site.load(producers=16, rate=100):
        await site.more_accepted(2000 if long else 100, within=90)
    await site.arrived_once()
    assert not site.ledger.refusals


@asynccontextmanager
async def locked(url: str) -> AsyncIterator[None]:
    """Lock the table of deliveries from another session while the block runs, as a careless migration does."""
    connection = await asyncpg.connect(url)
    async with connection.transaction():
        await connection.execute("LOCK TABLE deliveries IN ACCESS EXCLUSIVE MODE")
        yield
    await connection.close()
