"""Background tasks: a failed one is logged, and the process waits for all of them at its end."""

import asyncio

from structlog.contextvars import bind_contextvars, get_contextvars
from structlog.testing import capture_logs

from hookwright_operator.delivery.tasks import Tasks


async def test_a_failed_task_leaves_a_line_and_stops_no_other() -> None:
    """The other tasks end with their results."""
    tasks, results = Tasks(), []

    async def work(number: int) -> None:
        await asyncio.sleep(0)
        results.append(10 // number)

    with capture_logs() as logs:
        for number in (5, 0, 2):
            tasks.spawn(work(number))
        await tasks.finish(5)

    assert [(entry["event"], entry["error"]) for entry in logs] == [("background task failed", "ZeroDivisionError")]
    assert (results, len(tasks)) == ([2, 5], 0)


async def test_the_end_waits_for_tasks_that_begin_meanwhile_and_cancels_what_takes_too_long() -> None:
    """After the grace period no task is left."""
    tasks, results = Tasks(), []

    async def first() -> None:
        tasks.spawn(second())

    async def second() -> None:
        results.append("second")

    tasks.spawn(first())
    await tasks.finish(5)
    assert results == ["second"]

    tasks.spawn(asyncio.Event().wait())  # type: ignore[arg-type]
    with capture_logs() as logs:
        await tasks.finish(0.05)
    assert [(entry["event"], entry["tasks"]) for entry in logs] == [
        ("background tasks cancelled, the grace period is over", 1)
    ]
    assert not tasks


async def test_a_task_has_no_log_fields_of_the_request_that_began_it() -> None:
    """Otherwise an attempt would be logged with the request id of another tenant."""
    tasks, records = Tasks(), []

    async def work() -> None:
        records.append(get_contextvars())

    bind_contextvars(request_id="of a request")
    tasks.spawn(work())
    await tasks.finish(5)

    assert records == [{}]
