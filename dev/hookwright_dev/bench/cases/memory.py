"""The operator's resident memory, idle and for each endpoint."""

import time

from hookwright_dev.bench.cases.options import Options
from hookwright_dev.bench.figures import CPU, MEBIBYTES, Measure
from hookwright_dev.bench.site import running

_SETTLE: float = 5.0
_ENDPOINTS = 1000


def measure(_options: Options) -> list[Measure]:
    """Measure without any resource, and how much CPU and memory a new endpoint costs."""
    with running() as site:
        time.sleep(_SETTLE)
        idle, meter = site.resident(), site.meter()
        site.endpoints(_ENDPOINTS)
        cpu = meter.read().by_name["operator"]
        return [
            Measure("memory.idle", "memory, idle", idle, MEBIBYTES),
            Measure("memory.many", f"memory with {_ENDPOINTS:,} endpoints", site.resident(), MEBIBYTES),
            Measure("memory.cpu", "CPU of the operator for new endpoints", 1000 * cpu / _ENDPOINTS, CPU),
        ]
