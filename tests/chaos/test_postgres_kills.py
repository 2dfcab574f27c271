"""No event is lost and few are repeated if one of two replicas on a PostgreSQL database is killed at any moment."""

import asyncio
import random
from collections.abc import Callable

import pytest
from chaos.conftest import LEASE_SECONDS, on_postgres
from chaos.site import MAX_IN_FLIGHT, UNSETTLED, Crowd, Site, arrived

pytestmark = pytest.mark.slow

SHORT_LEASE_SECONDS = 4
"""Long enough that a replica on a busy machine renews it in time, at each sixth of it."""
Record = Callable[[str, object], None]


@pytest.fixture
async def site(site: Site, postgres_url: str) -> Site:
    """Return a site with two replicas, whose receivers measure how many requests they have at once."""
    on_postgres(site, postgres_url)
    site.replica("replica-1", HOOKWRIGHT_INSTANCE="replica-1")
    await site.endpoints()
    for receiver in site.receivers.values():
        receiver.answer = Crowd(0.01)
    return site


def most_at_once(site: Site) -> int:
    """Return the highest number of concurrent requests of an endpoint."""
    return max(receiver.answer.peak for receiver in site.receivers.values() if isinstance(receiver.answer, Crowd))


async def test_sigkill_of_either_replica_at_any_moment_loses_nothing(
    site: Site,
    long: bool,  # noqa: FBT001
    record_property: Record,
) -> None:
    """A replica restarted under its name continues at once; only attempts without a stored result are repeated."""
    kills = 20 if long else 2
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
    repetitions = site.duplicates()
    record_property("events", len(site.ledger.accepted))
    record_property("repeated", repetitions)
    assert all(many <= UNSETTLED * kills for many in repetitions.values()), repetitions
    assert most_at_once(site) <= MAX_IN_FLIGHT
    assert len(site.ledger.accepted) >= 20 * kills


async def test_what_a_replica_had_that_never_comes_back_is_taken_over_when_its_lease_ends(
    site: Site,
    long: bool,  # noqa: FBT001
    record_property: Record,
) -> None:
    """The other replica sends all deliveries after the claim lease expires."""
    lease = LEASE_SECONDS if long else SHORT_LEASE_SECONDS
    for replica in site.replicas:
        replica.settings = {**replica.settings, "HOOKWRIGHT_LEASE": str(lease), "HOOKWRIGHT_MAX_TIMEOUT": "2"}
    await site.start()
    async with site.load(rate=100):
        await site.more_accepted(100)
        site.operator.kill()
        await site.more_accepted(100)
    await site.all_arrived(within=lease + 30)
    record_property("at most", site.silence())
    await asyncio.to_thread(site.check_requests)
    repetitions = site.duplicates()
    assert all(many <= UNSETTLED for many in repetitions.values()), repetitions
    assert most_at_once(site) <= MAX_IN_FLIGHT


@pytest.mark.slow
async def test_sigterm_of_a_replica_hands_its_endpoints_over_at_once(site: Site, record_property: Record) -> None:
    """Attempts in flight finish, and the other replica gets the rest at once; no attempt is repeated."""
    await site.start()
    async with site.load(rate=100):
        await site.more_accepted(100)
        assert await asyncio.to_thread(site.operator.stop) == 0
        await site.more_accepted(100)
    await site.all_arrived()
    record_property("at most", site.silence())
    await asyncio.to_thread(site.check_requests)
    assert set(site.duplicates().values()) == {0}
    assert {event for receiver in site.receivers.values() for event in arrived(receiver)} == set(site.ledger.accepted)
    assert most_at_once(site) <= MAX_IN_FLIGHT
