"""Time from the post of an event to its arrival, at a low rate."""

from collections.abc import Sequence

from hookwright_dev.bench.cases.options import RATE, Options
from hookwright_dev.bench.loader import Target
from hookwright_dev.bench.measures import MILLISECONDS, Measure
from hookwright_dev.bench.site import Site, running

_WARM_UP: float = 2.0


def measure(options: Options) -> list[Measure]:
    """Measure with one endpoint."""
    with running() as site:
        targets, _ = site.endpoints(1)
        return at_calm_rate(site, "latency", "post → arrival at 50/s", targets, options)


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
