"""Deliveries a second at full speed, as a share of the loader's ceiling without Hookwright, and their CPU."""

from collections.abc import Sequence
from functools import reduce
from operator import add
from statistics import fmean
from typing import Any, Final

from hookwright_crds.base import CREDENTIAL_LABEL, HOSTS_ANNOTATION
from hookwright_dev.bench.cases.options import Options
from hookwright_dev.bench.figures import CPU, PER_SECOND, SHARE, Measure
from hookwright_dev.bench.loader import Report, Target
from hookwright_dev.bench.site import NAMESPACE, Site, running
from hookwright_dev.bench.usage import Used

MAX_IN_FLIGHT: Final = 16
"""`maxInFlight` of every endpoint: as many as the loader has posts under way, so that endpoints limit nothing."""
POSTS: Final = 64
_WARM_UP: Final = 0.5
_ROUNDS: Final = 3
"""Seconds of each round, as long as other loads. In 30 s the status of each endpoint is written once."""


def measure(options: Options) -> list[Measure]:
    """Measure with one endpoint, also with credentials, with a hundred, and with each event for ten."""
    with running() as site:
        loads: list[tuple[str, str, Sequence[Target], dict[str, int]]] = [
            ("1", "1 endpoint", site.endpoints(1, maxInFlight=MAX_IN_FLIGHT), {}),
            ("secure", "1 endpoint with secret headers, oauth2 and tls", _secure_endpoint(site, 101), {}),
            ("100", "100 endpoints", many := site.endpoints(100, first=1, maxInFlight=MAX_IN_FLIGHT), {}),
            ("posts", f"100 endpoints, {POSTS} posts at once", many, {"concurrency": POSTS}),
            ("fan", "each event to 10 endpoints", site.fan(10, maxInFlight=MAX_IN_FLIGHT), {"fan": 10}),
        ]
        return [
            measure
            for key, title, targets, how in loads
            for measure in at_full_speed(site, f"throughput.{key}", title, targets, options, rounds=_ROUNDS, **how)
        ]


def _secure_endpoint(site: Site, number: int) -> list[Target]:
    """Create an endpoint with each kind of credential."""
    loader, reference = site.loader, {"name": "bench", "key": "token"}
    pair = loader.authority.issue("bench")
    fields = {"token": "token", "tls.crt": pair.public.decode(), "tls.key": pair.key.decode()}
    rules = {"labels": {CREDENTIAL_LABEL: "true"}, "annotations": {HOSTS_ANNOTATION: "127.0.0.1"}}
    metadata = {"name": "bench", "namespace": NAMESPACE, **rules}
    site.plane.objects.apply(
        {"kind": "Secret", "metadata": metadata, "stringData": fields},
        {"kind": "ConfigMap", "metadata": metadata, "data": {"ca.crt": loader.authority.pem.decode()}},
    )
    oauth2 = {"clientId": "bench", "clientSecretRef": reference, "tokenUrl": f"{loader.receiver}/token"}
    tls = {"caCertificateRefs": [{"name": "bench"}], "clientCertificateRef": {"name": "bench"}}
    fast = {"url": f"{loader.secure_receiver}/e/{number}", "maxInFlight": MAX_IN_FLIGHT}
    header = {"name": "X-Api-Key", "secretKeyRef": reference}
    return site.endpoints(1, first=number, secretHeaders=[header], oauth2=oauth2, tls=tls, **fast)


def at_full_speed(
    site: Site, key: str, title: str, targets: Sequence[Target], options: Options, *, rounds: int = 1, **how: Any
) -> list[Measure]:
    """Post at full speed, in rounds; measure the ceiling around each, because the machine's speed changes.

    Args:
        site: the running site, which has the endpoints.
        key: prefix of the figures' keys.
        title: description of the measurement.
        targets: each event goes to one of them, in turn.
        options: have the duration of a round's load.
        rounds: the figures are of all loads together, as a share of the mean ceiling.
        how: other fields of a Spec, also for the ceiling; see ``dev/bench/spec.go``.
    """
    site.loader.load(targets, seconds=_WARM_UP, token=site.token, **how)
    ceilings = [site.loader.direct(**how)]
    reports, usages = [], []
    for _ in range(rounds):
        meter = site.meter()
        reports.append(site.loader.load(targets, seconds=options.seconds, token=site.token, **how).clean())
        usages.append(meter.read())
        ceilings.append(site.loader.direct(**how))
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
