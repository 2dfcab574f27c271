"""What a term promises; who gets one is shown on a real API server."""

import asyncio
from dataclasses import dataclass

import pytest

from hookwright_operator.leading import DURATION, LOOK_EVERY, RENEW_DEADLINE, RENEW_EVERY, Term


@dataclass
class Seconds:
    """A clock that stands until it is turned."""

    now: float = 1000.0

    def __call__(self) -> float:
        """The time."""
        return self.now


@pytest.fixture
def clock() -> Seconds:
    """The term's clock."""
    return Seconds()


@pytest.fixture
def term(clock: Seconds) -> Term:
    """A term that has not begun."""
    return Term(clock=clock)


def test_a_process_that_won_nothing_leads_nothing(term: Term) -> None:
    """Nor has it time left in which a write could end."""
    assert not term.holds
    assert term.left == 0
    assert term.number == 0


def test_a_term_counts_from_the_request_that_renewed_it_and_ends_by_its_own_clock(term: Term, clock: Seconds) -> None:
    """Not from the answer, and with time to spare before anybody else may lead."""
    asked, clock.now = clock.now, clock.now + 3
    term.renew(asked)
    clock.now = asked + RENEW_DEADLINE - 0.001
    assert term.holds
    clock.now = asked + RENEW_DEADLINE
    assert not term.holds
    assert term.left == DURATION - RENEW_DEADLINE
    clock.now = asked + 1000
    assert term.left == 0


def test_each_beginning_has_a_number_and_going_on_has_none(term: Term, clock: Seconds) -> None:
    """So that who looks now and then sees that a term ended and another began."""
    for _ in range(3):
        term.renew(clock.now)
        clock.now += RENEW_EVERY
    assert term.number == 1
    clock.now += DURATION
    term.renew(clock.now)
    assert term.number == 2


def test_a_process_without_rivals_leads_for_ever() -> None:
    """From the first moment."""
    term = Term.without_end()
    assert term.holds
    assert term.number == 1


async def test_quiet_waits_for_the_last_write(term: Term) -> None:
    """Also where one that began later ends sooner."""
    with term.writing:
        waiting = asyncio.create_task(term.quiet())
        with term.writing:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting


def test_the_times_fit_together() -> None:
    """A dead leader is missed for 15 s at most, and one lost request costs no lead."""
    assert LOOK_EVERY + DURATION < 15
    assert RENEW_EVERY * 2 < RENEW_DEADLINE < DURATION
