"""Pure: the line of success rates of a day, as points of an SVG."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_WIDTH: Final = 120
_HEIGHT: Final = 28
_MARGIN: Final = 2
_POINTS: Final = 24


@dataclass(frozen=True, slots=True)
class Sparkline:
    """A drawn line.

    Attributes:
        points: of the SVG polyline; empty if there were no attempts.
        successes: attempts that succeeded.
        attempts: all attempts.
    """

    points: str
    successes: int
    attempts: int


def sparkline(buckets: Sequence[Mapping[str, Any]]) -> Sparkline:
    """Return the line of the success rates of attempts, by buckets of statistics, oldest first."""
    groups = [(0, 0)] * _POINTS
    for index, bucket in enumerate(buckets):
        at = index * _POINTS // len(buckets)
        good, all_ = groups[at]
        attempts = bucket["attempts"]
        groups[at] = good + attempts - bucket["failed_attempts"], all_ + attempts
    successes, total = (sum(group[part] for group in groups) for part in (0, 1))
    known = [(at, good / all_) for at, (good, all_) in enumerate(groups) if all_]
    if len(known) == 1:
        # A line of one point is invisible; two equal points are a dot.
        known *= 2
    return Sparkline(" ".join(_point(at, rate) for at, rate in known), successes, total)


def _point(at: int, rate: float) -> str:
    x = _MARGIN + at * (_WIDTH - 2 * _MARGIN) / (_POINTS - 1)
    y = _MARGIN + (1 - rate) * (_HEIGHT - 2 * _MARGIN)
    return f"{x:.1f},{y:.1f}"
