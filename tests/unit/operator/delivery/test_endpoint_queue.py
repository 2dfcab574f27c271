"""Conditions of an endpoint queue for starting attempts, accepting deliveries and claiming."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwright_operator.delivery.endpoint_queue import EndpointQueue
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Claimed

ENDPOINT = Endpoint(
    uid="uid-1",
    namespace="acme",
    name="orders",
    project="billing",
    url="https://example.com/hooks",
    events=frozenset({"delivered"}),
    max_in_flight=4,
    secrets=("whsec_x",),
)


def claimed(number: int = 1) -> Claimed:
    """Return a delivery in memory."""
    return Claimed(f"dlv_{number}", "uid-1", f"msg_{number}", "delivered", b"{}", 0, 0)


def queue(*, ready: int = 0, **state: int | bool) -> EndpointQueue:
    """Return a queue in some state."""
    creation = EndpointQueue(ENDPOINT)
    creation.ready.extend(claimed(number) for number in range(ready))
    for name, value in state.items():
        setattr(creation, name, value)
    if creation.gone:
        creation.end()
    return creation


@pytest.mark.parametrize(
    ("state", "may"),
    [
        ({"ready": 1}, True),
        ({"ready": 1, "in_flight": 3}, True),
        ({"ready": 1, "in_flight": 4}, False),
        ({"ready": 0}, False),
        ({"ready": 1, "gone": True}, False),
        ({"ready": 1, "in_flight": 3, "settling": 4}, True),
        ({"ready": 1, "in_flight": 3, "settling": 5}, False),
        ({"ready": 1, "settling": 8}, False),
        ({"ready": 1, "settling": 1, "refused": 1}, False),
    ],
)
def test_an_attempt_begins_where_something_waits_and_the_bound_allows(state: dict[str, int], may: bool) -> None:  # noqa: FBT001
    """Nothing begins for a deleted endpoint, or while too many results are unstored or one is refused."""
    assert queue(**state).can_start is may


@pytest.mark.parametrize("change", [{"suspend": True}, {"secrets": ()}, {"block_reason": "plain http"}])
def test_an_endpoint_that_may_not_be_sent_to_neither_begins_nor_takes_nor_asks(change: dict[str, bool]) -> None:
    """If the endpoint is suspended, blocked or without a secret, its deliveries stay in the store."""
    hold = queue(ready=1, backlog=True)
    hold.change(replace(ENDPOINT, **change))  # type: ignore[arg-type]
    assert (hold.can_start, hold.can_take(64), hold.wants(64)) == (False, False, 0)


def test_everything_this_process_has_of_an_endpoint_counts_as_held() -> None:
    """Ready, running, unstored and reserved deliveries all count."""
    assert queue(ready=2, in_flight=3, settling=4, reserved=5).held == 14


@pytest.mark.parametrize(
    ("state", "takes"),
    [
        ({}, True),
        ({"ready": 7}, True),
        ({"ready": 8}, False),
        ({"reserved": 4, "settling": 4}, False),
        ({"backlog": True}, False),
        ({"gone": True}, False),
    ],
)
def test_a_fresh_event_goes_to_memory_only_where_there_is_room_and_nothing_older_waits(
    state: dict[str, int],
    takes: bool,  # noqa: FBT001
) -> None:
    """Otherwise it would overtake older deliveries in the store, or memory would grow without bound."""
    assert queue(**state).can_take(8) is takes


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        ({"backlog": True}, 8),
        ({"backlog": True, "ready": 4}, 4),
        ({"backlog": True, "ready": 5}, 0),
        ({"backlog": True, "claiming": True}, 0),
        ({"backlog": True, "gone": True}, 0),
        ({"backlog": False}, 0),
    ],
)
def test_a_claim_is_made_for_half_a_window_at_least(state: dict[str, int], wanted: int) -> None:
    """One claim at a time, only if the store may have deliveries, and never for less than half a window."""
    assert queue(**state).wants(8) == wanted


@given(
    window=st.integers(1, 100),
    ready=st.integers(0, 100),
    in_flight=st.integers(0, 64),
    settling=st.integers(0, 64),
    reserved=st.integers(0, 64),
)
def test_what_is_held_and_asked_for_never_exceeds_the_window(
    window: int, ready: int, in_flight: int, settling: int, reserved: int
) -> None:
    """In every state, a claim that returns all it asked for, or a new event, still fits."""
    sample = queue(ready=ready, in_flight=in_flight, settling=settling, reserved=reserved, backlog=True)
    assert sample.wants(window) == 0 or sample.held + sample.wants(window) <= window
    sample.backlog = False
    assert not sample.can_take(window) or sample.held + 1 <= window


def test_what_overflows_is_told_from_what_was_known_before() -> None:
    """A claim made before the latest overflow must not conclude that the store is empty; so overflows are counted."""
    sample = queue()
    sample.overflowed()
    before = sample.backlog_seen
    sample.overflowed()
    assert sample.backlog
    assert sample.backlog_seen > before


def test_attempts_keep_the_distance_of_the_rate_limit() -> None:
    """120 a minute are half a second apart; time without attempts allows no burst."""
    limit_answer = EndpointQueue(replace(ENDPOINT, per_minute=120))
    assert limit_answer.pause(100.0) == 0
    limit_answer.started(100.0)
    assert limit_answer.pause(100.0) == pytest.approx(0.5)
    assert limit_answer.pause(100.4) == pytest.approx(0.1)
    assert limit_answer.pause(200.0) == 0
    limit_answer.started(200.0)
    assert limit_answer.pause(200.0) == pytest.approx(0.5)


@given(st.lists(st.floats(0, 10), min_size=2, max_size=50))
def test_no_minute_holds_more_attempts_than_the_limit(waits: list[float]) -> None:
    """Any two attempts in a row keep the interval, for any sequence of waits."""
    limit_answer, now, starts = EndpointQueue(replace(ENDPOINT, per_minute=60)), 0.0, []
    for wait in waits:
        now += wait
        now += limit_answer.pause(now)
        limit_answer.started(now)
        starts.append(now)
    assert all(later - earlier >= 1 - 1e-6 for earlier, later in pairwise(starts))


def test_without_a_limit_nothing_pauses() -> None:
    """A changed limit starts a new interval."""
    sample = queue()
    sample.started(5.0)
    assert sample.pause(5.0) == 0
    sample.change(replace(ENDPOINT, per_minute=1))
    sample.started(5.0)
    sample.change(replace(ENDPOINT, per_minute=1, timeout=3.0))
    assert sample.pause(5.0) == 60
    sample.change(replace(ENDPOINT, per_minute=2))
    assert sample.pause(5.0) == 0


def test_the_pause_after_a_timeout_doubles_up_to_five_seconds_until_an_attempt_succeeds() -> None:
    """Attempts that time out together count once, and other failures change nothing."""
    sample, now, pauses = queue(), 100.0, []
    for _ in range(7):
        sample.ended(delivered=False, timed_out=True, now=now, jitter=1.0)
        sample.ended(delivered=False, timed_out=True, now=now + 0.1, jitter=1.0)
        sample.ended(delivered=False, timed_out=False, now=now + 0.1, jitter=1.0)
        pauses.append(sample.pause(now))
        now += pauses[-1]
    assert pauses == pytest.approx([0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0])
    sample.ended(delivered=True, timed_out=False, now=now, jitter=1.0)
    assert (sample.pause(now), sample.limited_to) == (0.0, None)
    sample.ended(delivered=False, timed_out=True, now=now, jitter=0.4)
    assert sample.pause(now) == pytest.approx(0.1)


def test_a_timeout_counts_again_after_a_success_during_the_pause() -> None:
    """Two attempts were under way: the limit of attempts is back although the pause after the first timeout goes on."""
    sample = queue()
    for timed_out in (True, False, True):
        sample.ended(delivered=not timed_out, timed_out=timed_out, now=100.0, jitter=1.0)
    assert sample.limited_to == 2
    assert sample.pause(100.0) == pytest.approx(0.25)


def test_endpoints_that_hang_for_equally_long_do_not_go_on_starting_together() -> None:
    """300 start together and time out after 1 s each time; later at most a tenth of them start within 50 ms."""
    chance, starts = Random(1), Counter[int]()
    for hanging in [queue() for _ in range(300)]:
        now = 0.0
        while now < 60:
            starts[int(now / 0.05)] += 1
            now += 1.0
            hanging.ended(delivered=False, timed_out=True, now=now, jitter=chance.random())
            now += hanging.pause(now)
    assert starts[0] == 300
    assert max(count for slot, count in starts.items() if slot >= 10 / 0.05) <= 30


def test_a_lane_of_another_process_neither_begins_nor_takes_nor_asks() -> None:
    """When the replica becomes the owner, the rate limit counts from then, because the old owner may just have sent."""
    sample = EndpointQueue(replace(ENDPOINT, per_minute=60))
    sample.own(since=None)
    sample.ready.append(claimed())
    sample.backlog = True
    assert not sample.can_start
    assert not sample.wants(8)
    sample.backlog = False
    assert not sample.can_take(8)

    sample.own(since=100.0)

    assert sample.can_start
    assert sample.can_take(8)
    assert sample.pause(100.25) == 0.75
