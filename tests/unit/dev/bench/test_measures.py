"""Figures are reduced to their median, compared with their mark, and formatted for people."""

import pytest

from hookwright_dev.bench.marks import MARKS, Mark, verdict
from hookwright_dev.bench.measures import CPU, MILLISECONDS, PER_SECOND, SHARE, Measure, case_of, medians, shown


def test_of_several_runs_the_median_counts_and_every_run_is_kept() -> None:
    """One slow run does not change the median, and stays visible."""
    runs = [
        [Measure("a.rate", "a", value, PER_SECOND), Measure("b.rate", "b", 10 * value, PER_SECOND)]
        for value in (3.0, 1.0, 2.0)
    ]
    assert medians(runs) == [
        Measure("a.rate", "a", 2.0, PER_SECOND, (3.0, 1.0, 2.0)),
        Measure("b.rate", "b", 20.0, PER_SECOND, (30.0, 10.0, 20.0)),
    ]


def test_a_single_run_is_no_median() -> None:
    """The figure is the run."""
    assert medians([[Measure("a", "a", 7.0, PER_SECOND)]]) == [Measure("a", "a", 7.0, PER_SECOND)]


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


def test_every_mark_tells_its_direction() -> None:
    """Throughput must be high; time, memory and CPU must be low."""
    high = {key for key, mark in MARKS.items() if mark.at_least}
    assert high == {key for key in MARKS if key.endswith((".share", ".rate", ".factor"))}
    assert str(Mark(1000, at_least=True)) == "≥ 1,000"
    assert str(Mark(0.45, at_least=False)) == "≤ 0.45"


@pytest.mark.parametrize(
    ("value", "text"), [(31_234.5, "31,234"), (100.4, "100"), (12.34, "12.3"), (0.345, "0.34"), (4.0, "4.00")]
)
def test_a_value_is_shown_with_three_digits_or_so(value: float, text: str) -> None:
    """More digits would suggest a precision that no run has."""
    assert shown(Measure("a", "a", value, CPU)) == text


def test_the_case_is_the_first_part_of_the_key() -> None:
    """The table is grouped by case."""
    assert case_of(Measure("hang.all.p99", "x", 1.0, MILLISECONDS)) == "hang"
