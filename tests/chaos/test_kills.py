"""No event that was answered 202 is lost if the operator is killed or stopped under load at any moment."""

import asyncio
import random
import sqlite3
import time
from contextlib import closing
from functools import partial

import pytest
from chaos.site import UNSETTLED, Site, arrived
from support.polling import until

from hookwright_dev.receiver import Received


async def test_sigkill_at_any_moment_loses_nothing_and_repeats_at_most_what_was_in_flight(
    site: Site,
    long: bool,  # noqa: FBT001
) -> None:
    """Every event answered 202 arrives, signed and with one id; only attempts without a stored result repeat."""
    kills = 50 if long else 2
    moments = random.Random()
    await site.endpoints()
    await site.start()
    async with site.load():
        for _ in range(kills):
            await asyncio.sleep(moments.uniform(0.05, 1.0))
            site.operator.kill()
            await site.restart()
        await until(lambda: len(site.ledger.accepted) >= 20 * kills)
    await site.all_arrived()
    site.check_requests()
    duplicates = site.duplicates()
    assert all(many <= UNSETTLED * kills for many in duplicates.values()), duplicates


@pytest.mark.slow
async def test_sigterm_under_load_cuts_no_attempt_short_and_loses_no_202(
    site: Site,
    long: bool,  # noqa: FBT001
) -> None:
    """Attempts in flight finish and are recorded before the process exits with 0; no attempt is repeated afterwards."""

    async def slowly(_: Received) -> int:
        await asyncio.sleep(0.3)
        return 200

    await site.endpoints()
    for receiver in site.receivers.values():
        receiver.answer = slowly
    await site.start()
    async with site.load(rate=100):
        for _ in range(10 if long else 1):
            had = arrivals(site)
            await until(partial(have_come, site, had + 20))
            began = time.monotonic()
            assert await asyncio.to_thread(site.operator.stop) == 0
            assert time.monotonic() - began < 20
            requests = {(request.id, name) for name, one in site.receivers.items() for request in one.received}
            assert recorded(site) == len(requests), "an attempt that reached its receiver is not recorded as delivered"
            await site.restart()
    await site.all_arrived()
    site.check_requests()
    assert set(site.duplicates().values()) == {0}


def arrivals(site: Site) -> int:
    """Return how many requests have arrived."""
    return sum(len(receiver.received) for receiver in site.receivers.values())


def have_come(site: Site, many: int) -> bool:
    """Return whether this many requests have arrived."""
    return arrivals(site) >= many


def recorded(site: Site) -> int:
    """Return how many deliveries the store has as delivered; no process may have the store open."""
    with closing(sqlite3.connect(site.operator.folder / "hookwright.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        (many,) = database.execute("SELECT count(*) FROM deliveries WHERE state = 'delivered'").fetchone()
        return int(many)


@pytest.mark.slow
async def test_pending_deliveries_and_counts_survive_a_kill(site: Site) -> None:
    """Deliveries that failed before the kill are retried on schedule, and the log still has the first attempts."""
    # The schedule must last longer than the restart.
    site.operator.settings = {**site.operator.settings, "HOOKWRIGHT_RETRY_SCHEDULE": "2s,4s,6s,8s,10s,12s"}
    receiver = await site.endpoint("endpoint-0", "delivered")
    receiver.answer = lambda _: 500
    await site.start()
    events = {await site.post() for _ in range(5)}
    await receiver.wait_for(5)
    site.operator.kill()
    before = len(receiver.received)
    receiver.answer = lambda _: 200
    await site.restart()
    await until(lambda: len(receiver.received) >= before + 5)
    assert arrived(receiver) == events
    await asyncio.to_thread(site.operator.stop)
    assert recorded(site) == 5
