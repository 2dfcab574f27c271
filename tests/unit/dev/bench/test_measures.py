"""Figures are reduced to their median, compared with their mark, and formatted for people."""

import pytest

from hookwright_dev.bench.figures import PER_SECOND, SHARE, Measure, comparisons, medians, verdict


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


def test_postgresql_is_compared_with_sqlite_where_both_were_measured() -> None:
    """Shares of the ceiling are divided, because the machine's speed changes between two loads."""
    measures = [
        Measure("throughput.1.share", "deliveries/s, 1 endpoint", 8.0, SHARE),
        Measure("postgres.1.1.share", "deliveries/s, PostgreSQL, 1 replica, 1 endpoint", 6.0, SHARE),
        Measure("throughput.fan.share", "deliveries/s, each event to 10 endpoints", 8.0, SHARE),
    ]
    [comparison] = comparisons(measures)
    assert (comparison.key, comparison.value, verdict(comparison)) == ("postgres.1.1.factor", 0.75, "missed")
