"""Requests that wait for messages: their bounds, and their end."""

import asyncio
from contextlib import ExitStack, suppress

import pytest
from starlette.types import Message

from hookwright_runtime.long_polls import POLLS, LongPolls, until_gone
from hookwright_runtime.problems import ProblemError


async def never() -> Message:
    """Return when the client disconnects, which it does not."""
    await asyncio.Event().wait()
    raise AssertionError


def test_a_namespace_at_its_bound_leaves_places_for_others() -> None:
    """429 for the namespace, and 503 only if the process has no place."""
    polls = LongPolls(total=3, each=2)
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(polls.one("acme"))
        for namespace, status in (("acme", 429), ("rival", 0), ("third", 503)):
            if status:
                with pytest.raises(ProblemError) as refusal, polls.one(namespace):
                    pass
                assert refusal.value.status == status
            else:
                stack.enter_context(polls.one(namespace))
        assert (polls.number, polls.largest_use) == (3, 1.0)
    assert (polls.number, polls.largest_use) == (0, 0.0)


def test_many_namespaces_at_their_bounds_leave_places_for_others() -> None:
    """Sixteen hostile namespaces open as many requests as they get, and sixty others still get one each."""
    polls = LongPolls()
    with ExitStack() as stack:
        for number in range(POLLS):
            # A refused request holds no place.
            with suppress(ProblemError):
                stack.enter_context(polls.one(f"hostile-{number % 16}"))
        for number in range(60):
            stack.enter_context(polls.one(f"other-{number}"))
        assert polls.number <= POLLS
    assert polls.number == 0


async def test_the_result_comes_unless_the_client_or_the_process_ends() -> None:
    """A client that leaves cancels the work."""
    cancelled = asyncio.Event()

    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "result"

    async def leaves() -> Message:
        return {"type": "http.disconnect"}

    assert await until_gone(asyncio.sleep(0, "done"), never, asyncio.Event()) == "done"
    assert await until_gone(work(), leaves, asyncio.Event()) is None
    assert cancelled.is_set()
    ending = asyncio.Event()
    ending.set()
    assert await until_gone(work(), never, ending) is None


async def test_an_error_of_the_work_reaches_the_caller() -> None:
    """A refusal of the operator is the answer."""

    async def refuses() -> None:
        raise ProblemError(409, "no")

    with pytest.raises(ProblemError, match="no"):
        await until_gone(refuses(), never, asyncio.Event())
