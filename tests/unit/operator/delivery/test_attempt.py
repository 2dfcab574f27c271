"""The next state of a delivery after an attempt."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwright_crds.endpoint_fields import Retry
from hookwright_operator.delivery.attempt import Outcome, RetrySchedule, judge
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Claimed, State

SCHEDULE = RetrySchedule.parse("30s,2m,10m,30m,2h")
ENDPOINT = Endpoint("uid-1", "acme", "orders", "billing", "https://example.com/", frozenset())
STARTED = 1_800_000_000_000


def claimed(attempts: int) -> Claimed:
    """Return a delivery with so many failed attempts."""
    return Claimed("dlv_1", "uid-1", "msg_1", "delivered", b"{}", attempts, STARTED - 5)


def outcome(status: int, error: str, retry_after_ms: int | None = None) -> Outcome:
    """Return the outcome of an attempt that took 70 ms."""
    return Outcome(status, error, "said", 70, STARTED, retry_after_ms)


def test_an_answer_2xx_delivers() -> None:
    """Its record is the attempt."""
    settlement = judge(ENDPOINT, claimed(2), outcome(204, ""), SCHEDULE)
    assert (settlement.delivery_id, settlement.endpoint_uid, settlement.state) == ("dlv_1", "uid-1", State.DELIVERED)
    attempt = settlement.attempt
    assert (attempt.number, attempt.started_ms, attempt.duration_ms) == (3, STARTED, 70)
    assert (attempt.status_code, attempt.error, attempt.response) == (204, "", "said")


@pytest.mark.parametrize(("attempts", "delay"), list(enumerate([30, 120, 600, 1800, 7200])))
def test_a_failure_is_due_again_after_its_delay_from_the_end_of_the_attempt(attempts: int, delay: int) -> None:
    """The delay counts from the end of the attempt, not from its start."""
    settlement = judge(ENDPOINT, claimed(attempts), outcome(500, "HTTP 500"), SCHEDULE)
    assert (settlement.state, settlement.due_ms) == (State.PENDING, STARTED + 70 + delay * 1000)


def test_the_failure_of_the_last_retry_is_final() -> None:
    """After five retries the delivery has failed, whatever Retry-After says."""
    settlement = judge(ENDPOINT, claimed(5), outcome(503, "HTTP 503", 1000), SCHEDULE)
    assert settlement.state is State.FAILED


def test_an_endpoint_can_have_fewer_attempts_than_the_schedule() -> None:
    """Its last attempt is final, and with more attempts than the schedule has it keeps those of the schedule."""
    short, long = replace(ENDPOINT, max_attempts=3), replace(ENDPOINT, max_attempts=100)
    failure = outcome(500, "HTTP 500")
    assert [judge(short, claimed(number), failure, SCHEDULE).state for number in (1, 2)] == [
        State.PENDING,
        State.FAILED,
    ]
    assert [judge(long, claimed(number), failure, SCHEDULE).state for number in (4, 5)] == [State.PENDING, State.FAILED]


def test_an_endpoint_can_have_delays_of_its_own() -> None:
    """They replace those of the installation, and the delivery fails after the last of them."""
    patient = replace(ENDPOINT, retry=Retry(schedule=("1h", "72h")))
    settlements = [judge(patient, claimed(number), outcome(500, "HTTP 500"), SCHEDULE) for number in range(3)]
    ends = [settlement.due_ms - STARTED - 70 for settlement in settlements[:2]]
    assert ends == [3_600_000, 72 * 3_600_000]
    assert settlements[2].state is State.FAILED
    assert SCHEDULE.of(patient).longest_ms == 2 * 72 * 3_600_000


def test_an_endpoint_bounds_what_retry_after_may_ask_for() -> None:
    """Its bound replaces the next delay of the schedule; the schedule's own delay stays."""
    for longest, delay in (("0s", 30_000), ("45s", 45_000), ("3h", 3 * 3_600_000)):
        endpoint = replace(ENDPOINT, retry=Retry(retry_after_max=longest))
        settlement = judge(endpoint, claimed(0), outcome(429, "HTTP 429", 86_400_000), SCHEDULE)
        assert settlement.due_ms == STARTED + 70 + delay


def test_a_status_can_end_a_delivery_at_once() -> None:
    """Another status is retried by the schedule of the installation."""
    endpoint = replace(ENDPOINT, retry=Retry(end_on=(410, 404)))
    assert judge(endpoint, claimed(0), outcome(410, "HTTP 410"), SCHEDULE).state is State.FAILED
    assert judge(endpoint, claimed(0), outcome(500, "HTTP 500"), SCHEDULE).due_ms == STARTED + 70 + 30_000


@given(attempts=st.integers(0, 20), status=st.integers(0, 599), error=st.text(max_size=20))
def test_a_delivery_is_delivered_exactly_where_the_outcome_says_so(attempts: int, status: int, error: str) -> None:
    """A delivery that is not delivered is either due in the future or failed."""
    creation = outcome(status, error)
    settlement = judge(ENDPOINT, claimed(attempts), creation, SCHEDULE)
    assert (settlement.state is State.DELIVERED) == creation.delivered
    if settlement.state is State.PENDING:
        assert settlement.due_ms > STARTED
