"""Pure: the geometry of an endpoint's charts: attempts by result, and latencies, over the buckets of statistics.

Templates draw it as SVG from these numbers. No text of a tenant is in a chart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

WIDTH: Final = 600
HEIGHT: Final = 120
"""The units of every chart; the style sheet stretches them to the page."""
_GAP: Final = 0.2
"""The part of a bucket's width that is empty beside its bar."""
_LEAST: Final = 1.5
"""The least height of a bar that is not zero, so that one failure among thousands is visible."""
_STEPS: Final = (1, 2, 5)
WINDOWS: Final = {"1h": "1 hour", "24h": "24 hours", "7d": "7 days"}
"""The windows of statistics, with their titles."""


@dataclass(frozen=True, slots=True)
class Bar:
    """The attempts of one bucket, as two rectangles over each other: successful ones below failed ones.

    Attributes:
        x: the left edge.
        width: of both rectangles.
        good: the height of the lower rectangle.
        bad: the height of the upper one.
        begin: of the bucket.
        end: of the bucket.
        delivered: deliveries that became delivered.
        failed: deliveries that became failed.
        attempts: all attempts.
        failed_attempts: the number of the upper rectangle.
        p50: median of the latency in milliseconds, None without a success.
        p95: the same for the slowest 5 %.
    """

    x: float
    width: float
    good: float
    bad: float
    begin: datetime
    end: datetime
    delivered: int
    failed: int
    attempts: int
    failed_attempts: int
    p50: int | None
    p95: int | None

    @property
    def top(self) -> float:
        """The upper edge of the upper rectangle."""
        return round(HEIGHT - self.good - self.bad, 1)


@dataclass(frozen=True, slots=True)
class Charts:
    """Both charts of an endpoint.

    Attributes:
        bars: one for each bucket, the oldest first.
        most: the number at the top of the bars' scale.
        p50: lines of the median, each the points of an SVG polyline; a bucket without a success ends a line.
        p95: the same for the slowest 5 %.
        slowest: the milliseconds at the top of the scale of latencies.
        begin: of the first bucket.
        end: of the last one.
        delivered: of all buckets.
        failed: of all buckets.
        attempts: of all buckets.
        failed_attempts: of all buckets.
        typical: the median of the whole window, None without a success.
        slow: the same for the slowest 5 %.
    """

    bars: tuple[Bar, ...]
    most: int
    p50: tuple[str, ...]
    p95: tuple[str, ...]
    slowest: int
    begin: datetime
    end: datetime
    delivered: int
    failed: int
    attempts: int
    failed_attempts: int
    typical: int | None
    slow: int | None

    @property
    def busy(self) -> tuple[Bar, ...]:
        """The buckets in which something happened, the newest first."""
        return tuple(bar for bar in reversed(self.bars) if bar.attempts or bar.delivered or bar.failed)

    @property
    def middle(self) -> datetime:
        """The time in the middle of the charts."""
        return self.begin + (self.end - self.begin) / 2


def charts_of(statistics: Mapping[str, Any]) -> Charts:
    """Return the charts of the statistics that ``/v1`` returns."""
    buckets: Sequence[Mapping[str, Any]] = statistics["buckets"]
    most = _round_up(max((one["attempts"] for one in buckets), default=0))
    slowest = _round_up(max((one["latency_p95_ms"] or 0 for one in buckets), default=0))
    length = timedelta(seconds=statistics["bucket_seconds"])
    step = WIDTH / max(1, len(buckets))
    total = statistics["total"]
    return Charts(
        bars=tuple(_bar(one, index * step, step, most, length) for index, one in enumerate(buckets)),
        most=most,
        p50=_lines([one["latency_p50_ms"] for one in buckets], step, slowest),
        p95=_lines([one["latency_p95_ms"] for one in buckets], step, slowest),
        slowest=slowest,
        begin=datetime.fromisoformat(statistics["since"]),
        end=datetime.fromisoformat(statistics["until"]),
        delivered=total["delivered"],
        failed=total["failed"],
        attempts=total["attempts"],
        failed_attempts=total["failed_attempts"],
        typical=total["latency_p50_ms"],
        slow=total["latency_p95_ms"],
    )


def _bar(bucket: Mapping[str, Any], left: float, step: float, most: int, length: timedelta) -> Bar:
    begin = datetime.fromisoformat(bucket["since"])
    attempts, failed_attempts = bucket["attempts"], bucket["failed_attempts"]
    bad = _height(failed_attempts, most)
    return Bar(
        x=round(left + step * _GAP / 2, 2),
        width=round(step * (1 - _GAP), 2),
        good=min(_height(attempts - failed_attempts, most), HEIGHT - bad),
        bad=bad,
        begin=begin,
        end=begin + length,
        delivered=bucket["delivered"],
        failed=bucket["failed"],
        attempts=attempts,
        failed_attempts=failed_attempts,
        p50=bucket["latency_p50_ms"],
        p95=bucket["latency_p95_ms"],
    )


def _height(number: int, most: int) -> float:
    return round(max(_LEAST, HEIGHT * number / most), 1) if number else 0.0


def _lines(values: Sequence[int | None], step: float, slowest: int) -> tuple[str, ...]:
    """Return a line for each run of known values; a run of one value is a short line, because a point has no length."""
    lines: list[list[str]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            lines.append([])
            continue
        y = round(HEIGHT - HEIGHT * value / slowest, 1)
        middle = (index + 0.5) * step
        following = values[index + 1] if index + 1 < len(values) else None
        alone = not lines[-1] and following is None
        for x in (middle - step / 3, middle + step / 3) if alone else (middle,):
            lines[-1].append(f"{x:.1f},{y:g}")
    return tuple(" ".join(line) for line in lines if line)


def _round_up(number: int) -> int:
    """Return the least of 1, 2, 5, 10, 20, 50, … that is not below the number."""
    scale = 1
    while True:
        for step in _STEPS:
            if number <= step * scale:
                return step * scale
        scale *= 10
