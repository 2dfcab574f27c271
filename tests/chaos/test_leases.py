"""Several instances on one database: who sleeps longer than its lease has lost what it held, and knows it."""

import asyncio
import os
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from chaos import node
from delivery.engine import Engine, Plan, subscriber, until

from hookwright_dev.processes import ChildProcess
from hookwright_dev.receiver import Received, Receiver

LEASE_MS = 6_000
"""Long enough that a node on a busy machine renews it in time: each sixth of it."""
UNSETTLED = 2 * node.MAX_IN_FLIGHT
"""Attempts whose results are not in the store yet: those under way, and as many whose result is on its way there."""
TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture
def processes() -> Iterator[ExitStack]:
    """Child processes that end with the test."""
    with ExitStack() as stack:
        yield stack


def run(processes: ExitStack, database: Path, url: str, *, lease_ms: int = LEASE_MS) -> ChildProcess:
    """Start an instance that delivers to a receiver."""
    argv = [sys.executable, node.__file__, str(database), url, str(lease_ms)]
    log = database.with_name("node.log")
    path = {"PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    return processes.enter_context(ChildProcess.start("node", argv, log=log, env=path))


async def fill(database: Path, url: str, events: int) -> None:
    """Leave a backlog in a fresh store."""
    engine = await Engine.start(database, Plan(lease_ms=LEASE_MS))
    engine.registry.put(subscriber("orders", url, timeout=0.5, suspend=True))
    await engine.post_many(events)
    await engine.stop()


async def test_who_was_paused_beyond_its_lease_sends_nothing_that_another_took(
    receiver: Receiver, database: Path, processes: ExitStack
) -> None:
    """SIGSTOP for longer than the lease: the other instance takes over, and after SIGCONT nothing goes out twice.

    Only what was on its way in the moment of the pause may be repeated: its result was not stored yet, or its attempt
    had begun and not a byte of it was written.
    """

    async def takes_a_while(_: Received) -> int:
        await asyncio.sleep(0.02)
        return 200

    receiver.answer = takes_a_while
    await fill(database, receiver.url, 200)
    paused = run(processes, database, receiver.url)
    await receiver.wait_for(10)
    await pause(paused, database)
    stopped_at = len(receiver.received)
    other = run(processes, database, receiver.url)
    try:
        await until(lambda: len(numbers(receiver)) == 200)
    finally:
        paused.send_signal(signal.SIGCONT)
    arrived = len(receiver.received)
    await asyncio.sleep(1.0)  # time in which the one that slept would send what it thinks it holds
    late = [int(received.body) for received in receiver.received[arrived:]]
    # Attempts begin in the order of the numbers, so many at a time.
    assert all(number < stopped_at + node.MAX_IN_FLIGHT for number in late), f"it sent what another had taken: {late}"
    assert stopped_at < 200
    repeated = [number for number, times in numbers(receiver).items() if times > 1]
    assert len(repeated) <= UNSETTLED, repeated
    assert await asyncio.to_thread(paused.stop) == 0
    assert await asyncio.to_thread(other.stop) == 0


async def test_what_a_killed_instance_held_is_taken_over_by_a_living_one(
    receiver: Receiver, database: Path, processes: ExitStack
) -> None:
    """No sweeper, no operator's hand: the same claims that find everything else find what the dead one held."""

    async def takes_a_while(_: Received) -> int:
        await asyncio.sleep(0.02)
        return 200

    receiver.answer = takes_a_while
    await fill(database, receiver.url, 100)
    killed, living = (run(processes, database, receiver.url) for _ in range(2))
    await receiver.wait_for(20)
    killed.kill()
    await until(lambda: len(numbers(receiver)) == 100)
    assert sum(numbers(receiver).values()) - 100 <= UNSETTLED
    assert await asyncio.to_thread(living.stop) == 0


async def test_two_living_instances_never_share_a_delivery(
    receiver: Receiver, database: Path, processes: ExitStack
) -> None:
    """However they race for a backlog, every event goes out once."""
    await fill(database, receiver.url, 200)
    # A lease, and with it a timeout, that no busy machine exceeds: what is taken over or tried again goes out twice.
    both = [run(processes, database, receiver.url, lease_ms=60_000) for _ in range(2)]
    # One that is told to end before it runs ends as Python does, and has proven nothing.
    await until(lambda: living(database) == 2)
    await until(lambda: len(numbers(receiver)) == 200)
    for one in both:
        assert await asyncio.to_thread(one.stop) == 0
    assert set(numbers(receiver).values()) == {1}


def living(database: Path) -> int:
    """How many of the instances have said that they live."""
    with closing(sqlite3.connect(database, timeout=20)) as connection:
        return int(connection.execute("SELECT count(*) FROM instances WHERE id LIKE 'node/%'").fetchone()[0])


async def pause(process: ChildProcess, database: Path) -> None:
    """Stop a process, but not amid a transaction: SQLite's lock would stop everybody else as well."""
    while True:
        process.send_signal(signal.SIGSTOP)
        await asyncio.to_thread(os.waitid, os.P_PID, process.pid, os.WSTOPPED)
        with closing(sqlite3.connect(database, isolation_level=None, timeout=0)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                process.send_signal(signal.SIGCONT)
                await asyncio.sleep(0.001)
            else:
                connection.execute("ROLLBACK")
                return


def numbers(receiver: Receiver) -> Counter[int]:
    """How often each event came, by its number."""
    return Counter(int(received.body) for received in receiver.received)
