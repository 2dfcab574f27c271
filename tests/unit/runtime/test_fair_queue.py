"""The fair queue: bounds that hold in every order of calls, and turns between holders."""

from hypothesis import given
from hypothesis import strategies as st

from hookwright_runtime.fair_queue import FairQueue
from hookwright_runtime.quotas import Full

HOLDERS = "abc"
STEPS = st.lists(st.tuples(st.sampled_from(["add", "begin", "leave"]), st.sampled_from(HOLDERS), st.integers(0, 9)))


class Queue:
    """A queue whose items are numbered in the order of their arrival; the first character is the holder."""

    def __init__(self, *, places: int = 1, each: int = 5, total: int = 50) -> None:
        self._queue: FairQueue[str] = FairQueue(places=places, each=each, total=total)
        self._number = 0

    def add(self, holder: str) -> Full | None:
        """Let one more item of a holder wait."""
        self._number += 1
        return self._queue.add(holder, f"{holder}{self._number}")

    def add_all(self, holders: str) -> None:
        """Let an item of each holder wait."""
        assert [self.add(holder) for holder in holders] == [None] * len(holders)

    def begin(self) -> str | None:
        """Let the next item begin, and return it."""
        return self._queue.begin()

    def leave(self, item: str) -> None:
        """Remove an item."""
        self._queue.leave(item[0], item)

    def drained(self) -> list[str]:
        """Return the items in the order in which they begin, if each leaves when it has begun."""
        order = []
        while (item := self.begin()) is not None:
            order.append(item)
            self.leave(item)
        return order


def test_a_holder_that_comes_last_waits_for_one_item_of_each_other_holder() -> None:
    """However many items the others have. The items of one holder begin in the order of their arrival."""
    made = Queue()
    made.add_all("aaabbbc")
    assert made.drained() == ["a1", "b4", "c7", "a2", "b5", "a3", "b6"]


def test_a_holder_that_adds_again_waits_behind_the_others() -> None:
    """Its turn comes after one item of each holder that waits already."""
    made = Queue()
    made.add_all("abb")
    assert made.begin() == "a1"
    made.add_all("aa")
    made.leave("a1")
    assert made.drained() == ["b2", "a4", "b3", "a5"]


def test_an_item_that_leaves_early_gives_its_turn_to_the_next_one() -> None:
    """Neither its place nor its turn is lost."""
    made = Queue()
    made.add_all("abbc")
    made.leave("b2")
    made.leave("a1")
    assert made.drained() == ["b3", "c4"]
    made.add_all("b")
    assert made.drained() == ["b5"]


def test_no_more_items_begin_than_there_are_places() -> None:
    """The next one begins when a place is free."""
    made = Queue(places=2)
    made.add_all("abc")
    assert [made.begin(), made.begin(), made.begin()] == ["a1", "b2", None]
    made.leave("b2")
    assert made.begin() == "c3"


def test_items_that_wait_and_items_with_a_place_count_for_both_bounds() -> None:
    """A holder at its bound, and a further one beyond the bound of all."""
    made = Queue(each=2, total=3)
    made.add_all("aa")
    assert made.begin() == "a1"
    assert made.add("a") is Full.HOLDER
    made.add_all("b")
    assert made.add("c") is Full.TOTAL
    made.leave("a1")
    made.add_all("c")


@given(STEPS)
def test_the_bounds_hold_in_every_order_of_calls(steps: list[tuple[str, str, int]]) -> None:
    """No bound is exceeded, no item begins twice or after it left, and at the end every place is free."""
    made: FairQueue[tuple[str, int]] = FairQueue(places=2, each=2, total=4)
    waiting: list[tuple[str, int]] = []
    running: list[tuple[str, int]] = []
    for number, (step, holder, choice) in enumerate(steps):
        both = waiting + running
        if step == "add":
            mine = sum(one[0] == holder for one in both)
            expected = Full.HOLDER if mine == 2 else Full.TOTAL if len(both) == 4 else None
            assert made.add(holder, (holder, number)) is expected
            if expected is None:
                waiting.append((holder, number))
        elif step == "begin":
            item = made.begin()
            assert (item is None) == (not waiting or len(running) == 2)
            if item is not None:
                waiting.remove(item)
                running.append(item)
        elif both:
            item = both[choice % len(both)]
            made.leave(item[0], item)
            (waiting if item in waiting else running).remove(item)
    for item in waiting + running:
        made.leave(item[0], item)
    for number in range(2):
        assert made.add("a", ("a", number)) is None
    assert [made.begin(), made.begin()] == [("a", 0), ("a", 1)]
