"""The lifetime of an answer of the API server, and the time without answers."""

import asyncio
import math

import pytest
from support.clock import Seconds

from hookwright_operator.intake.review_cache import Keeping, ReviewAnswer, Reviews
from hookwright_runtime.errors import HookwrightError, KubeError, KubeUnavailable
from hookwright_runtime.places import FullError


class Oracle:
    """An oracle that answers questions, counts them, and can be unavailable."""

    def __init__(self, *, granted: bool = True, lifetime: float = math.inf, holder: str = "acme") -> None:
        self.granted = granted
        self.lifetime = lifetime
        self.holder = holder
        self.fault: HookwrightError | None = None
        self.asked = 0
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(self) -> ReviewAnswer[bool]:
        """Answer."""
        self.asked += 1
        await self.open.wait()
        if self.fault:
            raise self.fault
        return ReviewAnswer(self.granted, granted=self.granted, holder=self.holder, lifetime=self.lifetime)


async def loop_turns() -> None:
    """Run the event loop until no callback is ready."""
    for _ in range(3):
        await asyncio.sleep(0)


KEEPING = Keeping(granted=10, denied=2, stale=60, size=3)


@pytest.fixture
def clock() -> Seconds:
    """Return a clock that only the test moves."""
    return Seconds()


@pytest.fixture
def reviews(clock: Seconds) -> Reviews[bool]:
    """Return an empty cache of answers."""
    return Reviews(KEEPING, now=clock)


@pytest.mark.parametrize(("oracle", "holds"), [(Oracle(granted=True), 10.0), (Oracle(granted=False), 2.0)])
async def test_an_answer_holds_for_its_time_and_no_longer(
    reviews: Reviews[bool],
    clock: Seconds,
    oracle: Oracle,
    holds: float,
) -> None:
    """A grant is cached for ten seconds, a denial for two."""
    for moment, value in ((0, 1), (holds / 2 - 0.001, 1), (holds / 2 + 0.001, 2)):
        clock.now += moment
        assert await reviews.get("key", oracle) is oracle.granted
        assert oracle.asked == value


async def test_expired_denials_leave_a_cache_that_is_not_full(clock: Seconds) -> None:
    """The next answer removes them; a fresh denial stays."""
    reviews: Reviews[bool] = Reviews(Keeping(denied=2, size=100), now=clock)
    for number in range(10):
        await reviews.get(number, Oracle(granted=False))
    clock.now += 1
    await reviews.get("fresh", Oracle(granted=False))
    clock.now += 1.5
    await reviews.get("granted", Oracle())
    assert [*reviews._denied._values] == ["fresh"]


async def test_a_grant_in_use_is_renewed_before_it_expires(reviews: Reviews[bool], clock: Seconds) -> None:
    """From half of the lifetime on, one renewal runs in the background, and requests do not wait for it."""
    oracle = Oracle()
    await reviews.get("key", oracle)
    oracle.open.clear()
    for _ in range(3):
        clock.now += 1.7
        assert await reviews.get("key", oracle) is True
    await loop_turns()
    assert oracle.asked == 2
    oracle.open.set()
    await loop_turns()
    clock.now += 4.9
    assert await reviews.get("key", oracle) is True
    assert oracle.asked == 2, "the renewed grant holds from its own answer on"


async def test_a_renewal_that_is_denied_ends_the_grant(reviews: Reviews[bool], clock: Seconds) -> None:
    """The request that starts the renewal is still served; the next one is refused."""
    oracle = Oracle()
    await reviews.get("key", oracle)
    oracle.granted = False
    clock.now += 5
    assert await reviews.get("key", oracle) is True
    await loop_turns()
    assert await reviews.get("key", oracle) is False


async def test_a_renewal_that_fails_leaves_the_grant_its_time(reviews: Reviews[bool], clock: Seconds) -> None:
    """While the API server is unavailable, one renewal a second is tried. A refused question does not end the grant."""
    oracle = Oracle()
    await reviews.get("key", oracle)
    for fault, value in ((KubeUnavailable("away"), 2), (KubeError("tokenreviews is forbidden", status=403), 3)):
        oracle.fault = fault
        clock.now += 2.5 if value == 3 else 5
        assert await reviews.get("key", oracle) is True
        await loop_turns()
        assert oracle.asked == value
    clock.now += 2.5
    with pytest.raises(KubeError):
        await reviews.get("key", oracle)


