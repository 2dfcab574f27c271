"""Deliveries a second at full speed, as a share of the loader's ceiling without Hookwright, and their CPU."""

from collections.abc import Sequence
from functools import reduce
from operator import add
from statistics import fmean
from typing import Final

from hookwright_dev.bench.cases.options import Options
from hookwright_dev.bench.figures import CPU, PER_SECOND, SHARE, Measure
from hookwright_dev.bench.loader import Report, Target
from hookwright_dev.bench.site import Site, running
from hookwright_dev.bench.usage import Used

MAX_IN_FLIGHT: Final = 16
"""`maxInFlight` of every endpoint: as many as the loader has posts under way, so that endpoints limit nothing."""
_WARM_UP: Final = 0.5
_CEILING: Final = 2.0
_ROUNDS: Final = 3
"""Seconds of each round, as long as other loads. In 30 s the status of each endpoint is written once."""


def measure(options: Options) -> list[Measure]:
    """Measure with one endpoint, with a hundred, and with each event for ten."""
    with running() as site:
        single = site.endpoints(1, maxInFlight=MAX_IN_FLIGHT)
        many = site.endpoints(100, first=1, maxInFlight=MAX_IN_FLIGHT)
        ten = site.fan(10, maxInFlight=MAX_IN_FLIGHT)
        return [
            *at_full_speed(site, "throughput.1", "1 endpoint", single, options, rounds=_ROUNDS),
            *at_full_speed(site, "throughput.100", "100 endpoints", many, options, rounds=_ROUNDS),
            *at_full_speed(site, "throughput.fan", "each event to 10 endpoints", ten, options, fan=10, rounds=_ROUNDS),
        ]


def at_full_speed(
    site: Site, key: str, title: str, targets: Sequence[Target], options: Options, *, fan: int = 1, rounds: int = 1
) -> list[Measure]:
    """Post at full speed, in rounds; measure the ceiling around each, because the machine's speed changes.

    Args:
        site: the running site, which has the endpoints.
        key: prefix of the figures' keys.
        title: description of the measurement.
        targets: each event goes to one of them, in turn.
        options: have the duration of a round's load.
        fan: deliveries that an event becomes.
        rounds: the figures are of all loads together, as a share of the mean ceiling.
    """
    site.loader.load(targets, seconds=_WARM_UP, token=site.token, fan=fan)
    ceilings = [site.loader.direct(fan=fan, seconds=_CEILING)]
    reports, usages = [], []
    for _ in range(rounds):
        meter = site.meter()
        reports.append(site.loader.load(targets, seconds=options.seconds, token=site.token, fan=fan).clean())
        usages.append(meter.read())
        ceilings.append(site.loader.direct(fan=fan, seconds=_CEILING))
    return _measures(key, title, reports, reduce(add, usages), fmean(ceilings))


def _measures(key: str, title: str, reports: Sequence[Report], usage: Used, ceiling: float) -> list[Measure]:
    arrivals = sum(report.arrived for report in reports)
    rate, thousands = arrivals / sum(report.seconds for report in reports), arrivals / 1000
    post_rate = sum(report.accepted for report in reports) / sum(report.post_seconds for report in reports)
    parts = [name for name in ("operator", "database", "loader") if name in usage.by_name]
    return [
        Measure(f"{key}.share", f"deliveries/s, {title}", 100 * rate / ceiling, SHARE),
        Measure(f"{key}.rate", f"deliveries/s, {title}", rate, PER_SECOND),
        Measure(f"{key}.direct", f"direct, {title}", ceiling, PER_SECOND),
        Measure(f"{key}.accepted", f"events accepted/s, {title}", post_rate, PER_SECOND),
        Measure(f"{key}.cpu", f"CPU of everything, {title}", usage.total / thousands, CPU),
        *(
            Measure(f"{key}.cpu_{name}", f"CPU of the {name}, {title}", usage.by_name[name] / thousands, CPU)
            for name in parts
        ),
    ]
