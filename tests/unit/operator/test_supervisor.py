"""Failed loops are restarted, and liveness reports a loop that cannot run."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from support.polling import PATIENCE

from hookwright_operator import supervisor as supervisor_module
from hookwright_operator.supervisor import Supervisor


@pytest.fixture
async def loops(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Supervisor]:
    """Yield a supervisor whose pauses are short."""
    monkeypatch.setattr(supervisor_module, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(supervisor_module, "_LONGEST_PAUSE", 0.002)
    supervisor = Supervisor()
    yield supervisor
    await supervisor.stop()


async def test_a_loop_that_fails_is_started_again(loops: Supervisor) -> None:
    """One failure restarts the loop and not the process."""
    runs = 0
    back = asyncio.Event()

    async def fails_once() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise ZeroDivisionError
        back.set()
        await asyncio.Event().wait()

    loops.start("claim", fails_once)
    await asyncio.wait_for(back.wait(), PATIENCE)
    assert loops.dying() is None


async def test_a_loop_that_ends_is_started_again(loops: Supervisor) -> None:
    """A loop must not end by itself."""
    runs = asyncio.Semaphore(0)

    async def ends() -> None:
        runs.release()

    loops.start("claim", ends)
    for _ in range(3):
        await asyncio.wait_for(runs.acquire(), PATIENCE)


async def test_liveness_is_lost_by_a_loop_that_fails_again_and_again(loops: Supervisor) -> None:
    """Liveness names the loop; other running loops do not hide it."""
    arrival = asyncio.Event()
    runs = 0

    async def always_fails() -> None:
        nonlocal runs
        runs += 1
        if runs > 12:
            arrival.set()
        raise ZeroDivisionError

    async def lives() -> None:
        await asyncio.Event().wait()

    loops.start("heartbeat", lives)
    loops.start("claim", always_fails)
    assert loops.dying() is None
    await asyncio.wait_for(arrival.wait(), PATIENCE)
    assert loops.dying() == "claim"


async def test_a_failure_after_a_long_life_is_the_first_again(
    loops: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failures far apart do not affect liveness."""
    monkeypatch.setattr(supervisor_module, "_STABLE_SECONDS", 0.0)
    arrival = asyncio.Event()
    runs = 0

    async def fails_after_a_while() -> None:
        nonlocal runs
        runs += 1
        if runs > 12:
            arrival.set()
        await asyncio.sleep(0.001)
        raise ZeroDivisionError

    loops.start("claim", fails_after_a_while)
    await asyncio.wait_for(arrival.wait(), PATIENCE)
    assert loops.dying() is None


async def test_stopping_ends_the_named_loops_and_leaves_the_others(loops: Supervisor) -> None:
    """Without names all loops end."""
    ends: list[str] = []

    def loop(name: str) -> None:
        async def run() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ends.append(name)

        loops.start(name, run)

    for name in ("claim", "health", "gauges"):
        loop(name)
    await asyncio.sleep(0)
    await loops.stop("health", "unknown")
    assert ends == ["health"]
    await loops.stop()
    assert ends == ["health", "claim", "gauges"]
