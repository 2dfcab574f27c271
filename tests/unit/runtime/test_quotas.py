"""Quotas: neither one holder nor all together exceed their limit."""

from hypothesis import given
from hypothesis import strategies as st

from hookwright_runtime.quotas import Full, Quotas


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4), st.booleans())))
def test_no_bound_is_ever_exceeded(steps: list[tuple[str, int, bool]]) -> None:
    """A refused amount changes nothing, and a taken amount can be released."""
    shares, taken = Quotas(total=7, each=4), {"a": 0, "b": 0, "c": 0}
    for holder, amount, taking in steps:
        if taking:
            full = shares.take(holder, amount)
            assert (full is Full.HOLDER) == (taken[holder] + amount > 4)
            if full is None:
                taken[holder] += amount
        elif taken[holder] >= amount:
            shares.release(holder, amount)
            taken[holder] -= amount
        assert shares.held == sum(taken.values()) <= 7


def test_the_reserved_part_admits_only_newcomers() -> None:
    """Holders with an amount stop before the reserved part, in which each newcomer gets its first amount."""
    shares = Quotas(total=8, each=4, reserved=2)
    assert [shares.take(holder) for holder in "aaaabb"] == [None] * 6
    assert [shares.take(holder) for holder in "abcd"] == [Full.HOLDER, Full.TOTAL, None, None]
    assert [shares.take(holder) for holder in "ce"] == [Full.TOTAL, Full.TOTAL]
    shares.release("c")
    assert shares.take("e") is None
