"""Cost of an event with more endpoints, and the effect of creating endpoints on the delivery of events."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from hookwright_dev.bench.cases.backlog import PENDING, fill
from hookwright_dev.bench.cases.latency import at_calm_rate, quantiles
from hookwright_dev.bench.cases.options import RATE, Options
from hookwright_dev.bench.cases.reconcile import restart
from hookwright_dev.bench.cases.throughput import at_full_speed
from hookwright_dev.bench.loader import Target
from hookwright_dev.bench.measures import BYTES, MEBIBYTES, PER_SECOND, SECONDS, Measure
from hookwright_dev.bench.site import Site, running

_REPORTED = (".share", ".rate", ".cpu_operator")


def measure(options: Options) -> list[Measure]:
    """Measure with 10 and with 1,000 endpoints, in a full run with 10,000 as well."""
    found: list[Measure] = []
    with running() as site:
        targets, _ = site.endpoints(options.sizes[0])
        found += _at_size(site, targets, options)
        for size in options.sizes[1:]:
            made, figures = _grow(site, targets, size, options)
            targets += made
            found += [*figures, *_at_size(site, targets, options)]
        if options.full:
            found += _loaded(site, len(targets))
    return found


def _at_size(site: Site, targets: Sequence[Target], options: Options) -> list[Measure]:
    size = len(targets)
    speed = at_full_speed(site, f"growth.{size}", f"{size:,} endpoints", targets, options)
    return [
        *(figure for figure in speed if figure.key.endswith(_REPORTED)),
        *at_calm_rate(site, f"growth.{size}", f"post → arrival at 50/s, {size:,} endpoints", targets, options),
        Measure(f"memory.{size}.endpoints", f"memory with {size:,} endpoints", site.resident(), MEBIBYTES),
        *_in_the_cluster(site, size),
    ]


def _in_the_cluster(site: Site, size: int) -> list[Measure]:
    """Measure the cost of the endpoints in the API server: memory, and a list of all as a watch begins with."""
    began = time.monotonic()
    listed = site.listed()
    seconds = time.monotonic() - began
    title = f"of the API server with {size:,} endpoints"
    return [
        Measure(f"memory.{size}.apiserver", f"memory {title}", site.resident("kube-apiserver"), MEBIBYTES),
        Measure(f"growth.{size}.list", f"a list of {size:,} endpoints", seconds, SECONDS),
        Measure(f"growth.{size}.object", f"one of {size:,} endpoints in a list, with its status", listed / size, BYTES),
    ]


def _grow(site: Site, targets: list[Target], size: int, options: Options) -> tuple[list[Target], list[Measure]]:
    """Create endpoints while events continue at 50/s for the existing ones."""
    more = size - len(targets)
    with ThreadPoolExecutor(1) as pool:
        creating = pool.submit(site.endpoints, more, first=len(targets))
        # About as long as the creation takes: quiet seconds after it would improve the percentile wrongly.
        seconds = max(options.latency_seconds / 4, more / 250)
        report = site.loader.load(targets, seconds=seconds, token=site.token, rate=RATE).clean()
        made, took = creating.result()
    title = f"post → arrival at 50/s while {more:,} endpoints are made"
    return made, [
        *quantiles(f"latency.creating.{size}", title, report.arrival_ms.p50, report.arrival_ms.p99),
        Measure(f"latency.creating.{size}.rate", "endpoints made meanwhile", more / took, PER_SECOND),
    ]


def _loaded(site: Site, size: int) -> list[Measure]:
    """Restart with every endpoint in place, then leave deliveries pending at new endpoints."""
    figures = restart(site, size)
    held, _ = site.endpoints(10, first=size, suspend=True)
    fill(site, held)
    title = f"memory with {size:,} endpoints and {PENDING:,} pending"
    return [*figures, Measure("memory.loaded", title, site.resident(), MEBIBYTES)]
