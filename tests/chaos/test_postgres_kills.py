"""Two replicas on one PostgreSQL database, and one of them dies at any moment: nothing is lost, little repeated."""

import asyncio
import random
from collections.abc import Callable

import pytest
from chaos.conftest import LEASE_SECONDS, on_postgres
from chaos.site import MAX_IN_FLIGHT, UNSETTLED, Crowd, Site, arrived
from patience import PATIENCE

Record = Callable[[str, object], None]


@pytest.fixture
async def site(site: Site, postgres_url: str) -> Site:
    """Two replicas, with endpoints whose receivers measure how many requests they have at once."""
    on_postgres(site, postgres_url)
    site.replica("replica-1", HOOKWRIGHT_INSTANCE="replica-1")
    await site.endpoints()
    for receiver in site.receivers.values():
        receiver.answer = Crowd(0.01)
    return site


def most_at_once(site: Site) -> int:
    """How many requests an endpoint had at once at most."""
    return max(one.answer.peak for one in site.receivers.values() if isinstance(one.answer, Crowd))


async def test_sigkill_of_either_replica_at_any_moment_loses_nothing(
    site: Site,
    long: bool,  # noqa: FBT001
    record_property: Record,
) -> None:
    """Restarted in place under its name it goes on at once; repeated is at most what had no stored result."""
    kills = 20 if long else 3
    chance = random.Random()
    await site.start()
    async with site.load():
        for _ in range(kills):
            await asyncio.sleep(chance.uniform(0.05, 1.0))
            victim = chance.choice(site.replicas)
            victim.kill()
            await asyncio.to_thread(victim.start)
        await site.more_accepted(100)
    await site.all_arrived()
    record_property("at most", site.silence())
    await asyncio.to_thread(site.check_requests)
    repeated = site.duplicates()
    record_property("events", len(site.ledger.accepted))
    record_property("repeated", repeated)
    assert all(many <= UNSETTLED * kills for many in repeated.values()), repeated
    assert most_at_once(site) <= MAX_IN_FLIGHT
    assert len(site.ledger.accepted) >= 20 * kills


async def test_what_a_replica_had_that_never_comes_back_is_taken_over_when_its_lease_ends(
    site: Site,
    long: bool,  # noqa: FBT001
    record_property: Record,
) -> None:
    """The other goes on with its own at once, and with all of it after the lease; short: at once, by the name."""
    await site.start()
    async with site.load(rate=100):
        await site.more_accepted(100)
        site.operator.kill()
        if not long:
            # A new process of that name, somewhere else: nobody waits for the lease.
            await asyncio.to_thread(site.replica("elsewhere", HOOKWRIGHT_INSTANCE="replica-0").start)
        await site.more_accepted(100)
    await site.all_arrived(within=LEASE_SECONDS + 30 if long else PATIENCE)
    record_property("at most", site.silence())
    await asyncio.to_thread(site.check_requests)
    repeated = site.duplicates()
    assert all(many <= UNSETTLED for many in repeated.values()), repeated
    assert most_at_once(site) <= MAX_IN_FLIGHT


async def test_sigterm_of_a_replica_hands_its_endpoints_over_at_once(site: Site, record_property: Record) -> None:
    """What it had in flight ends, the rest goes to the other without a wait for the lease; nothing is repeated."""
    await site.start()
    async with site.load(rate=100):
        await site.more_accepted(100)
        assert await asyncio.to_thread(site.operator.stop) == 0
        await site.more_accepted(100)
    await site.all_arrived()
    record_property("at most", site.silence())
    await asyncio.to_thread(site.check_requests)
    assert set(site.duplicates().values()) == {0}
    assert {event for one in site.receivers.values() for event in arrived(one)} == set(site.ledger.accepted)
    assert most_at_once(site) <= MAX_IN_FLIGHT
