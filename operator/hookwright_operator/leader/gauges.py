"""Update of the gauges of deliveries and endpoints; a scrape only reads them.

An update reads the counters and one index entry of each endpoint, independent of the number of deliveries. It does not
read the counters of deleted endpoints, because a tenant can create and delete more endpoints than a quota allows.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from prometheus_client import REGISTRY

from hookwright_crds.conditions import find
from hookwright_crds.resources import WebhookEndpoint
from hookwright_operator import metrics
from hookwright_operator.registry import Endpoint, Registry
from hookwright_operator.store.sql import read
from hookwright_operator.store.store import Store
from hookwright_operator.watch.cache import Cache
from hookwright_operator.watch.objects import MODELS, Key

_AT_ONCE: Final = 500
"""Endpoints whose counters one transaction reads."""
RECENT: Final = timedelta(minutes=15)
"""Age up to which an attempt counts for `metrics.ENDPOINTS_ATTEMPTED`."""
_CERTIFICATE_ENDS: Final = timedelta(days=7)
"""Time before its end from which a client certificate counts for `metrics.CERTIFICATES_ENDING`."""


def show() -> None:
    """Show these gauges in scrapes again."""
    hide()
    REGISTRY.register(metrics.WHOLE_STORE)


def hide() -> None:
    """Hide these gauges from scrapes: another replica reports them, and a sum must not count them twice."""
    with suppress(KeyError):
        REGISTRY.unregister(metrics.WHOLE_STORE)


async def measure(store: Store, registry: Registry, cache: Cache, *, now_ms: int) -> None:
    """Set every gauge about deliveries and endpoints.

    Raises:
        StoreUnavailable: no gauge was set, and `metrics.GAUGES_TIMESTAMP` shows the time of the last update.
    """
    pending, dues = 0, dict[str, int]()
    for uids in groups(existing(registry, cache)):
        pending += await store.read(read.pending_of, uids)
        dues |= await store.next_due(uids)
    states = {endpoint.uid: state_of(endpoint, cache) for endpoint in registry}
    metrics.PENDING.set(pending)
    due = [(endpoint, dues[endpoint.uid]) for endpoint in registry if endpoint.sendable and endpoint.uid in dues]
    pushes = [(endpoint, due_ms) for endpoint, due_ms in due if not endpoint.pulled]
    metrics.OLDEST_PENDING.set(_age((due_ms for _, due_ms in pushes), now_ms))
    metrics.OLDEST_PULLED.set(_age((due_ms for endpoint, due_ms in due if endpoint.pulled), now_ms))
    late = (due_ms for endpoint, due_ms in pushes if endpoint.per_minute is None and states[endpoint.uid] == "active")
    metrics.OLDEST_LATE.set(_age(late, now_ms))
    numbers = Counter(states.values())
    for state in metrics.STATES:
        metrics.ENDPOINTS.labels(state).set(numbers[state])
    metrics.SUSPENDED_AFTER_FAILURES.set(sum(endpoint.suspended_after_failures for endpoint in registry))
    outcomes = list(_attempted(registry, cache, states, now_ms))
    namespaces = _results_of_namespaces(outcomes)
    for result in ("delivered", "failed"):
        metrics.ENDPOINTS_ATTEMPTED.labels(result).set(sum(outcome == result for _, outcome in outcomes))
        metrics.NAMESPACES_ATTEMPTED.labels(result).set(namespaces[result])
    soon = datetime.fromtimestamp(now_ms / 1000, UTC) + _CERTIFICATE_ENDS
    ends = [endpoint.tls.ends_at for endpoint in registry if endpoint.tls is not None and not endpoint.expired]
    metrics.CERTIFICATES_ENDING.set(sum(end is not None and end < soon for end in ends))
    for kind in MODELS:
        metrics.UNSUPPORTED_OBJECTS.labels(kind).set(cache.number_unsupported(kind))
    metrics.GAUGES_TIMESTAMP.set(now_ms / 1000)


def existing(registry: Registry, cache: Cache) -> set[str]:
    """Return the uids of all endpoints in the cluster, also of those that do not fit the contract."""
    return {endpoint.uid for endpoint in registry} | {uid for _, uid in cache.names("WebhookEndpoint")}


def groups(uids: Collection[str]) -> Iterator[Sequence[str]]:
    """Yield uids in groups that one transaction of the store may read, so that other reads run in between."""
    sequence = sorted(uids)
    for begin in range(0, len(sequence), _AT_ONCE):
        yield sequence[begin : begin + _AT_ONCE]


def _results_of_namespaces(outcomes: Iterable[tuple[str, str]]) -> Counter[str]:
    """Return how many namespaces have each result; a namespace failed if more than half of its endpoints did."""
    failures: defaultdict[str, list[bool]] = defaultdict(list)
    for namespace, result in outcomes:
        failures[namespace].append(result == "failed")
    return Counter("failed" if 2 * sum(flags) > len(flags) else "delivered" for flags in failures.values())


def _attempted(registry: Registry, cache: Cache, states: Mapping[str, str], now_ms: int) -> Iterator[tuple[str, str]]:
    """Yield namespace and result of the last attempt of each endpoint that may be sent to and had one recently."""
    since = datetime.fromtimestamp(now_ms / 1000, UTC) - RECENT
    for endpoint in registry:
        if endpoint.pulled:
            continue
        resource = _resource(endpoint, cache)
        counts = resource.status.deliveries if resource is not None else None
        last = counts.last_attempt_time if counts is not None else None
        if last is not None and last >= since and states[endpoint.uid] in {"active", "failing"}:
            yield endpoint.namespace, "failed" if states[endpoint.uid] == "failing" else "delivered"


def _resource(endpoint: Endpoint, cache: Cache) -> WebhookEndpoint | None:
    resource = cache.resource(Key("WebhookEndpoint", endpoint.namespace, endpoint.name))
    return resource if isinstance(resource, WebhookEndpoint) else None


def state_of(endpoint: Endpoint, cache: Cache) -> str:
    """Return the one state of `metrics.STATES` that an endpoint is in."""
    if endpoint.block_reason and not endpoint.suspended_after_failures:
        return "blocked"
    if endpoint.suspend or endpoint.suspended_after_failures:
        return "suspended"
    resource = _resource(endpoint, cache)
    reachable = find(resource.status.conditions, "Reachable") if resource is not None else None
    return "failing" if reachable is not None and reachable.status == "False" else "active"


def _age(dues: Iterator[int], now_ms: int) -> float:
    """Return for how many seconds the earliest delivery has been due, 0 if there is none."""
    return max(0, now_ms - min(dues, default=now_ms)) / 1000
