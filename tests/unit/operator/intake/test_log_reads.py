"""Turns for reads of the delivery log: one read per namespace at a time, with a short queue."""

import asyncio
from contextlib import ExitStack

import pytest
from starlette.types import Message

from hookwright_operator.intake.log_reads import LogReads
from hookwright_runtime.held_answers import HeldAnswer
from hookwright_runtime.problems import ProblemError


class Reads:
    """Reads that last until the test ends them."""

    def __init__(self, turns: LogReads) -> None:
        self._turns = turns
        self._end = asyncio.Event()
        self.under_way: list[str] = []

    async def read(self, namespace: str) -> None:
        """Read once."""
        async with self._turns.turn(namespace):
            self.under_way.append(namespace)
            await self._end.wait()
            self.under_way.remove(namespace)

    async def begin(self, *namespaces: str) -> list["asyncio.Task[None]"]:
        """Begin reads, in this order."""
        tasks = [asyncio.create_task(self.read(namespace)) for namespace in namespaces]
        for _ in range(3):
            await asyncio.sleep(0)
        return tasks

    async def end(self, *tasks: "asyncio.Task[None]") -> None:
        """End all reads."""
        self._end.set()
        await asyncio.gather(*tasks)


async def test_a_namespace_reads_once_at_a_time_and_does_not_wait_for_another() -> None:
    """A queue of one namespace does not delay the others."""
    reads = Reads(LogReads())
    tasks = await reads.begin("acme", "acme", "acme", "globex")
    assert reads.under_way == ["acme", "globex"]
    await reads.end(*tasks)
    assert reads.under_way == []


async def test_a_full_queue_is_refused_with_the_time_to_retry() -> None:
    """The refusal names the namespace. Another namespace is served, and this one too when its queue is empty."""
    turns = LogReads(waiting=2)
    reads = Reads(turns)
    tasks = await reads.begin("acme", "acme", "acme")
    with pytest.raises(ProblemError, match=r'more than 3 .* "acme"') as refused:
        await reads.read("acme")
    assert refused.value.status == 429
    assert refused.value.headers == {"Retry-After": "1"}
    await reads.end(*tasks, *await reads.begin("globex"))
    await reads.read("acme")


async def test_a_caller_that_goes_leaves_its_place() -> None:
    """A cancelled read releases its slot, running or queued, and leaves no data of its namespace."""
    turns = LogReads(waiting=1)
    reads = Reads(turns)
    for task in await reads.begin("acme", "acme"):
        task.cancel()
        await asyncio.wait([task])
    await reads.end(*await reads.begin("acme", "acme"))
    assert not turns._asked
    assert not turns._turns


async def test_a_turn_ends_when_the_answer_is_sent() -> None:
    """While a client does not read, the next read of its namespace waits, and another namespace is served."""
    turns = LogReads()
    sent, may_read = asyncio.Event(), asyncio.Event()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            sent.set()
            await may_read.wait()

    with ExitStack() as held:
        await turns.begin("acme", held)
        answer = HeldAnswer(b"{}", held.pop_all())
    sending = asyncio.create_task(answer({"type": "http"}, _receive, send))
    await sent.wait()
    reads = Reads(turns)
    tasks = await reads.begin("acme", "globex")
    assert reads.under_way == ["globex"]

    may_read.set()
    await sending
    await reads.end(*tasks)
    assert not turns._asked
    assert not turns._turns


async def test_an_error_before_the_answer_ends_the_turn() -> None:
    """The turn of a read that fails is free at once."""
    turns = LogReads()

    async def fail() -> None:
        with ExitStack() as held:
            await turns.begin("acme", held)
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert not turns._asked


async def _receive() -> Message:
    return {"type": "http.disconnect"}
