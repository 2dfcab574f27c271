"""If the network to PostgreSQL resets, slows down or fails, no event is lost and no two replicas send it."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from chaos.conftest import LEASE_SECONDS, on_postgres
from chaos.neighbour import Neighbour, neighbour
from chaos.site import MAX_IN_FLIGHT, UNSETTLED, Crowd, Site
from support.polling import until
from support.tcp_proxy import Cut, Proxy, proxied

from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.cluster.postgres import PostgresServer

pytestmark = pytest.mark.slow

Record = Callable[[str, object], None]


@pytest.fixture
async def line(site: Site, postgres_url: str) -> AsyncIterator[Proxy]:
    """Start a proxy between the operator and the database."""
    async with proxied(postgres_url) as (line, url):
        on_postgres(site, url)
        yield line
        await site.close()


async def test_connections_reset_amid_statements_and_commits_lose_and_repeat_nothing(
    site: Site,
    line: Proxy,
    long: bool,  # noqa: FBT001
    record_property: Record,
) -> None:
    """Any number of resets, before and after the server's commit, loses and repeats no event."""
    times = 100 if long else 8
    moments = random.Random()
    await site.endpoints()
    await site.start()
    async with site.load():
        for number in range(times):
            await asyncio.sleep(moments.uniform(0.02, 0.3))
            if number % 4 == 0:
                line.reset()
                continue
            line.cut = Cut.BEFORE if number % 4 == 1 else Cut.AFTER
            await until(lambda: line.cut is None)
        await site.more_accepted(50)
    await site.arrived_once()
    assert line.cuts == times - times // 4
    record_property("at most", f"{site.silence()}; refused {dict(site.ledger.refusals)}")


@pytest.mark.slow
async def test_a_database_that_is_50_ms_away_costs_latency_and_nothing_else(
    site: Site,
    line: Proxy,
    long: bool,  # noqa: FBT001
    record_property: Record,
) -> None:
    """At the same load with jitter, transactions take longer and contain more calls."""
    jitter = random.Random()
    await site.endpoints()
    await site.start()
    line.delay = lambda: jitter.uniform(0.02, 0.03)
    began = time.monotonic()
    async with site.load(producers=32):
        await site.more_accepted(1000 if long else 80)
        taken = time.monotonic() - began
    await site.arrived_once()
    assert not site.ledger.refusals
    record_property("accepted", f"{len(site.ledger.accepted) / taken:.0f} events a second")


@pytest.fixture
def apart() -> Iterator[Neighbour]:
    """Create a separate host for a replica."""
    with neighbour() as host:
        yield host


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["database", "database and API server"])
async def test_a_replica_that_loses_the_database_and_still_reaches_receivers_stays_the_only_one(
    *,
    site: Site,
    control_plane: Cluster,
    postgres: PostgresServer,
    postgres_url: str,
    apart: Neighbour,
    lost: str,
    long: bool,
    record_property: Record,
) -> None:
    """A replica that is cut off past its claim lease, and the other one, never exceed maxInFlight together."""
    on_postgres(site, postgres_url)
    site.patience = 2.0  # the replica without the database does not answer
    await site.endpoints()
    crowds = [Crowd(0.02) for _ in site.receivers]
    for receiver, crowd in zip(site.receivers.values(), crowds, strict=True):
        receiver.answer = crowd
    cut_off = site.replica("replica-1", HOOKWRIGHT_INSTANCE="replica-1")
    cut_off.host, cut_off.command = apart.address, apart.command
    api_server = int(control_plane.server.rpartition(":")[2])
    lost_ports = [postgres.port, api_server] if "API" in lost else [postgres.port]
    async with apart.reaching(postgres.port, api_server, *[one.port for one in site.receivers.values()]):
        await site.start()
        async with site.load(rate=50):
            await site.more_accepted(100)
            # Attempts take long now, so that concurrent attempts of both replicas would be visible.
            for crowd in crowds:
                crowd.seconds = 5.0 if long else 1.0
            await until(lambda: sum(crowd.now for crowd in crowds) >= MAX_IN_FLIGHT)
            apart.lose(*lost_ports)
            await asyncio.sleep(LEASE_SECONDS + 15 if long else 5)  # it is down
            apart.find()
            for crowd in crowds:
                crowd.seconds = 0.02
            await site.more_accepted(100)
        await site.all_arrived(within=90)
        record_property("at most", site.silence())
        await asyncio.to_thread(site.check_requests)
        await site.close()
    assert max(crowd.peak for crowd in crowds) <= MAX_IN_FLIGHT
    repetitions = site.duplicates()
    record_property("repeated", repetitions)
    # Within its claim lease the replica stores its results; after it, the other replica repeats attempts without a
    # result.
    assert all(many <= (UNSETTLED if long else 0) for many in repetitions.values()), repetitions
