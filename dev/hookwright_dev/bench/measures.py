"""Pure: one figure with its meaning, and the median of several runs of it."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SHARE: Final = "% of direct"
PER_SECOND: Final = "/s"
MILLISECONDS: Final = "ms"
MEBIBYTES: Final = "MiB"
CPU: Final = "CPU-s per 1,000"
BYTES: Final = "bytes"
TIMES: Final = "times"


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure.

    Attributes:
        key: its name for programs and for its mark, such as ``throughput.fan.share``.
        title: its description.
        unit: one of this module's units.
        runs: every run's value if ``value`` is the median of several.
    """

    key: str
    title: str
    value: float
    unit: str
    runs: tuple[float, ...] = ()


def medians(runs: Sequence[Sequence[Measure]]) -> list[Measure]:
    """Return each figure's median over the runs of a case, in the order of their first appearance."""
    groups: dict[str, list[Measure]] = {}
    for run in runs:
        for measure in run:
            groups.setdefault(measure.key, []).append(measure)
    return [_median(same) for same in groups.values()]


def _median(same: Sequence[Measure]) -> Measure:
    values = tuple(measure.value for measure in same)
    first = same[0]
    return Measure(first.key, first.title, statistics.median(values), first.unit, values if len(values) > 1 else ())


def shown(measure: Measure) -> str:
    """Return the value formatted for people, without its unit."""
    size = abs(measure.value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{measure.value:,.{digits}f}"


def case_of(measure: Measure) -> str:
    """Return the first part of a figure's key, by which the table is grouped."""
    return measure.key.partition(".")[0]
