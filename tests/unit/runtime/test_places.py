"""Places: bounds that hold in every order of calls, and turns between holders."""

import asyncio
import time
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwright_runtime.bounds import BOUNDS, UNLIMITED, Bound
from hookwright_runtime.places import FullError, Places, finished

HOLDERS = "abc"
STEPS = st.lists(
    st.tuples(st.sampled_from(["acquire", "end", "cancel", "pass"]), st.sampled_from(HOLDERS), st.integers(0, 9))
)


def bound(total: int = 50, each: int = 20, **others: int) -> Bound:
    """Return a bound; one has a place at once, unless the arguments say otherwise."""
    return Bound("requests", total, each, **{"at_once": 1, **others})  # type: ignore[arg-type]


class Users:
    """Users of places, each numbered in the order of its arrival behind the name of its holder."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.began: list[str] = []
        self.held: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.weights: dict[str, int] = {}

    async def start(self, holders: str, weight: int = 1) -> None:
        """Start a user of each holder."""
        for holder in holders:
            user = f"{holder}{len(self.tasks) + 1}"
            self.weights[user] = weight
            self.tasks[user] = asyncio.create_task(self._use(holder, user))
        await self.settle()

    async def end(self, user: str) -> None:
        """Let a user release its place."""
        self.held[user].set()
        await self.settle()

    async def settle(self) -> None:
        """Let every task go on that can."""
        for _ in range(6):
            await asyncio.sleep(0)

    async def drain(self) -> list[str]:
        """Return all users in the order in which they began, after each one has ended."""
        while self.held:
            await self.end(next(iter(self.held)))
        return self.began

    async def _use(self, holder: str, user: str) -> None:
        with await self._places.acquire(holder, self.weights[user]):
            self.began.append(user)
            end = self.held[user] = asyncio.Event()
            try:
                await end.wait()
            finally:
                del self.held[user]


async def test_a_holder_that_comes_last_waits_for_one_request_of_each_other_holder() -> None:
    """However many requests the others have. Those of one holder begin in the order of their arrival."""
    places = Users(Places(bound()))
    await places.start("aaabbbc")
    assert await places.drain() == ["a1", "b4", "c7", "a2", "b5", "a3", "b6"]


async def test_a_holder_at_its_bound_is_passed_over() -> None:
    """Other holders get the free places, and the holder gets one when it has released one."""
    places = Users(Places(bound(at_once=3, at_once_each=2)))
    await places.start("aaab")
    assert places.began == ["a1", "a2", "b4"]
    await places.start("c")
    await places.end("b4")
    assert places.began[3:] == ["c5"]
    await places.end("a1")
    assert places.began[4:] == ["a3"]


async def test_a_holder_without_a_place_is_before_one_with_a_place() -> None:
    """The reserved part of the places is only for those without one."""
    places = Users(Places(bound(at_once=4, at_once_reserved=2)))
    await places.start("aaabbcd")
    assert places.began == ["a1", "a2", "b4", "c6"]
    await places.end("b4")
    await places.end("c6")
    assert places.began[4:] == ["d7", "b5"]
    await places.end("d7")
    assert places.began[6:] == []


async def test_requests_that_wait_and_those_with_a_place_count_for_both_bounds() -> None:
    """A holder at its bound gets a 429, and one beyond the bound of all a 503; both name the bound and a time."""
    places = Places(bound(3, 2))
    waiting = Users(places)
    await waiting.start("aa")
    with pytest.raises(FullError, match=r'^namespace "a" has 2 requests in progress') as refusal:
        await places.acquire("a")
    assert (refusal.value.status, refusal.value.headers) == (429, {"Retry-After": "1"})
    await waiting.start("b")
    with pytest.raises(FullError, match=r"^3 requests are in progress") as refusal:
        await places.acquire("c")
    assert (refusal.value.status, refusal.value.headers) == (503, {"Retry-After": "5"})
    assert places.count == 3
    assert await waiting.drain() == ["a1", "b3", "a2"]


def test_a_refusal_names_a_holder_in_words_and_bytes_in_mib() -> None:
    """The holders of such places are of several kinds."""
    places = Places(Bound("of incomplete bodies", 64 << 20, 16 << 20))
    with pytest.raises(FullError, match=r'^client "x" has 16 MiB of incomplete bodies in progress'):
        places.take('client "x"', 17 << 20)


@pytest.mark.parametrize("line", [item for item in BOUNDS if item.reserved], ids=lambda item: item.things)
def test_a_few_holders_leave_places_for_newcomers(line: Bound) -> None:
    """Hostile holders take as much as they get, and as many others as places are reserved still get one each."""
    places, total = Places(line), line.total
    hostiles = -(-(total - line.reserved) // line.each)
    for number in range(2 * total):
        with suppress(FullError):
            places.take(f"hostile-{number % hostiles}")
    for number in range(line.reserved):
        places.take(f"other-{number}")
    assert places.count == total


async def test_a_heavy_request_counts_as_several() -> None:
    """Until it returns its place, or is cancelled while it waits, or its work has ended."""
    places = Places(bound(4, 3))
    with await places.acquire("a"):
        heavy = asyncio.create_task(places.acquire("a", 2))
        await asyncio.sleep(0)
        with pytest.raises(FullError):
            await places.acquire("a")
        heavy.cancel()
        await asyncio.gather(heavy, return_exceptions=True)
    with await places.acquire("a", 3):
        assert places.largest_use == 1.0
        with pytest.raises(FullError):
            await places.run("a", _work(), 1)
    for _ in range(2):
        assert await places.run("a", _work(), 3) == "done"
    assert places.largest_use == 0.0


def test_a_function_is_called_in_its_turn() -> None:
    """At once if there is a place; the place is returned by the caller."""
    places, called = Places(bound(at_once_each=1)), list[int]()
    for number, holder in enumerate("aab"):
        places.enqueue(holder, partial(called.append, number))
    assert called == [0]
    assert places.holds_all("a")
    places.end("a")
    places.end("b")
    assert called == [0, 2, 1]


async def test_a_place_is_kept_as_long_as_its_context() -> None:
    """Also beyond the block in which it was acquired, for example until an answer is read; an error returns it."""
    places = Places(bound(UNLIMITED, 2, at_once_each=1))
    with await places.acquire("a") as place:
        remainder = place.pop_all()
    waiting = Users(places)
    await waiting.start("a")
    assert waiting.began == []
    remainder.close()
    assert await waiting.drain() == []
    await waiting.settle()
    assert await waiting.drain() == ["a1"]
    with suppress(LookupError), await places.acquire("a"):
        raise LookupError
    assert places.count == 0


def _work() -> Generator[None, None, str]:
    yield
    return "done"


async def test_other_ready_work_runs_between_two_places_with_a_pause() -> None:
    """Each of many requests that are ready at once waits for a pass of the event loop."""
    places, passes = Places(bound(each=50), pause=True), 0
    starts: list[int] = []

    async def work() -> None:
        with await places.acquire("a"):
            starts.append(passes)

    tasks = [asyncio.create_task(work()) for _ in range(20)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        passes += 1
    assert len(set(starts)) == len(starts)


async def test_after_a_long_step_other_work_gets_twice_its_time() -> None:
    """The loop accepts one connection in a pass, so one pass between two long steps would keep newcomers waiting."""
    places, long = Places(bound(3, 3), pause=True), 0.05
    starts: list[float] = []

    def work() -> Generator[None, None, None]:
        for _ in range(2):
            starts.append(time.perf_counter())
            end = time.thread_time() + long
            while time.thread_time() < end:
                pass
            yield

    await asyncio.gather(places.run("a", work()), places.run("a", work()))
    assert all(later - earlier > 2.8 * long for earlier, later in pairwise(starts))


async def test_holders_take_turns_between_the_steps_of_a_work() -> None:
    """The work of another holder is not delayed until the end of the first one; that of the same holder is."""
    places, results = Places(bound(3, 2), pause=True), []

    def work(holder: str, steps: int) -> Generator[None, None, str]:
        for step in range(steps):
            results.append(f"{holder}{step}")
            yield
        return holder

    works = [places.run("a", work("a", 5)), places.run("a", work("A", 2)), places.run("b", work("b", 2))]
    assert await asyncio.gather(*works) == ["a", "A", "b"]
    assert results == ["a0", "b0", "a1", "b1", "a2", "a3", "a4", "A0", "A1"]
    assert finished(work("c", 3)) == "c"


@given(
    STEPS,
    st.booleans(),
    st.builds(
        bound,
        st.sampled_from([UNLIMITED, 6]),
        st.sampled_from([3, 4]),
        reserved=st.integers(0, 2),
        at_once=st.sampled_from([UNLIMITED, 3]),
        at_once_each=st.sampled_from([UNLIMITED, 2]),
        at_once_reserved=st.integers(0, 2),
    ),
)
def test_the_bounds_hold_in_every_order_of_calls(
    steps: list[tuple[str, str, int]],
    pause: bool,  # noqa: FBT001
    line: Bound,
) -> None:
    """No bound is exceeded, no place is lost, those of a holder keep their order, and no empty holder is remembered."""
    asyncio.run(_check_bounds(steps, line, pause=pause))


async def _check_bounds(steps: list[tuple[str, str, int]], line: Bound, *, pause: bool) -> None:
    places = Places(line, pause=pause)
    waiting = Users(places)
    for step, holder, choice in steps:
        if step == "acquire":
            present = {user: waiting.weights[user] for user, task in waiting.tasks.items() if not task.done()}
            weight = 1 + choice % 2
            await waiting.start(holder, weight)
            refusal = next(reversed(waiting.tasks.values()))
            mine = sum(weight for user, weight in present.items() if user[0] == holder)
            is_full = sum(present.values()) + weight > line.total - (line.reserved if mine else 0)
            is_refused = refusal.done() and isinstance(refusal.exception(), FullError)
            assert is_refused == (is_full or mine + weight > line.each)
        elif step == "pass":
            await asyncio.sleep(0)
        elif step == "end" and waiting.held:
            await waiting.end(list(waiting.held)[choice % len(waiting.held)])
        elif step == "cancel" and waiting.tasks:
            user = list(waiting.tasks)[choice % len(waiting.tasks)]
            if user in waiting.held and choice % 2:
                # The place may be given to the next request in the same pass.
                waiting.held[user].set()
            waiting.tasks[user].cancel()
            await waiting.settle()
        await _check_busy(waiting, line)
    for holder in HOLDERS:
        numbers = [int(user[1:]) for user in waiting.began if user[0] == holder]
        assert numbers == sorted(numbers)
    for task in waiting.tasks.values():
        task.cancel()
    await asyncio.gather(*waiting.tasks.values(), return_exceptions=True)
    await waiting.settle()
    assert (waiting.held, places.count) == ({}, 0)
    assert not any((places._counts, places._held, places._waiting, places._turns))
    again = Users(places)
    await again.start("abc")
    assert await again.drain() == ["a1", "b2", "c3"]


async def _check_busy(waiting: Users, line: Bound) -> None:
    """The bounds hold, and no request waits while a place is free for its holder."""
    await waiting.settle()
    counts = Counter(user[0] for user in waiting.held)
    assert counts.total() <= line.at_once
    assert all(number <= line.at_once_each for number in counts.values())
    for user, task in waiting.tasks.items():
        mine = counts[user[0]]
        free = line.at_once - counts.total() - (line.at_once_reserved if mine else 0)
        assert task.done() or user in waiting.held or free <= 0 or mine == line.at_once_each
