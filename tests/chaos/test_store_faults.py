"""If the store is full, locked or down, intake answers 503, the data stay intact, and operation resumes by itself."""

import asyncio
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from chaos.site import Site
from support.dispatcher import Busy, Engine, Jumping, Plan, locked, open_store, subscriber
from support.polling import until

from hookwright_dev.receiver import Receiver
from hookwright_runtime.errors import StoreUnavailable


@contextmanager
def full_disk(pid: int, database: Path) -> Iterator[None]:
    """Limit the file size of a process to the current size of its database's log, as a full disk does."""
    size = max(path.stat().st_size for path in database.parent.glob(f"{database.name}*"))
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def intact(database: Path) -> bool:
    """Return whether SQLite's integrity check finds no fault."""
    with closing(sqlite3.connect(database)) as connection:
        return bool(connection.execute("PRAGMA integrity_check").fetchone() == ("ok",))


@pytest.mark.slow
async def test_a_full_disk_is_a_503_and_everything_recovers_when_there_is_space(site: Site) -> None:
    """No event answered 202 is lost or sent twice, the file stays intact, and no restart is needed."""
    await site.endpoints()
    await site.start()
    await site.post()
    database = site.operator.folder / "hookwright.db"
    async with site.load(rate=50):
        with full_disk(site.operator.running.pid, database):
            await site.refused(20)
            count_before = len(site.ledger.accepted)
            await asyncio.sleep(1)  # time in which the disk stays full
            assert len(site.ledger.accepted) == count_before
    await site.all_arrived()
    site.check_requests()
    assert set(site.ledger.refusals) == {"503"}
    assert set(site.duplicates().values()) == {0}
    assert await asyncio.to_thread(site.operator.stop) == 0
    assert intact(database)


async def test_a_store_that_goes_in_the_middle_of_settling_costs_no_second_attempt(
    receiver: Receiver, database: Path
) -> None:
    """Results that cannot be stored stay in memory, even beyond the claim lease."""
    clock = Jumping()
    plan = Plan(clock_ms=clock, beat=0.2)
    engine = await Engine.start(await open_store(database, plan, patience=0.1), plan)
    try:
        receiver.answer = busy = Busy()
        engine.registry.put(subscriber("orders", receiver.url, max_in_flight=4))
        await engine.post_many(12)
        await until(lambda: busy.now == 4)
        async with locked(database):
            busy.open.set()
            await until(lambda: busy.now == 0)
            with pytest.raises(StoreUnavailable):
                await engine.post(body=b"99")
            clock.offset += 2 * plan.lease_ms
        await engine.ended("orders", 12)
        assert sorted(int(request.body) for request in receiver.received) == list(range(12))
        assert all(len(record.attempts) == 1 for record in await engine.log("orders"))
    finally:
        await engine.stop()
    assert intact(database)
