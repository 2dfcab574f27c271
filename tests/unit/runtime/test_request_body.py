"""One timer gives each of many operations its own time limit."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import pytest

from hookwright_runtime.request_body import Deadlines

T = TypeVar("T")


async def work(until: Awaitable[T]) -> T:
    """Wait for an awaitable."""
    return await until


async def test_what_is_done_in_time_answers_and_fails_as_it_would_by_itself() -> None:
    """An operation within its limit returns and raises as without the limit."""
    deadlines = Deadlines(0.5)

    async def fail() -> None:
        raise LookupError("its own")

    assert await deadlines.keep(work(asyncio.sleep(0, "done"))) == "done"
    with pytest.raises(LookupError, match="its own"):
        await deadlines.keep(fail())
    # The limit of the ended operation must not end a later one.
    await asyncio.sleep(0.6)


async def test_what_takes_too_long_ends_each_at_its_own_time() -> None:
    """Each operation ends at its own limit, and work between operations is not cancelled."""
    deadlines, began = Deadlines(1.0), asyncio.get_running_loop().time()
    ended: list[tuple[int, float]] = []

    async def one(number: int, seconds: float) -> str:
        try:
            return await deadlines.keep(work(asyncio.sleep(seconds, "done")))
        except TimeoutError:
            ended.append((number, asyncio.get_running_loop().time() - began))
            return "too late"

    tasks = []
    for number in range(4):
        tasks.append(asyncio.create_task(one(number, 0.01 if number == 1 else 60)))
        await asyncio.sleep(0.03)

    assert await asyncio.gather(*tasks) == ["too late", "done", "too late", "too late"]
    assert [number for number, _ in ended] == [0, 2, 3]
    assert all(seconds >= 1.0 + 0.03 * number for number, seconds in ended)


async def test_a_task_goes_on_after_its_deadline_and_may_have_another() -> None:
    """After a timeout the task has no pending cancellation."""
    deadlines = Deadlines(0.02)

    for _ in range(3):
        with pytest.raises(TimeoutError):
            await deadlines.keep(work(asyncio.sleep(60)))
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()
        await asyncio.sleep(0.001)


async def test_who_cancels_the_task_gets_it_cancelled() -> None:
    """A cancellation of the task reaches it before the deadline and at the same moment."""
    deadlines = Deadlines(30)
    early = asyncio.create_task(deadlines.keep(work(asyncio.sleep(60))))
    late = asyncio.create_task(deadlines.keep(work(asyncio.sleep(60))))
    await asyncio.sleep(0.01)
    early.cancel()
    with pytest.raises(asyncio.CancelledError):
        await early

    # Both must happen before the task runs again.
    await asyncio.sleep(0)
    deadlines._ends[late] = 0
    deadlines._expire(asyncio.get_running_loop())
    assert late.cancelling() == 1
    late.cancel()
    with pytest.raises(asyncio.CancelledError):
        await late


async def test_nothing_is_kept_of_what_is_done() -> None:
    """No task is kept, and no timer after the first operation has ended."""
    deadlines = Deadlines(0.3)
    await asyncio.gather(*(deadlines.keep(work(asyncio.sleep(0))) for _ in range(10)))
    with pytest.raises(TimeoutError):
        await deadlines.keep(work(asyncio.sleep(60)))
    await asyncio.sleep(0.4)

    assert (deadlines._ends, deadlines._overdue, deadlines._timer) == ({}, set(), None)
