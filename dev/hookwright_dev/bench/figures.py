"""Pure: one figure with its meaning, the median of several runs of it, and the required value on two cores."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

SHARE: Final = "% of direct"
PER_SECOND: Final = "/s"
MILLISECONDS: Final = "ms"
MEBIBYTES: Final = "MiB"
CPU: Final = "CPU-s per 1,000"
TIMES: Final = "times"


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure.

    Attributes:
        key: its name for programs and for its mark, such as ``throughput.fan.share``.
        title: its description.
        unit: one of this module's units.
    """

    key: str
    title: str
    value: float
    unit: str


_COMPARED: Final = {"1": "1 endpoint", "100": "100 endpoints", "fan": "each event to 10 endpoints"}


def medians(runs: Sequence[Sequence[Measure]]) -> list[Measure]:
    """Return each figure's median over the runs of a case, in the order of their first appearance."""
    groups: dict[str, list[Measure]] = {}
    for run in runs:
        for measure in run:
            groups.setdefault(measure.key, []).append(measure)
    return [replace(same[0], value=statistics.median([measure.value for measure in same])) for same in groups.values()]


def comparisons(measures: Sequence[Measure]) -> list[Measure]:
    """Return the shares of one replica on PostgreSQL as parts of those on SQLite, if both were measured."""
    shares = {measure.key: measure for measure in measures if measure.unit == SHARE}
    return [
        Measure(
            f"postgres.1.{load}.factor",
            f"{title}: PostgreSQL against SQLite",
            on_postgres.value / on_sqlite.value,
            TIMES,
        )
        for load, title in _COMPARED.items()
        if (on_postgres := shares.get(f"postgres.1.{load}.share"))
        and (on_sqlite := shares.get(f"throughput.{load}.share"))
    ]


def shown(measure: Measure) -> str:
    """Return the value formatted for people, without its unit."""
    size = abs(measure.value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{measure.value:,.{digits}f}"


def case_of(measure: Measure) -> str:
    """Return the first part of a figure's key, by which the table is grouped."""
    return measure.key.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Mark:
    """A bound on one figure."""

    bound: float
    at_least: bool

    def met_by(self, value: float) -> bool:
        """Return whether a value meets the bound."""
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:,g}"


def _least(bound: float) -> Mark:
    return Mark(bound, at_least=True)


def _most(bound: float) -> Mark:
    return Mark(bound, at_least=False)


MARKS: Final[Mapping[str, Mark]] = {
    "throughput.1.share": _least(7),
    "throughput.100.share": _least(6),
    "throughput.fan.share": _least(16),
    "throughput.1.cpu": _most(0.45),
    "throughput.100.cpu": _most(0.45),
    "throughput.fan.cpu": _most(0.25),
    "latency.p50": _most(4),
    "latency.p99": _most(10),
    "hang.all.p99": _most(15),
    "hang.one.p99": _most(15),
    "memory.idle": _most(180),
    "memory.many": _most(140),
    "memory.cpu": _most(4),
    "api.rate": _least(1000),
    "postgres.slow.limited.factor": _least(1.6),
    "postgres.1.1.factor": _least(0.95),
    "postgres.1.100.factor": _least(0.85),
    "postgres.1.fan.factor": _least(0.95),
    "postgres.1.1.cpu": _most(0.32),
    "postgres.1.latency.p99": _most(7),
    # The best peer's figures: no fewer deliveries for a second of CPU than any of them.
    "postgres.2.1.cpu": _most(1.34),
    "postgres.2.1.cpu_operator": _most(0.74),
    "postgres.2.fan.cpu": _most(0.70),
    "postgres.2.fan.cpu_operator": _most(0.33),
    "rows.postgresql.growth": _most(2),
    **{
        f"rows.{engine}.10000000.{search}": _most(20)
        for engine in ("postgresql", "sqlite")
        for search in ("by_message", "by_event", "of_project", "failed_of_project", "of_few")
    },
}
"""Marks by the key of the figure."""


def verdict(measure: Measure) -> str:
    """Return whether a figure meets its mark, in a word; empty if it has none."""
    mark = MARKS.get(measure.key)
    if mark is None:
        return ""
    return "met" if mark.met_by(measure.value) else "missed"
