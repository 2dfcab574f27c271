"""Tasks of attempts: they end with the process, and are reused for one attempt after the other."""

import asyncio
import gc
import weakref

from structlog.testing import capture_logs

from hookwright_operator.delivery.tasks import Runners, Tasks


class Work:
    """Work that lasts until the test releases it, and the tasks that do it."""

    def __init__(self) -> None:
        """Create work that is not released."""
        self.go = asyncio.Event()
        self.done: list[object] = []
        self.doers: set[asyncio.Task[None] | None] = set()

    async def __call__(self, given: object) -> None:
        """Do the work."""
        self.doers.add(asyncio.current_task())
        await self.go.wait()
        if given == "bad":
            raise ZeroDivisionError
        self.done.append(given)


async def turns() -> None:
    """Let other tasks run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_as_many_tasks_as_were_busy_at_once_do_everything() -> None:
    """Work begins at once, and uses an idle task if there is one."""
    tasks, work = Tasks(), Work()
    runners = Runners(tasks, work)
    for number in range(3):
        runners.start(number)
    await turns()
    assert len(work.doers) == 3
    work.go.set()
    for number in range(3, 9):
        await turns()
        runners.start(number)
    await turns()

    assert work.done == list(range(9))
    assert len(work.doers) == len(tasks) == 3


async def test_work_that_fails_leaves_a_line_and_holds_nothing_up() -> None:
    """The failed work is logged and its task ends; another task does the next work."""
    tasks, work = Tasks(), Work()
    work.go.set()
    runners = Runners(tasks, work)
    with capture_logs() as logs:
        runners.start("bad")
        await turns()
    runners.start("good")
    await turns()

    assert [entry["event"] for entry in logs] == ["background task failed"]
    assert work.done == ["good"]


async def test_closed_runners_end_the_idle_at_once_and_the_busy_after_their_work() -> None:
    """Waiting for all tasks then ends."""
    tasks, work = Tasks(), Work()
    runners = Runners(tasks, work)
    work.go.set()
    for number in range(2):
        runners.start(number)
    await turns()
    work.go.clear()
    runners.start(2)
    await turns()
    runners.close()
    await turns()
    assert len(tasks) == 1
    work.go.set()
    await tasks.finish(5)

    assert not tasks
    assert work.done == [0, 1, 2]


async def test_an_idle_task_keeps_nothing_of_its_last_work() -> None:
    """Otherwise the bodies of a thousand attempts would stay in memory."""

    class Body:
        pass

    async def look(_: Body) -> None:
        await asyncio.sleep(0)

    tasks = Tasks()
    runners = Runners(tasks, look)
    body = Body()
    kept = weakref.ref(body)
    runners.start(body)
    del body
    await turns()
    gc.collect()

    assert len(tasks) == 1
    assert kept() is None
    runners.close()
    await tasks.finish(5)
