"""Deliveries a second at full speed, as a share of what the loader reaches with nothing in between, and their CPU."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hookwright_dev.bench.cases.options import Options
from hookwright_dev.bench.loader import Report, Target
from hookwright_dev.bench.measures import CPU, PER_SECOND, SHARE, Measure
from hookwright_dev.bench.site import Site, running
from hookwright_dev.bench.usage import Used

MAX_IN_FLIGHT: Final = 16
"""Of every endpoint: as many as the loader has posts under way, so that the endpoints do not set the pace."""
_WARM_UP: Final = 0.5
_CEILING: Final = 2.0
_TIMES_AS_LONG: Final = 3
"""As other loads: 30 s, in which the status of each endpoint is written once, as in every 30 s to come."""


def measure(options: Options) -> list[Measure]:
    """Measure with one endpoint, with a hundred, and with each event for ten."""
    longer = replace(options, seconds=_TIMES_AS_LONG * options.seconds)
    with running() as site:
        one, _ = site.endpoints(1, maxInFlight=MAX_IN_FLIGHT)
        hundred, _ = site.endpoints(100, first=1, maxInFlight=MAX_IN_FLIGHT)
        ten = site.fan(10, maxInFlight=MAX_IN_FLIGHT)
        return [
            *at_full_speed(site, "throughput.1", "1 endpoint", one, longer),
            *at_full_speed(site, "throughput.100", "100 endpoints", hundred, longer),
            *at_full_speed(site, "throughput.fan", "each event to 10 endpoints", ten, longer, fan=10),
        ]


def at_full_speed(
    site: Site, key: str, title: str, targets: Sequence[Target], options: Options, *, fan: int = 1
) -> list[Measure]:
    """Post at full speed, and measure the ceiling before and after, for the machine's speed changes meanwhile."""
    site.loader.load(targets, seconds=_WARM_UP, token=site.token, fan=fan)
    ceilings = [site.loader.direct(fan=fan, seconds=_CEILING)]
    meter = site.meter()
    report = site.loader.load(targets, seconds=options.seconds, token=site.token, fan=fan).clean()
    used = meter.read()
    ceilings.append(site.loader.direct(fan=fan, seconds=_CEILING))
    return _measures(key, title, report, used, sum(ceilings) / len(ceilings))


def _measures(key: str, title: str, report: Report, used: Used, ceiling: float) -> list[Measure]:
    rate, thousands = report.arrived_per_second, report.arrived / 1000
    parts = [name for name in ("operator", "database", "loader") if name in used.by_name]
    return [
        Measure(f"{key}.share", f"deliveries/s, {title}", 100 * rate / ceiling, SHARE),
        Measure(f"{key}.rate", f"deliveries/s, {title}", rate, PER_SECOND),
        Measure(f"{key}.direct", f"direct, {title}", ceiling, PER_SECOND),
        Measure(f"{key}.accepted", f"events accepted/s, {title}", report.accepted_per_second, PER_SECOND),
        Measure(f"{key}.cpu", f"CPU of everything, {title}", used.total / thousands, CPU),
        *(
            Measure(f"{key}.cpu_{name}", f"CPU of the {name}, {title}", used.by_name[name] / thousands, CPU)
            for name in parts
        ),
    ]
