"""From a thousand declared endpoints to a thousand that are Ready, and the operator's restart with them."""

import time
from typing import Final

from hookwright_dev.bench import objects
from hookwright_dev.bench.cases.options import Options
from hookwright_dev.bench.errors import BenchError
from hookwright_dev.bench.measures import PER_SECOND, SECONDS, WRITES, Measure
from hookwright_dev.bench.site import NAMESPACE, Site, running

_COUNT: Final = 1000
_QUIET: Final = 3.0
_PATIENCE: Final = 120.0


def measure(_: Options) -> list[Measure]:
    """Measure the creation of a thousand endpoints in one project, and the restart."""
    with running() as site:
        site.create([objects.project(NAMESPACE, "orders")])
        before = settled_writes(site)
        seconds = site.create_ready(
            [
                objects.endpoint(
                    NAMESPACE, f"o-{number}", project="orders", url=site.loader.url(0), events=["delivered"]
                )
                for number in range(_COUNT)
            ]
        )
        writes = settled_writes(site) - before
        return [
            Measure("reconcile.seconds", f"{_COUNT:,} endpoints created and Ready", seconds, SECONDS),
            Measure("reconcile.rate", "endpoints created and Ready", _COUNT / seconds, PER_SECOND),
            Measure("reconcile.writes", "API writes an endpoint, with its creation", writes / _COUNT, WRITES),
            *restart(site, _COUNT),
        ]


def restart(site: Site, count: int) -> list[Measure]:
    """Restart the operator with so many endpoints in place."""
    before = settled_writes(site)
    site.operator.stop()
    began = time.monotonic()
    site.operator.start()
    ready = time.monotonic() - began
    writes = settled_writes(site) - before
    return [
        Measure(f"restart.{count}.seconds", f"restart with {count:,} endpoints, until ready", ready, SECONDS),
        Measure(f"restart.{count}.writes", f"API writes at a restart with {count:,} endpoints", writes, WRITES),
    ]


def settled_writes(site: Site) -> int:
    """Return the number of writes so far, once there have been no more for some seconds.

    Raises:
        BenchError: they do not end.
    """
    deadline = time.monotonic() + _PATIENCE
    count, since = -1, time.monotonic()
    while time.monotonic() < deadline:
        now = sum(site.writes().values())
        if now != count:
            count, since = now, time.monotonic()
        elif time.monotonic() - since > _QUIET:
            return count
        time.sleep(0.5)
    raise BenchError(f"the operator still writes to the API server after {_PATIENCE:g} s")
