"""Figures are reduced to their median, compared with their mark, and formatted for people."""

import pytest

from hookwright_dev.bench.figures import PER_SECOND, SHARE, Measure, medians, verdict


def test_of_several_runs_the_median_counts() -> None:
    """One slow run does not change the median."""
    runs = [
        [Measure("a.rate", "a", value, PER_SECOND), Measure("b.rate", "b", 10 * value, PER_SECOND)]
        for value in (3.0, 1.0, 2.0)
    ]
    assert medians(runs) == [Measure("a.rate", "a", 2.0, PER_SECOND), Measure("b.rate", "b", 20.0, PER_SECOND)]


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("throughput.1.share", 7.0, "met"),
        ("throughput.1.share", 6.99, "missed"),
        ("latency.p99", 10.0, "met"),
        ("latency.p99", 10.01, "missed"),
        ("throughput.1.direct", 1.0, ""),
    ],
)
def test_a_mark_holds_at_its_bound(key: str, value: float, word: str) -> None:
    """A value equal to the bound passes; a figure without a mark has no result."""
    assert verdict(Measure(key, "x", value, SHARE)) == word
