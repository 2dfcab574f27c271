"""Pure: the geometry of charts over the buckets of statistics: attempts by result, latencies and success rates.

Templates draw it as SVG from these numbers. No text of a tenant is in a chart.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final, NamedTuple

WIDTH: Final = 600
HEIGHT: Final = 120
"""The units of the charts of an endpoint; the style sheet stretches them to the page."""
_GAP: Final = 0.2
"""The part of a bucket's width that is empty beside its bar."""
_MIN_HEIGHT: Final = 1.5
"""The least height of a bar that is not zero, so that one failure among thousands is visible."""
_STEPS: Final = (1, 2, 5)
WINDOWS: Final = {"1h": "1 hour", "24h": "24 hours", "7d": "7 days"}
"""The windows of statistics, with their titles."""
_LINE_SIZE: Final = (120, 28)
_LINE_MARGIN: Final = 2
_LINE_POINTS: Final = 24


class Bar(NamedTuple):
    """The attempts of one bucket, as two rectangles over each other: successful ones below failed ones.

    Attributes:
        x: the left edge.
        width: of both rectangles.
        good: the height of the lower rectangle.
        bad: the height of the upper one.
        begin: of the bucket.
        end: of the bucket.
        numbers: of the bucket, as ``/v1`` returns them.
    """

    x: float
    width: float
    good: float
    bad: float
    begin: datetime
    end: datetime
    numbers: Mapping[str, Any]

    @property
    def top(self) -> float:
        """The upper edge of the upper rectangle."""
        return round(HEIGHT - self.good - self.bad, 1)


class Charts(NamedTuple):
    """Both charts of an endpoint.

    Attributes:
        bars: one for each bucket, the oldest first.
        maximum: the number at the top of the bars' scale.
        p50: lines of the median, each the points of an SVG polyline; a bucket without a success ends a line.
        p95: the same for the slowest 5 %.
        slowest: the milliseconds at the top of the scale of latencies.
    """

    bars: Sequence[Bar]
    maximum: int
    p50: Sequence[str]
    p95: Sequence[str]
    slowest: int

    @property
    def busy(self) -> list[Bar]:
        """The buckets in which something happened, the newest first."""
        names = ("attempts", "delivered", "failed")
        return [bar for bar in reversed(self.bars) if any(bar.numbers[name] for name in names)]


def charts_of(statistics: Mapping[str, Any]) -> Charts:
    """Return the charts of the statistics that ``/v1`` returns."""
    buckets: Sequence[Mapping[str, Any]] = statistics["buckets"]
    maximum = _round_up(max((bucket["attempts"] for bucket in buckets), default=0))
    slowest = _round_up(max((bucket["latency_p95_ms"] or 0 for bucket in buckets), default=0))
    length = timedelta(seconds=statistics["bucket_seconds"])
    step = WIDTH / max(1, len(buckets))
    return Charts(
        bars=[_bar(bucket, index * step, step, maximum, length) for index, bucket in enumerate(buckets)],
        maximum=maximum,
        p50=_lines([bucket["latency_p50_ms"] for bucket in buckets], step, slowest),
        p95=_lines([bucket["latency_p95_ms"] for bucket in buckets], step, slowest),
        slowest=slowest,
    )


def _bar(bucket: Mapping[str, Any], x: float, step: float, maximum: int, length: timedelta) -> Bar:
    begin = datetime.fromisoformat(bucket["since"])
    bad = _height(bucket["failed_attempts"], maximum)
    good = min(_height(bucket["attempts"] - bucket["failed_attempts"], maximum), HEIGHT - bad)
    width = round(step * (1 - _GAP), 2)
    return Bar(round(x + step * _GAP / 2, 2), width, good, bad, begin, begin + length, bucket)


def _height(number: int, maximum: int) -> float:
    return round(max(_MIN_HEIGHT, HEIGHT * number / maximum), 1) if number else 0.0


def _lines(values: Sequence[int | None], step: float, slowest: int) -> list[str]:
    """Return a line for each run of known values; a run of one value is a short line, because a point has no length."""
    lines = []
    for is_known, run in groupby(enumerate(values), lambda entry: entry[1] is not None):
        points = [((index + 0.5) * step, HEIGHT - HEIGHT * (value or 0) / slowest) for index, value in run]
        if len(points) == 1:
            points = [(x + distance, y) for x, y in points for distance in (-step / 3, step / 3)]
        if is_known:
            lines.append(" ".join(f"{x:.1f},{round(y, 1):g}" for x, y in points))
    return lines


def _round_up(number: int) -> int:
    """Return the least of 1, 2, 5, 10, 20, 50, … that is not below the number."""
    scale = 1
    while number > _STEPS[-1] * scale:
        scale *= 10
    return next(step * scale for step in _STEPS if number <= step * scale)


def success_line(buckets: Sequence[Mapping[str, Any]]) -> str:
    """Return the success rates of attempts in 24 parts of a time, as points of an SVG polyline; empty without any."""
    groups = [(0, 0)] * _LINE_POINTS
    for index, bucket in enumerate(buckets):
        at = index * _LINE_POINTS // len(buckets)
        good, attempts = groups[at]
        groups[at] = good + bucket["attempts"] - bucket["failed_attempts"], attempts + bucket["attempts"]
    width, height = (size - 2 * _LINE_MARGIN for size in _LINE_SIZE)
    points = [
        f"{_LINE_MARGIN + at * width / (_LINE_POINTS - 1):.1f},{_LINE_MARGIN + (1 - good / attempts) * height:.1f}"
        for at, (good, attempts) in enumerate(groups)
        if attempts
    ]
    # A line of one point is invisible; two equal points are a dot.
    return " ".join(points * 2 if len(points) == 1 else points)
