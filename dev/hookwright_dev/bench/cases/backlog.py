"""Cost of 100,000 pending deliveries in memory, and the speed of sending them when their receivers are back."""

import time
from typing import Final

from hookwright_dev.bench.cases.options import Options
from hookwright_dev.bench.loader import Report, Target
from hookwright_dev.bench.measures import MEBIBYTES, PER_SECOND, SHARE, Measure
from hookwright_dev.bench.site import Site, running

PENDING: Final = 100_000
_ENDPOINTS: Final = 10
_BATCH: Final = 1000
_PATIENCE: Final = 300.0


def measure(_: Options) -> list[Measure]:
    """Measure with ten endpoints that were suspended and are resumed."""
    with running() as site:
        targets, _seconds = site.endpoints(_ENDPOINTS, suspend=True)
        ceiling = site.loader.direct()
        filled = fill(site, targets)
        held = site.resident()
        began = time.monotonic()
        for number in range(_ENDPOINTS):
            site.patch(f"e-{number}", {"suspend": False})
        drained = site.loader.wait(_PATIENCE).clean()
        rate = drained.arrived / (time.monotonic() - began)
        return [
            Measure("backlog.accepted", "events accepted/s, 1,000 a request", filled.accepted_per_second, PER_SECOND),
            Measure("memory.pending", f"memory with {PENDING:,} pending", held, MEBIBYTES),
            Measure("backlog.share", f"drain of {PENDING:,} pending", 100 * rate / ceiling, SHARE),
            Measure("backlog.rate", f"drain of {PENDING:,} pending", rate, PER_SECOND),
            Measure("memory.drained", "memory after the drain", site.resident(), MEBIBYTES),
        ]


def fill(site: Site, targets: list[Target]) -> Report:
    """Post 100,000 events, a thousand in each request, for endpoints that are suspended."""
    report = site.loader.load(
        targets,
        seconds=_PATIENCE,
        token=site.token,
        events=PENDING,
        batch=_BATCH,
        concurrency=4,
        wait_seconds=0,
    )
    return report if report.accepted == PENDING else report.clean()
