"""Time from a thousand declared endpoints to a thousand Ready ones, and the operator's restart with them."""

import time
from typing import Final

from hookwright_dev.bench import objects
from hookwright_dev.bench.cases.options import Options
from hookwright_dev.bench.errors import BenchError
from hookwright_dev.bench.measures import PER_SECOND, SECONDS, WRITES, Measure
from hookwright_dev.bench.site import NAMESPACE, Site, running

_COUNT: Final = 1000
_QUIET: Final = 3.0
_PATIENCE: Final = 60.0
_PATIENCE_EACH: Final = 0.06


def measure(_: Options) -> list[Measure]:
    """Measure the creation of a thousand endpoints in one project, and the restart."""
    with running() as site:
        site.create([objects.project(NAMESPACE, "orders")])
        before = settled_writes(site, 0)
        seconds = site.create_ready(
            [
                objects.endpoint(
                    NAMESPACE, f"o-{number}", project="orders", url=site.loader.url(0), events=["delivered"]
                )
                for number in range(_COUNT)
            ]
        )
        writes = settled_writes(site, _COUNT) - before
        return [
            Measure("reconcile.seconds", f"{_COUNT:,} endpoints created and Ready", seconds, SECONDS),
            Measure("reconcile.rate", "endpoints created and Ready", _COUNT / seconds, PER_SECOND),
            Measure("reconcile.writes", "API writes an endpoint, with its creation", writes / _COUNT, WRITES),
            *restart(site, _COUNT),
        ]


def restart(site: Site, count: int) -> list[Measure]:
    """Restart the operator with so many endpoints in place."""
    before = settled_writes(site, count)
    site.operator.stop()
    began = time.monotonic()
    site.operator.start(wait=False)
    site.operator.wait_ready(_PATIENCE + count * _PATIENCE_EACH)
    ready = time.monotonic() - began
    writes = settled_writes(site, count) - before
    return [
        Measure(f"restart.{count}.seconds", f"restart with {count:,} endpoints, until ready", ready, SECONDS),
        Measure(f"restart.{count}.writes", f"API writes at a restart with {count:,} endpoints", writes, WRITES),
    ]


def settled_writes(site: Site, count: int) -> int:
    """Return the number of writes so far, once there were no more for some seconds.

    Args:
        site: the running site.
        count: how many endpoints there are; each may have a status to be written.

    Raises:
        BenchError: the writes do not end.
    """
    patience = _PATIENCE + count * _PATIENCE_EACH
    deadline = time.monotonic() + patience
    written, since = -1, time.monotonic()
    while time.monotonic() < deadline:
        now = sum(site.writes().values())
        if now != written:
            written, since = now, time.monotonic()
        elif time.monotonic() - since > _QUIET:
            return written
        time.sleep(0.5)
    raise BenchError(f"the operator still writes to the API server after {patience:g} s")
