"""The retry schedule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwright_operator.delivery.attempt import MAX_DELAY_MS, RetrySchedule

DEFAULT = RetrySchedule.parse("30s,2m,10m,30m,2h")
FAILED_AT = 1_700_000_000_000

delays = st.lists(st.integers(min_value=1, max_value=MAX_DELAY_MS), min_size=1, max_size=8).map(tuple)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30s,2m,10m,30m,2h", (30_000, 120_000, 600_000, 1_800_000, 7_200_000)),
        ("200ms", (200,)),
        ("0.5s , 1h30m", (500, 5_400_000)),
        ("1d", (86_400_000,)),
        ("1.001s", (1001,)),
    ],
)
def test_schedules_are_read_as_people_write_them(text: str, expected: tuple[int, ...]) -> None:
    """Whole, fractional, summed and sub-second delays are parsed to the millisecond."""
    assert RetrySchedule.parse(text).delays_ms == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("30s,", "'' in the retry schedule is not a duration"),
        ("-5s", "'-5s' in the retry schedule is not a duration"),
        ("30", "'30' in the retry schedule is not a duration"),
        ("30s;2m", "'30s;2m' in the retry schedule is not a duration"),
        ("soon", "'soon' in the retry schedule is not a duration"),
        ("nan s", "not a duration"),
        ("٣s", "not a duration"),
        ("0s", "'0s' in the retry schedule is out of bounds"),
        ("0.1ms", "out of bounds"),
        ("31d", "out of bounds"),
        ("999999999999h", "out of bounds"),
    ],
)
def test_a_wrong_schedule_is_refused_with_what_is_wrong(text: str, complaint: str) -> None:
    """The message names the delay and the correct form."""
    with pytest.raises(ValueError, match=complaint):
        RetrySchedule.parse(text)


def test_five_delays_make_six_attempts_each_counted_from_the_failed_one() -> None:
    """The default is 1 + 5 attempts after 30 s, 2 min, 10 min, 30 min and 2 h, and then no more."""
    due = [DEFAULT.next(number, FAILED_AT) for number in range(1, 8)]
    assert due == [FAILED_AT + delay for delay in DEFAULT.delays_ms] + [None, None]


@pytest.mark.parametrize(
    ("attempts_made", "retry_after_s", "expected_s"),
    [
        (1, 10, 30),
        (1, 60, 60),
        (1, 100_000, 120),
        (4, 3600, 3600),
        (5, 100_000, 4 * 3600),
        (5, 0, 2 * 3600),
    ],
)
def test_retry_after_lengthens_a_delay_up_to_the_next_step(
    attempts_made: int, retry_after_s: int, expected_s: int
) -> None:
    """A receiver can ask for a longer delay, up to the schedule's next delay or twice the last one."""
    assert DEFAULT.next(attempts_made, FAILED_AT, retry_after_s * 1000) == FAILED_AT + expected_s * 1000


@given(delays, st.integers(min_value=1, max_value=10), st.none() | st.integers(min_value=0, max_value=10**12))
def test_the_next_attempt_is_never_early_and_never_beyond_the_next_step(
    steps: tuple[int, ...], attempts_made: int, retry_after: int | None
) -> None:
    """A delay is at least the scheduled one and at most the larger of it and the next."""
    schedule = RetrySchedule(steps)
    due = schedule.next(attempts_made, FAILED_AT, retry_after)
    if attempts_made > len(steps):
        assert due is None
        return
    container = steps[attempts_made - 1]
    after = steps[attempts_made] if attempts_made < len(steps) else 2 * container
    assert due is not None
    assert container <= due - FAILED_AT <= max(container, after) <= schedule.longest_ms


def test_a_retry_before_any_attempt_is_refused() -> None:
    """A call with zero attempts made is an error of the caller and not a first retry."""
    with pytest.raises(ValueError, match="attempts_made is 0"):
        DEFAULT.next(0, FAILED_AT)
