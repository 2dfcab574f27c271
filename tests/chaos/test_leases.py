"""A replica that sleeps past its claim lease loses its claims and does not send them."""

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
from support.dispatcher import Engine, Plan, subscriber
from support.polling import until

from hookwright_dev.processes import ChildProcess
from hookwright_dev.receiver import Received, Receiver

LEASE_MS = 3_000
"""Long enough that a replica on a busy machine renews it in time, at each sixth of it."""
UNSETTLED = 2 * node.MAX_IN_FLIGHT
"""Attempts without a stored result: those in flight, and as many whose result is not yet written."""
TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture
def processes() -> Iterator[ExitStack]:
    """Child processes that end with the test."""
    with ExitStack() as stack:
        yield stack


def run(processes: ExitStack, database: Path, url: str, *, lease_ms: int = LEASE_MS) -> ChildProcess:
    """Start a replica that delivers to a receiver."""
    argv = [sys.executable, node.__file__, str(database), url, str(lease_ms)]
    log = database.with_name("node.log")
    path = {"PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    return processes.enter_context(ChildProcess.start("node", argv, log=log, env=path))


async def fill(database: Path, url: str, events: int) -> None:
    """Write a backlog into a new store."""
    engine = await Engine.start(database, Plan(lease_ms=LEASE_MS))
    engine.registry.put(subscriber("orders", url, timeout=0.5, suspend=True))
    await engine.post_many(events)
    await engine.stop()


@pytest.mark.slow
async def test_who_was_paused_beyond_its_lease_sends_nothing_that_another_took(
    receiver: Receiver, database: Path, processes: ExitStack
) -> None:
    """During a long SIGSTOP the other replica takes over, and after SIGCONT no delivery is repeated.

    Only attempts that were in flight at the pause may be repeated. Their result was not stored, or no byte of their
    request was written.
    """

    async def takes_a_while(_: Received) -> int:
        await asyncio.sleep(0.02)
        return 200

    receiver.answer = takes_a_while
    await fill(database, receiver.url, 200)
    paused_replica = run(processes, database, receiver.url)
    await receiver.wait_for(10)
    await pause(paused_replica, database)
    stopped_at = len(receiver.received)
    second = run(processes, database, receiver.url)
    try:
        await until(lambda: len(numbers(receiver)) == 200)
    finally:
        paused_replica.send_signal(signal.SIGCONT)
    count = len(receiver.received)
    await asyncio.sleep(1.0)  # time in which the paused replica would send its former claims
    late = [int(request.body) for request in receiver.received[count:]]
    # Attempts begin in the order of the numbers, this many at a time.
    assert all(number < stopped_at + node.MAX_IN_FLIGHT for number in late), f"it sent what another had taken: {late}"
    assert stopped_at < 200
    repetitions = [number for number, times in numbers(receiver).items() if times > 1]
    assert len(repetitions) <= UNSETTLED, repetitions
    assert await asyncio.to_thread(paused_replica.stop) == 0
    assert await asyncio.to_thread(second.stop) == 0


async def pause(process: ChildProcess, database: Path) -> None:
    """Stop a process outside of transactions, because its SQLite lock would block the other replicas too."""
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
    """Count the requests of each event, by its number."""
    return Counter(int(request.body) for request in receiver.received)
