"""Time from the post of an event to its arrival at a low rate, and with one endpoint of ten that hangs."""

from collections.abc import Sequence
from typing import Final

from hookwright_dev.bench.cases.options import RATE, Options
from hookwright_dev.bench.figures import MILLISECONDS, Measure
from hookwright_dev.bench.loader import Target
from hookwright_dev.bench.site import Site, running

_WARM_UP: Final = 2.0
_HANGING: Final = 0
_HANG_SECONDS: Final = 15.0
# The timeout of an attempt exceeds the hang, so that nothing is retried and arrivals can be counted exactly.
_TIMEOUT: Final = "30s"


def measure(options: Options) -> list[Measure]:
    """Measure with one endpoint."""
    with running() as site:
        targets = site.endpoints(1)
        return at_calm_rate(site, "latency", "post → arrival at 50/s", targets, options)


def measure_hang(options: Options) -> list[Measure]:
    """Measure with each event for all ten, and with each event for one."""
    with running() as site:
        all_ten = site.fan(10, timeout=_TIMEOUT)
        one_each = site.endpoints(10, timeout=_TIMEOUT)
        return [
            *_hanging(site, "hang.all", "one of ten hangs, each event to all: the others", all_ten, options, fan=10),
            *_hanging(site, "hang.one", "one of ten hangs, each event to one: the others", one_each, options, fan=1),
        ]


def _hanging(
    site: Site, key: str, title: str, targets: Sequence[Target], options: Options, *, fan: int
) -> list[Measure]:
    site.loader.load(targets, seconds=1.0, token=site.token, fan=fan, rate=RATE)
    site.loader.hang(_HANGING, seconds=_HANG_SECONDS)
    site.loader.load(
        targets,
        seconds=options.latency_seconds,
        token=site.token,
        fan=fan,
        rate=RATE,
        hanging=[_HANGING],
        wait_seconds=1,
    )
    site.loader.hang()
    report = site.loader.wait(60).clean()
    return quantiles(key, title, report.arrival_ms.p50, report.arrival_ms.p99)


def at_calm_rate(site: Site, key: str, title: str, targets: Sequence[Target], options: Options) -> list[Measure]:
    """Post at 50/s and return the median and the 99th percentile."""
    site.loader.load(targets, seconds=_WARM_UP, token=site.token, rate=RATE)
    report = site.loader.load(targets, seconds=options.latency_seconds, token=site.token, rate=RATE).clean()
    return quantiles(key, title, report.arrival_ms.p50, report.arrival_ms.p99)


def quantiles(key: str, title: str, p50: float, p99: float) -> list[Measure]:
    """Return the two figures of a distribution of milliseconds."""
    return [
        Measure(f"{key}.p50", f"{title}, p50", p50, MILLISECONDS),
        Measure(f"{key}.p99", f"{title}, p99", p99, MILLISECONDS),
    ]