async def test_a_denial_is_not_renewed(reviews: Reviews[bool], clock: Seconds) -> None:
    """A flood of wrong tokens causes only the reviews of its requests."""
    oracle = Oracle(granted=False)
    await reviews.get("key", oracle)
    clock.now += 1.9
    await reviews.get("key", oracle)
    await loop_turns()
    assert oracle.asked == 1


async def test_a_requester_that_leaves_does_not_take_the_answer_from_the_others(reviews: Reviews[bool]) -> None:
    """The cancellation of one waiter does not cancel the request."""
    oracle = Oracle()
    oracle.open.clear()
    leaving = asyncio.create_task(reviews.get("key", oracle))
    staying = asyncio.create_task(reviews.get("key", oracle))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    oracle.open.set()
    assert await staying is True
    assert oracle.asked == 1


@pytest.mark.parametrize("fault", [KubeUnavailable("away"), FullError(503, "full")])
async def test_while_no_review_is_possible_a_recent_grant_serves(
    reviews: Reviews[bool], clock: Seconds, fault: HookwrightError
) -> None:
    """The grant serves for a minute after the answer, with one question a second."""
    oracle = Oracle()
    await reviews.get("key", oracle)
    oracle.fault = fault
    clock.now += 10
    assert await reviews.get("key", oracle) is True
    assert await reviews.get("key", oracle) is True
    assert oracle.asked == 2
    clock.now += 49.999
    assert await reviews.get("key", oracle) is True
    clock.now += 0.001
    with pytest.raises(type(fault)):
        await reviews.get("key", oracle)


async def test_after_the_api_server_came_back_a_revocation_counts(reviews: Reviews[bool], clock: Seconds) -> None:
    """The first denial removes an old grant."""
    oracle = Oracle()
    await reviews.get("key", oracle)
    clock.now += 10
    oracle.granted = False
    assert await reviews.get("key", oracle) is False
    oracle.fault = KubeUnavailable("away")
    clock.now += 2
    with pytest.raises(KubeUnavailable):
        await reviews.get("key", oracle)


async def test_a_flood_of_denials_pushes_no_grant_out(reviews: Reviews[bool]) -> None:
    """Wrong tokens do not evict the grants of other senders."""
    oracle = Oracle()
    await reviews.get("key", oracle)
    for number in range(100):
        await reviews.get(number, Oracle(granted=False))
    await reviews.get("key", oracle)
    assert oracle.asked == 1


async def test_what_was_not_used_for_longest_goes_first(reviews: Reviews[bool]) -> None:
    """The size limits the memory, and use keeps an answer in the cache."""
    oracles = {key: Oracle() for key in "abcd"}
    for key in "abcadabcd":
        await reviews.get(key, oracles[key])
    assert {key: oracle.asked for key, oracle in oracles.items()} == {"a": 1, "b": 2, "c": 2, "d": 2}


async def test_one_holder_evicts_only_its_own_grants(clock: Seconds) -> None:
    """A holder alone uses the whole cache; beside others it loses its own oldest grants, and never theirs."""
    reviews: Reviews[bool] = Reviews(Keeping(size=8), now=clock)
    hostile = [Oracle(holder="hostile") for _ in range(20)]
    rest = {name: Oracle(holder=name) for name in ("acme", "globex")}
    for oracle in hostile[:8] * 2:
        await reviews.get(oracle, oracle)
    assert [oracle.asked for oracle in hostile[:8]] == [1] * 8
    for _ in range(3):
        for name, oracle in rest.items():
            await reviews.get(name, oracle)
        for oracle in hostile:
            await reviews.get(oracle, oracle)
    assert [oracle.asked for oracle in rest.values()] == [1, 1]
    newest = hostile[-6:]
    before = [oracle.asked for oracle in newest]
    for oracle in newest:
        await reviews.get(oracle, oracle)
    assert [oracle.asked for oracle in newest] == before


async def test_a_denied_renewal_leaves_its_place_to_others(clock: Seconds) -> None:
    """A grant that became a denial no longer counts for its holder."""
    reviews: Reviews[bool] = Reviews(Keeping(size=2), now=clock)
    oracles = {key: Oracle(holder=key[:1]) for key in ("a1", "a2", "b1")}
    for key in ("a1", "a2"):
        await reviews.get(key, oracles[key])
    oracles["a1"].granted = False
    clock.now += 10
    for key in ("a1", "a2", "b1", "a2", "b1"):
        await reviews.get(key, oracles[key])
    assert {key: oracle.asked for key, oracle in oracles.items()} == {"a1": 2, "a2": 2, "b1": 1}
