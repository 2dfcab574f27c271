"""The promises of the work queue: coalescing, one reconcile of a key at a time, retries, and fair turns."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs
from support.polling import PATIENCE, until

from hookwright_operator.watch import work_queue as module
from hookwright_operator.watch.objects import Key
from hookwright_operator.watch.work_queue import WorkQueue
from hookwright_runtime.bounds import RECONCILES
from hookwright_runtime.errors import KubeUnavailable, StoreUnavailable, WriteRefused

A, B = (Key("WebhookEndpoint", "acme", name) for name in "ab")


class Work:
    """A reconciler that records its calls, and waits while the test holds it."""

    def __init__(self) -> None:
        self.turns: list[Key] = []
        self.times: list[float] = []
        self.under_way: set[Key] = set()
        self.gate = asyncio.Event()
        self.gate.set()
        self.answer: Callable[[Key], float | None] = lambda _: None

    async def __call__(self, key: Key) -> float | None:
        """Reconcile a key; two concurrent calls for one key are a fault."""
        assert key not in self.under_way, "two turns of one key at once"
        self.under_way.add(key)
        self.turns.append(key)
        self.times.append(asyncio.get_running_loop().time())
        try:
            await self.gate.wait()
            return self.answer(key)
        finally:
            self.under_way.discard(key)


@asynccontextmanager
async def running(work: Work, workers: int = 4) -> AsyncIterator[WorkQueue]:
    """Run a queue inside the context."""
    queue = WorkQueue(RECONCILES._replace(at_once=workers, at_once_each=workers // 2))
    task = asyncio.create_task(queue.run(work))
    try:
        yield queue
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def settle(awaitable: Awaitable[None]) -> None:
    """Await an end, with a deadline."""
    async with asyncio.timeout(PATIENCE):
        await awaitable


async def test_a_key_added_many_times_gets_one_turn() -> None:
    """The number and the causes of additions do not matter before the key is reconciled."""
    work = Work()
    queue = WorkQueue()
    for _ in range(10):
        queue.add(A)
    queue.add(B)
    task = asyncio.create_task(queue.run(work))
    await settle(queue.settled())
    task.cancel()
    assert sorted(work.turns, key=str) == [A, B]


async def test_a_change_during_a_turn_gets_one_more_turn_afterwards() -> None:
    """The data of a running reconcile may be old, so one more reconcile sees all changes made since."""
    work = Work()
    async with running(work) as queue:
        work.gate.clear()
        queue.add(A)
        await until(lambda: A in work.under_way)
        for _ in range(5):
            queue.add(A)
        work.gate.set()
        await settle(queue.settled())
        assert work.turns == [A, A]


async def test_a_key_that_takes_its_time_does_not_hold_up_others() -> None:
    """There are several workers, and each waits for its own key only."""
    work = Work()
    async with running(work) as queue:
        work.gate.clear()
        queue.add(A)
        await until(lambda: A in work.under_way)
        queue.add(B)
        await until(lambda: B in work.under_way)
        work.gate.set()
        await settle(queue.settled())


async def test_settled_waits_for_what_is_under_way_but_not_for_what_waits_for_its_time() -> None:
    """A key that is due in an hour does not delay readiness."""
    work = Work()
    async with running(work) as queue:
        work.answer = lambda _: 3600.0
        work.gate.clear()
        queue.add(A)
        result_scene = asyncio.create_task(queue.settled())
        await until(lambda: A in work.under_way)
        assert not result_scene.done()
        work.gate.set()
        await settle(result_scene)
        queue.add(B, 3600.0)
        await settle(queue.settled())


async def test_a_turn_can_ask_for_another_after_a_time() -> None:
    """A reconcile returns the seconds until the next one."""
    work = Work()
    async with running(work) as queue:
        work.answer = lambda _: 0.05 if len(work.turns) < 3 else None
        queue.add(A)
        await until(lambda: len(work.turns) == 3)
        assert all(later - sooner >= 0.04 for sooner, later in zip(work.times, work.times[1:], strict=False))


async def test_a_delay_is_shortened_by_whoever_asks_sooner_and_never_lengthened() -> None:
    """The earliest of all requested times counts, and causes one reconcile."""
    work = Work()
    async with running(work) as queue:
        queue.add(A, 0.08)
        queue.add(A, 3600.0)
        await until(lambda: work.turns == [A])
        queue.add(B, 3600.0)
        queue.add(B, 0.03)
        await until(lambda: work.turns == [A, B])
        queue.add(A, 0.05)
        queue.add(A)
        await until(lambda: work.turns == [A, B, A])
        await asyncio.sleep(0.12)
        assert work.turns == [A, B, A]


@pytest.mark.parametrize(
    "error", [KubeUnavailable("away"), StoreUnavailable("locked"), RuntimeError("an internal error")]
)
async def test_a_failed_turn_is_tried_again_with_growing_delays(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every failure causes a retry; after a success the delays begin again."""
    monkeypatch.setattr(module, "_FIRST_BACKOFF", 0.02)
    work = Work()

    def fail_thrice(_: Key) -> None:
        if len(work.turns) in {1, 2, 3, 5}:
            raise error

    work.answer = fail_thrice
    with capture_logs() as logs:
        async with running(work) as queue:
            queue.add(A)
            await until(lambda: len(work.turns) == 4)
            queue.add(A)
            await until(lambda: len(work.turns) == 6)
    delays = [entry["after_seconds"] for entry in logs if "after_seconds" in entry]
    assert delays == [0.02, 0.04, 0.08, 0.02]


