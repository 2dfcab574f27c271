"""Pure: latencies as counts in fixed classes, and the percentiles that these counts give."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

LATENCY_BOUNDS_MS: Final = (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000)
"""The upper bound of each class in milliseconds, included. The last class also counts longer latencies."""


def class_of(latency_ms: int) -> int:
    """Return the number of the class that counts a latency."""
    return min(bisect_left(LATENCY_BOUNDS_MS, latency_ms), len(LATENCY_BOUNDS_MS) - 1)


def percentile(counts: Sequence[int], share: float) -> int | None:
    """Return the latency in milliseconds that a share of the counted attempts did not exceed, None without attempts.

    The latencies of a class are taken as spread evenly between its bounds, so the result is exact to one class.

    Args:
        counts: the attempts in each class.
        share: from 0 to 1; 0.95 is the 95th percentile.
    """
    rank = share * sum(counts)
    below = lower = 0
    for count, upper in zip(counts, LATENCY_BOUNDS_MS, strict=True):
        if count and below + count >= rank:
            return round(lower + (upper - lower) * (rank - below) / count)
        below, lower = below + count, upper
    return None
