"""Pure: the required figures of the delivery engine on a machine with two cores."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hookwright_dev.bench.measures import Measure


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
    "api.rate": _least(1000),
    "postgres.slow.bounded.factor": _least(1.6),
    "postgres.slow.limited.factor": _least(1.6),
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