async def test_backoff_has_a_longest_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """The retry delay never exceeds a minute, even after an outage of a day."""
    monkeypatch.setattr(module, "_FIRST_BACKOFF", 0.001)
    monkeypatch.setattr(module, "_LONGEST_BACKOFF", 0.004)
    work = Work()

    def fail(_: Key) -> None:
        raise KubeUnavailable("away")

    work.answer = fail
    with capture_logs() as logs:
        async with running(work) as queue:
            queue.add(A)
            await until(lambda: len(work.turns) >= 6)
    delays = [entry["after_seconds"] for entry in logs]
    assert delays[:2] == [0.001, 0.002]
    assert set(delays[2:]) == {0.004}


async def test_a_change_does_not_wait_for_a_failed_turn_s_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of the key may be its repair, so it is reconciled at once."""
    monkeypatch.setattr(module, "_FIRST_BACKOFF", 3600.0)
    monkeypatch.setattr(module, "_LONGEST_BACKOFF", 3600.0)
    work = Work()

    def fail_once(_: Key) -> None:
        if len(work.turns) == 1:
            raise KubeUnavailable("away")

    work.answer = fail_once
    async with running(work) as queue:
        queue.add(A)
        await until(lambda: len(work.turns) == 1 and not work.under_way)
        queue.add(A)
        await until(lambda: len(work.turns) == 2)


async def test_many_keys_are_worked_off_by_few_workers() -> None:
    """Every key is reconciled, independent of their number."""
    work = Work()
    async with running(work, workers=2) as queue:
        keys = [Key("ApiKey", "acme", str(number)) for number in range(500)]
        for key in keys:
            queue.add(key)
        await settle(queue.settled())
        assert work.turns == keys


async def test_a_namespace_that_blocks_its_share_of_the_workers_does_not_block_another() -> None:
    """One namespace has at most half of the workers, so a key of another namespace is reconciled at once."""
    work = Work()
    async with running(work, workers=4) as queue:
        work.gate.clear()
        blocked_endpoint = [Key("WebhookEndpoint", "hostile", str(number)) for number in range(20)]
        for key in blocked_endpoint:
            queue.add(key)
        await until(lambda: len(work.under_way) == 2)
        queue.add(A)
        await until(lambda: A in work.under_way)
        assert work.turns == [*blocked_endpoint[:2], A]
        work.gate.set()
        await settle(queue.settled())
    assert work.turns == [*blocked_endpoint[:2], A, *blocked_endpoint[2:]]


@pytest.mark.parametrize("first", ["", "hostile"])
async def test_namespaces_take_turns(first: str) -> None:
    """A key waits for one key of each other namespace; keys without a namespace are one tenant."""
    work = Work()
    queue = WorkQueue(RECONCILES._replace(at_once=1, at_once_each=1))
    many = [Key("Project", first, str(number)) for number in range(4)]
    for key in (*many, A, B):
        queue.add(key)
    task = asyncio.create_task(queue.run(work))
    await settle(queue.settled())
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert work.turns == [many[0], A, many[1], B, many[2], many[3]]


async def test_a_change_during_a_turn_waits_for_the_other_keys_of_its_namespace() -> None:
    """A key that changes all the time gets its turns after the other keys, and frees its worker each time."""
    work = Work()
    async with running(work, workers=2) as queue:
        work.gate.clear()
        queue.add(A)
        await until(lambda: A in work.under_way)
        queue.add(A)
        queue.add(B)
        work.gate.set()
        await settle(queue.settled())
    assert work.turns == [A, B, A]


@pytest.mark.parametrize("error", [WriteRefused("quota"), RuntimeError("an internal error")])
async def test_failures_of_a_namespace_are_logged_within_its_allowance(error: Exception) -> None:
    """The others are counted in one line, and the lines of other namespaces do not change."""
    work = Work()

    def fail(_: Key) -> None:
        raise error

    work.answer = fail
    many = [Key("WebhookEndpoint", "hostile", str(number)) for number in range(module.AT_ONCE + 50)]
    with capture_logs() as logs:
        async with running(work) as queue:
            for key in (*many, A):
                queue.add(key)
            await until(lambda: any("reconciles" in entry for entry in logs))
    failures = [entry for entry in logs if entry["event"] == "reconcile failed, retrying"]
    assert [entry["name"] for entry in failures if entry["namespace"] == "acme"][:1] == [A.name]
    of_hostile = [entry for entry in failures if entry["namespace"] == "hostile"]
    assert module.AT_ONCE <= len(of_hostile) < module.AT_ONCE + 50
    omissions = [entry for entry in logs if "reconciles" in entry]
    assert [entry["namespace"] for entry in omissions] == ["hostile"]
    tracebacks = [entry for entry in logs if entry["event"] == "reconcile failed"]
    assert len(tracebacks) == (len(failures) if isinstance(error, RuntimeError) else 0)
