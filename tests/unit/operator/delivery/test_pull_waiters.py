"""Consumers that wait: what wakes them, and how seldom they query the store."""

import asyncio

from hookwright_operator.delivery.pull_waiters import LEAST_SECONDS, RECHECK_SECONDS, PullWaiters


def test_consumers_query_when_the_next_message_is_due_and_not_in_a_loop() -> None:
    """The shared knowledge that nothing is due holds until a message may be due, within bounds."""
    with PullWaiters().waiting("inbox") as consumers:
        for due_in, pause in ((None, RECHECK_SECONDS), (3.0, 3.0), (60.0, RECHECK_SECONDS), (-1.0, LEAST_SECONDS)):
            consumers.found_none(consumers.change, now=100.0, due_in=due_in)
            assert consumers.look_at == 100.0 + pause


def test_a_change_during_a_query_is_not_forgotten() -> None:
    """A delivery may be accepted after the query and before its result is noted."""
    waiters = PullWaiters()
    with waiters.waiting("inbox") as consumers:
        records = consumers.change
        waiters.wake("inbox")
        consumers.found_none(records, now=100.0, due_in=None)
        assert records.is_set()
        assert consumers.look_at == 0.0


def test_an_endpoint_without_consumers_needs_no_memory() -> None:
    """The last consumer that leaves takes the state with it; a wake without a consumer does nothing."""
    waiters = PullWaiters()
    with waiters.waiting("inbox") as first, waiters.waiting("inbox") as second:
        assert first is second
    waiters.wake("inbox")
    waiters.endpoint_gone("inbox")
    with waiters.waiting("inbox") as later:
        assert later is not first


async def test_all_consumers_of_one_endpoint_wake() -> None:
    """Each sees the change; those of other endpoints do not."""
    waiters = PullWaiters()
    with waiters.waiting("inbox") as mine, waiters.waiting("other") as context:
        waiting = [asyncio.ensure_future(mine.change.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        waiters.wake("inbox")
        assert all(await asyncio.gather(*waiting))
        assert not context.change.is_set()
