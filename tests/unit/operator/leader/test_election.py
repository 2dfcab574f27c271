"""The rules of leadership; another test shows the election on a real API server."""

import asyncio

import pytest
from support.clock import Seconds

from hookwright_operator.leader.election import Leadership, LeaseTimes

TIMES = LeaseTimes(6)


@pytest.fixture
def clock() -> Seconds:
    """Return the clock of the leadership."""
    return Seconds()


@pytest.fixture
def leadership(clock: Seconds) -> Leadership:
    """Return a leadership that has not begun."""
    return Leadership(TIMES, clock=clock)


def test_a_process_that_won_nothing_leads_nothing(leadership: Leadership) -> None:
    """Such a process has no time left in which a write could end."""
    assert not leadership.holds
    assert leadership.left == 0
    assert leadership.number == 0


def test_a_term_counts_from_the_request_that_renewed_it_and_ends_by_its_own_clock(
    leadership: Leadership, clock: Seconds
) -> None:
    """The leadership does not count from the answer, and ends before another replica may become the leader."""
    start, clock.now = clock.now, clock.now + 3
    leadership.renew(start)
    clock.now = start + TIMES.renew_deadline - 0.001
    assert leadership.holds
    clock.now = start + TIMES.renew_deadline
    assert not leadership.holds
    assert leadership.left == TIMES.duration - TIMES.renew_deadline
    clock.now = start + 1000
    assert leadership.left == 0


def test_each_beginning_has_a_number_and_going_on_has_none(leadership: Leadership, clock: Seconds) -> None:
    """A caller that checks now and then can see that the leadership ended and another began."""
    for _ in range(3):
        leadership.renew(clock.now)
        clock.now += TIMES.renew_every
    assert leadership.number == 1
    clock.now += TIMES.duration
    leadership.renew(clock.now)
    assert leadership.number == 2


def test_a_process_without_rivals_leads_for_ever() -> None:
    """It is the leader from the first moment."""
    leadership = Leadership.without_end()
    assert leadership.holds
    assert leadership.number == 1


async def test_quiet_waits_for_the_last_write(leadership: Leadership) -> None:
    """A later write may end sooner."""
    with leadership.writing:
        waiting = asyncio.create_task(leadership.quiet())
        with leadership.writing:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting


def test_the_times_fit_together() -> None:
    """A dead leader is replaced after 15 s at most, and one lost request does not end the leadership."""
    times = LeaseTimes()
    assert times.look_every + times.duration < 15
    assert times.renew_every + times.round < times.renew_deadline < times.duration
