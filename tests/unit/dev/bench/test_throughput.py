"""Throughput is a share of ceilings measured around and between the loads; CPU is that of the loads only."""

from typing import Any, cast

import pytest

from hookwright_dev.bench.cases.options import Options
from hookwright_dev.bench.cases.throughput import at_full_speed
from hookwright_dev.bench.loader import Quantiles, Report, Target
from hookwright_dev.bench.site import Site
from hookwright_dev.bench.usage import Used
from hookwright_dev.errors import BenchError

_NONE = Quantiles(count=0, p50=0, p90=0, p99=0, max=0)
_TARGETS = [Target("http://127.0.0.1/events")]


def report(arrived: int, seconds: float, *, duplicates: int = 0) -> Report:
    """Return the report of a load whose last event arrived half a second after the last answer."""
    return Report(
        sent=arrived,
        accepted=arrived,
        refused={},
        fault="",
        expected=arrived,
        arrived=arrived,
        duplicates=duplicates,
        post_seconds=seconds - 0.5,
        seconds=seconds,
        accepted_per_second=arrived / (seconds - 0.5),
        arrived_per_second=arrived / seconds,
        answer_ms=_NONE,
        arrival_ms=_NONE,
    )


class _Site:
    """A site, its loader and its meter in one object; records calls in order."""

    token = "token"

    def __init__(self, *reports: Report, ceilings: tuple[float, ...]) -> None:
        self.loader = self
        self.asked: list[str] = []
        self._reports, self._ceilings = [report(10, 1.0), *reports], list(ceilings)

    def load(self, _targets: object, *, seconds: float, **_how: Any) -> Report:
        self.asked.append(f"load {seconds:g}")
        return self._reports.pop(0)

    def direct(self, **_how: Any) -> float:
        self.asked.append("ceiling")
        return self._ceilings.pop(0)

    def meter(self) -> "_Site":
        self.asked.append("meter")
        return self

    def read(self) -> Used:
        self.asked.append("read")
        return Used({"operator": 1.0, "loader": 0.5, "harness": 0.5})


def test_three_rounds_are_summed_up_beside_the_mean_of_four_ceilings() -> None:
    """A round counts by its duration, also if the machine was slow."""
    site = _Site(report(1000, 10.5), report(2000, 10.5), report(3000, 9.0), ceilings=(900.0, 1000.0, 1000.0, 1100.0))
    result = at_full_speed(cast("Site", site), "throughput.1", "1 endpoint", _TARGETS, Options(), rounds=3)
    figures = {measure.key.removeprefix("throughput.1."): measure.value for measure in result}
    assert site.asked == ["load 0.5", "ceiling", *["meter", "load 10", "read", "ceiling"] * 3]
    assert figures == pytest.approx(
        {
            "share": 20.0,
            "rate": 200.0,
            "direct": 1000.0,
            "accepted": 6000 / 28.5,
            "cpu": 1.0,
            "cpu_operator": 0.5,
            "cpu_loader": 0.25,
        }
    )


def test_a_round_with_a_repeated_delivery_voids_the_run() -> None:
    """The round makes no difference."""
    site = _Site(report(1000, 10.0), report(1000, 10.0, duplicates=1), ceilings=(900.0, 1000.0, 1100.0))
    with pytest.raises(BenchError, match="1 came again"):
        at_full_speed(cast("Site", site), "throughput.1", "1 endpoint", _TARGETS, Options(), rounds=3)
