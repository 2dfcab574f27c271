"""The geometry of the charts."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hookwright_api.console.charts import HEIGHT, WIDTH, Charts, charts_of, success_line

BEGIN = datetime(2026, 1, 31, 12, tzinfo=UTC)


def bucket(
    delivered: int = 0, failed_attempts: int = 0, p50: int | None = None, p95: int | None = None
) -> dict[str, int | str | None]:
    """Return the numbers of a bucket in which no delivery made its last retry; its time follows from its place."""
    return {
        "delivered": delivered,
        "failed": 0,
        "attempts": delivered + failed_attempts,
        "failed_attempts": failed_attempts,
        "latency_p50_ms": p50,
        "latency_p95_ms": p95,
    }


def charts(*buckets: dict[str, int | str | None]) -> Charts:
    """Return the charts of buckets of a minute."""
    times = [(BEGIN + timedelta(minutes=index)).isoformat() for index in range(len(buckets) + 1)]
    statistics: dict[str, Any] = {
        "window": "1h",
        "bucket_seconds": 60,
        "since": times[0],
        "until": times[-1],
        "total": bucket(),
        "buckets": [{**bar, "since": at} for bar, at in zip(buckets, times, strict=False)],
    }
    return charts_of(statistics)


def test_an_endpoint_without_deliveries_has_empty_charts() -> None:
    """No division by zero, no bar and no line."""
    chart = charts(*[bucket()] * 60)
    assert len(chart.bars) == 60
    assert all(bar.good == bar.bad == 0 for bar in chart.bars)
    assert (chart.p50, chart.p95, chart.busy) == ([], [], [])
    assert (chart.maximum, chart.slowest) == (1, 1)
    assert chart.bars[30].begin == BEGIN + timedelta(minutes=30)


def test_no_bucket_at_all_is_drawn_too() -> None:
    """Statistics of a later version may have none."""
    assert charts().bars == []


def test_bars_stand_on_the_ground_with_failed_attempts_at_the_top() -> None:
    """Heights are in proportion to the numbers, below a round scale."""
    chart = charts(bucket(30, 10), bucket(0, 0), bucket(20))
    assert chart.maximum == 50
    first, _, last = chart.bars
    assert (first.good, first.bad, first.top) == (72, 24, 24)
    assert (last.good, last.bad, last.top) == (48, 0, 72)
    assert [bar.begin for bar in chart.busy] == [last.begin, first.begin]
    assert last.end - last.begin == timedelta(minutes=1)


def test_one_failure_among_thousands_is_visible() -> None:
    """A bar that is not zero has a least height, and stays within the chart."""
    (bar,) = charts(bucket(1999, 1)).bars
    assert bar.bad >= 1
    assert bar.top >= 0


def test_a_bucket_without_success_interrupts_the_line() -> None:
    """No line is drawn over a time without a measure; a single measure is visible too."""
    chart = charts(bucket(1, p50=40, p95=80), bucket(1, p50=60, p95=90), bucket(), bucket(1, p50=50, p95=100))
    assert chart.slowest == 100
    assert chart.p50 == ["75.0,72 225.0,48", "475.0,60 575.0,60"]
    assert len(chart.p95) == 2


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9), st.none() | st.integers(0, 10**6))))
def test_everything_stays_within_the_chart(numbers: list[tuple[int, int, int | None]]) -> None:
    """Bars do not overlap, and no point is outside, for any numbers."""
    chart = charts(*[bucket(number, failed, p95, p95) for number, failed, p95 in numbers])
    assert all(bar.x >= 0 and bar.x + bar.width <= WIDTH + 0.01 for bar in chart.bars)
    assert all(item.x + item.width <= next_bar.x + 0.01 for item, next_bar in pairwise(chart.bars))
    assert all(-0.11 <= bar.top <= HEIGHT for bar in chart.bars)
    points = [point.split(",") for line in chart.p95 for point in line.split()]
    assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in points)


def test_the_line_of_success_rates_has_a_point_for_each_hour_with_attempts() -> None:
    """Failed attempts count before their delivery fails. A single point is there twice, so that it is visible."""
    buckets = [{"attempts": 0, "failed_attempts": 0}] * 92 + [{"attempts": 4, "failed_attempts": 1}] * 4
    assert success_line(buckets) == "118.0,8.0 118.0,8.0"
    assert success_line(buckets[:92]) == ""
