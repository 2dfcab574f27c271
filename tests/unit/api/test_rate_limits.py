"""The moving window at its edges, with a clock that the test moves."""

import pytest
from support.clock import Seconds

from hookwright_api.rate_limits import Limiter, Scope, Verdict, limit_headers, storage_url
from hookwright_api.settings import ApiSettings


@pytest.fixture
def clock() -> Seconds:
    """Return a clock for the limiter."""
    return Seconds(1_000_000.0)


def limiter(clock: Seconds, *, ip: int = 3, organization: int = 1000) -> Limiter:
    """Create a limiter in memory."""
    settings = ApiSettings(rate_limit_ip=ip, rate_limit_organization=organization)
    return Limiter(settings, now=clock, clock=clock)


async def hit(made: Limiter, identity: str = "a", scope: Scope = Scope.IP) -> Verdict:
    """Count a request."""
    verdict = await made.hit(scope, identity)
    assert verdict is not None
    return verdict


async def test_the_request_after_the_last_allowed_one_is_refused_and_told_when_to_come_back(clock: Seconds) -> None:
    """Three requests pass, counting down; the fourth is refused until the first is a minute old."""
    counters = limiter(clock)
    answers = []
    for _ in range(3):
        answers.append(await hit(counters))
        clock.now += 10
    assert [verdict.remaining for verdict in answers] == [2, 1, 0]
    assert all(verdict.allowed for verdict in answers)
    refusals = await hit(counters)
    assert (refusals.allowed, refusals.remaining, refusals.limit) == (False, 0, 3)
    assert refusals.reset == 1_000_060
    assert refusals.retry_after == 30
    assert refusals.refusal().headers == {"Retry-After": "30"}


async def test_a_client_that_comes_back_when_told_is_let_in(clock: Seconds) -> None:
    """Retry-After is exact to the second, also at fractions of a second."""
    counters = limiter(clock, ip=1)
    clock.now += 0.4
    await hit(counters)
    clock.now += 20.3
    refusal = await hit(counters)
    clock.now += refusal.retry_after
    assert (await hit(counters)).allowed


async def test_no_minute_whatever_its_start_lets_more_than_the_limit_pass(clock: Seconds) -> None:
    """A fixed window would allow twice as many requests around the start of a minute."""
    counters = limiter(clock, ip=10)
    passes = []
    clock.now += 55
    for _ in range(60):
        if (await hit(counters)).allowed:
            passes.append(clock.now)
        clock.now += 1.5
    assert passes
    assert all(sum(start <= at < start + 60 for at in passes) <= 10 for start in passes)


async def test_refused_requests_do_not_count(clock: Seconds) -> None:
    """A client that keeps trying is allowed when its oldest request is a minute old."""
    counters = limiter(clock, ip=1)
    assert (await hit(counters)).allowed
    for _ in range(59):
        clock.now += 1
        assert not (await hit(counters)).allowed
    clock.now += 1.001
    assert (await hit(counters)).allowed


async def test_identities_and_scopes_are_counted_apart(clock: Seconds) -> None:
    """Another address and an organization of the same name are not counted."""
    counters = limiter(clock, ip=1, organization=1)
    assert (await hit(counters, "a")).allowed
    assert (await hit(counters, "b")).allowed
    assert (await hit(counters, "a", Scope.ORGANIZATION)).allowed
    assert not (await hit(counters, "a")).allowed


async def test_a_question_counts_nothing(clock: Seconds) -> None:
    """Such a question never counts; after the last allowed request it refuses."""
    made = limiter(clock, ip=1)
    for _ in range(3):
        verdict = await made.hit(Scope.IP, "a", count=False)
        assert verdict is not None
        assert verdict.allowed
    await hit(made)
    verdict = await made.hit(Scope.IP, "a", count=False)
    assert verdict is not None
    assert not verdict.allowed


def verdict(scope: Scope, remaining: int, reset: int = 1) -> Verdict:
    """Return a verdict."""
    return Verdict(scope, allowed=True, limit=100, remaining=remaining, reset=reset, retry_after=1)


def test_the_nearest_limit_is_the_one_with_the_fewest_remaining_then_the_later_reset() -> None:
    """The headers show the nearest limit."""
    ip = verdict(Scope.IP, 5)
    fewer, later = verdict(Scope.ORGANIZATION, 4), verdict(Scope.ORGANIZATION, 5, reset=2)
    assert dict(limit_headers([ip, fewer]))[b"x-ratelimit-remaining"] == b"4"
    assert dict(limit_headers([ip, later]))[b"x-ratelimit-reset"] == b"2"
    assert limit_headers([]) == []


def test_the_headers_have_every_limit() -> None:
    """A client sees both limits; the older headers have the nearer one."""
    headers = dict(limit_headers([verdict(Scope.IP, 40, 9), verdict(Scope.ORGANIZATION, 3, 7)]))
    assert headers[b"x-ratelimit-remaining"] == b"3"
    assert headers[b"ratelimit-policy"] == b'"ip";q=100;w=60, "organization";q=100;w=60'
    assert headers[b"ratelimit"] == b'"ip";r=40;t=1, "organization";r=3;t=1'
    assert limit_headers([]) == []


@pytest.mark.parametrize(
    ("url", "known"),
    [
        ("redis://valkey:6379", "async+redis://valkey:6379"),
        ("redis://:valkey@redis:6379/1", "async+redis://:valkey@redis:6379/1"),
        ("valkeys://valkey:6379", "async+rediss://valkey:6379"),
    ],
)
def test_valkey_is_another_name_of_the_scheme_only(url: str, known: str) -> None:
    """A host or a password with that word does not change."""
    assert storage_url(url) == known
