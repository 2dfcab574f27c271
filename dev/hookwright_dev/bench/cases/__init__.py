"""The measurements, one module for each subject; each case starts its own site and returns its figures."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from hookwright_dev.bench.cases import api, latency, memory, postgres, rows, throughput
from hookwright_dev.bench.cases.options import Options
from hookwright_dev.bench.figures import Measure

Case = Callable[[Options], Sequence[Measure]]

CASES: Final[Mapping[str, Case]] = {
    "throughput": throughput.measure,
    "latency": latency.measure,
    "hang": latency.measure_hang,
    "memory": memory.measure,
    "postgres": postgres.measure,
    "rows": rows.measure,
    "api": api.measure,
}
"""Cases by their name on the command line."""
REPEATED: Final = frozenset({"throughput", "latency", "hang", "api"})
"""Cases of which `--full` takes the median of several runs."""

__all__ = ["CASES", "REPEATED", "Case", "Options"]
