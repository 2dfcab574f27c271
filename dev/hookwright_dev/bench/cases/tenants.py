"""Deliveries a second with many tenants, to measure the cost of sharing every bound by namespace."""

from collections.abc import Sequence
from typing import Final

from hookwright_dev.bench.cases.options import Options
from hookwright_dev.bench.cases.throughput import MAX_IN_FLIGHT, at_full_speed
from hookwright_dev.bench.measures import Measure
from hookwright_dev.bench.site import running

_NAMESPACES: Final = 100
_ENDPOINTS: Final = 10
"""Endpoints of each namespace."""
_ROUNDS: Final = 3


def measure(options: Options) -> Sequence[Measure]:
    """Measure with 1,000 endpoints in 100 namespaces, one event for one endpoint in turn."""
    with running() as site:
        targets = site.tenants(_NAMESPACES, _ENDPOINTS, maxInFlight=MAX_IN_FLIGHT)
        title = f"{len(targets):,} endpoints in {_NAMESPACES} namespaces"
        return at_full_speed(site, "throughput.tenants", title, targets, options, rounds=_ROUNDS)
