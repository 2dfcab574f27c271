"""Percentiles of latencies that are counted in classes."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwright_operator.store.latency_classes import LATENCY_BOUNDS_MS, class_of, percentile


def counted(latencies: list[int]) -> list[int]:
    """Return the counts of the classes."""
    counts = [0] * len(LATENCY_BOUNDS_MS)
    for latency in latencies:
        counts[class_of(latency)] += 1
    return counts


@given(st.lists(st.integers(0, 30_000), min_size=1, max_size=50), st.sampled_from([0.01, 0.5, 0.95, 1.0]))
def test_a_percentile_is_in_the_class_of_the_exact_one(latencies: list[int], share: float) -> None:
    """The class of the interpolated latency is the class of the latency with this rank."""
    exact = sorted(latencies)[ceil(share * len(latencies)) - 1]

    text = percentile(counted(latencies), share)

    number = class_of(exact)
    lower = LATENCY_BOUNDS_MS[number - 1] if number else 0
    assert text is not None
    assert lower <= text <= LATENCY_BOUNDS_MS[number]


@pytest.mark.parametrize(
    ("latencies", "share", "told"),
    [
        ([], 0.5, None),
        ([7], 0.5, 8),
        ([7], 1.0, 10),
        ([60] * 10, 0.5, 75),
        ([60] * 10, 0.95, 98),
        ([3] * 50 + [700] * 50, 0.5, 5),
        ([3] * 50 + [700] * 50, 0.95, 950),
        ([31_000], 1.0, 30_000),
        ([90_000] * 4, 0.5, 20_000),
    ],
)
def test_latencies_are_interpolated_within_their_class(latencies: list[int], share: float, told: int | None) -> None:
    """The latencies of a class count as evenly spread, and the last class ends at 30 s."""
    assert percentile(counted(latencies), share) == told


def test_a_bound_belongs_to_the_lower_class() -> None:
    """A latency of exactly 5 ms is in the first class, and 6 ms in the second."""
    assert [class_of(latency) for latency in (0, 5, 6, 10, 30_000, 30_001)] == [0, 0, 1, 1, 11, 11]
