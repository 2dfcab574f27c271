"""Every metric of the operator, with its labels and help.

Labels are bounded: never a URL, never an id, and no namespace, project or endpoint. Every label value exists from the
start, at 0. A rate over a counter that first appears with its first event would miss that event.
"""

from functools import cache
from importlib.metadata import version
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from hookwright_crds.resources import KINDS
from hookwright_runtime import refusals

_FAST: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SLOW: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

WHOLE_STORE: Final = CollectorRegistry()
"""The gauges about the whole store; of several replicas only the leader reports them."""

EVENTS_ACCEPTED: Final = Counter("hookwright_events_accepted", "Events accepted: committed and answered 202.")
EVENTS_DUPLICATE: Final = Counter(
    "hookwright_events_duplicate", "Events recognized as duplicates of an event accepted before."
)
INTAKE_REQUESTS: Final = Counter(
    "hookwright_intake_requests",
    "Answers of the intake, by route template, method and status; 202 of the route of events is acceptance.",
    ["route", "method", "status"],
)
INTAKE_DURATION: Final = Histogram(
    "hookwright_intake_request_duration_seconds",
    "Seconds from a request to the intake until its answer begins; a request for messages waits for them.",
    ["route", "method", "status"],
    buckets=_FAST,
)
DELIVERIES: Final = Counter("hookwright_deliveries", "Deliveries that reached an end state.", ["outcome"])
ATTEMPTS: Final = Counter("hookwright_delivery_attempts", "Attempts to deliver, by result.", ["result"])
ATTEMPT_DURATION: Final = Histogram(
    "hookwright_delivery_attempt_duration_seconds", "Duration of one whole attempt at a URL.", buckets=_FAST
)
OWN_FAULTS: Final = Counter(
    "hookwright_own_faults",
    "Attempts not made because this replica lacked file descriptors, memory, local ports, places for name "
    "look-ups (lookups), places of the namespace (namespace_lookups) or for TLS contexts (tls_contexts), or because "
    "the egress proxy (proxy) or the token server of the endpoint (token_server) failed. They are not recorded, and "
    "start later.",
    ["reason"],
)
LATENCY: Final = Histogram(
    "hookwright_delivery_latency_seconds",
    "Seconds from an event's acceptance to the end of its first attempt at a URL; a retry by hand counts as first.",
    buckets=_SLOW,
)
PENDING: Final = Gauge(
    "hookwright_deliveries_pending",
    "Deliveries to endpoints in the cluster that are not delivered, failed or discarded.",
    registry=WHOLE_STORE,
)
ORPHANS: Final = Gauge(
    "hookwright_deliveries_orphaned",
    "Pending deliveries of endpoints that are missing in the cluster; discarded after HOOKWRIGHT_ORPHAN_GRACE.",
    registry=WHOLE_STORE,
)
OLDEST_PENDING: Final = Gauge(
    "hookwright_deliveries_oldest_pending_age_seconds",
    "Age of the oldest due delivery to endpoints with a URL that can receive now, in seconds.",
    registry=WHOLE_STORE,
)
OLDEST_LATE: Final = Gauge(
    "hookwright_deliveries_oldest_late_age_seconds",
    "Age of the oldest due delivery to reachable URLs without a rate limit, in seconds: delay of Hookwright.",
    registry=WHOLE_STORE,
)
NAMESPACE_USE: Final = Gauge(
    "hookwright_namespace_use_ratio",
    "Largest part that one namespace uses of its bound in this replica, from 0 to 1: attempts at once (attempts), "
    "memory for bodies (memory), requests for messages (polls).",
    ["bound"],
)
PULLED: Final = Counter(
    "hookwright_pull_messages",
    "Messages of endpoints with pull: taken by a consumer (taken), acknowledged (acked), refused (nacked), or not "
    "settled before the lease ended (lease_ended).",
    ["result"],
)
PULL_POLLS: Final = Gauge("hookwright_pull_requests", "Requests for messages in progress; most of them wait.")
OLDEST_PULLED: Final = Gauge(
    "hookwright_pull_oldest_waiting_age_seconds",
    "Age of the oldest due message that no consumer has taken, of endpoints with pull, in seconds.",
    registry=WHOLE_STORE,
)
IN_FLIGHT: Final = Gauge("hookwright_deliveries_in_flight", "Attempts in progress.")
SHARDS_OWNED: Final = Gauge(
    "hookwright_shards_owned",
    "Shards of endpoints that this replica delivers for, of 128: all of them unless replicas share a database.",
)
ENDPOINTS: Final = Gauge(
    "hookwright_endpoints",
    "Endpoints known, each in one state: active, failing (the last attempt failed), suspended, or blocked (not Ready).",
    ["state"],
    registry=WHOLE_STORE,
)
ENDPOINTS_ATTEMPTED: Final = Gauge(
    "hookwright_endpoints_attempted",
    "Active and failing endpoints with an attempt in the last 15 minutes, by the result of the last one; without "
    "endpoints with pull.",
    ["result"],
    registry=WHOLE_STORE,
)
NAMESPACES_ATTEMPTED: Final = Gauge(
    "hookwright_namespaces_attempted",
    "Namespaces with endpoints of hookwright_endpoints_attempted; failed: the last attempt failed at most of them.",
    ["result"],
    registry=WHOLE_STORE,
)
SUSPENDED_AFTER_FAILURES: Final = Gauge(
    "hookwright_endpoints_suspended_after_failures",
    "Endpoints that the operator has suspended, because no attempt succeeded for the time of spec.suspendAfter.",
    registry=WHOLE_STORE,
)
CERTIFICATES_ENDING: Final = Gauge(
    "hookwright_client_certificates_ending",
    "Endpoints whose client certificate (spec.tls) ends within 7 days, or has ended.",
    registry=WHOLE_STORE,
)
UNSUPPORTED_OBJECTS: Final = Gauge(
    "hookwright_unsupported_objects",
    "Objects with fields, event types or values that this version does not understand, by kind.",
    ["kind"],
    registry=WHOLE_STORE,
)
RECONCILES: Final = Counter(
    "hookwright_reconcile",
    "Reconciliations, by kind and result: ok; conflict, another client wrote or deleted it; refused, by a rule; error.",
    ["kind", "result"],
)
RECONCILE_DURATION: Final = Histogram(
    "hookwright_reconcile_duration_seconds", "Duration of one reconciliation.", ["kind"], buckets=_FAST
)
STORE_DURATION: Final = Histogram(
    "hookwright_store_transaction_duration_seconds", "Duration of a store transaction.", ["operation"], buckets=_FAST
)
STORE_DURATION_OF: Final = cache(STORE_DURATION.labels)
"""Histogram by operation; a look-up of the label takes longer than the observation."""
LOOP_RESTARTS: Final = Counter("hookwright_loop_restarts", "Restarts of supervised loops.", ["loop"])
LEASE_UNTIL: Final = Gauge(
    "hookwright_lease_until_timestamp_seconds",
    "Time at which the claim lease of this replica expires, in seconds since the epoch.",
)
GAUGES_TIMESTAMP: Final = Gauge(
    "hookwright_gauges_timestamp_seconds",
    "Time of the last update of the gauges of deliveries and endpoints, in seconds since the epoch.",
    registry=WHOLE_STORE,
)
STORE_ERRORS: Final = Counter(
    "hookwright_store_errors",
    "Failed tries of store operations: the store was unavailable, or refused the operation (refused).",
    ["reason"],
)
WATCH_AGE: Final = Gauge(
    "hookwright_watch_age_seconds",
    "Seconds since the API server last answered a watch of this kind; healthy watches are renewed within 2 minutes.",
    ["resource"],
)
LEADER: Final = Gauge(
    "hookwright_leader", "1 if this replica is the leader, which alone writes to the cluster; 0 on a standby."
)
HTTP_REFUSALS: Final = refusals.HTTP_REFUSALS
BUILD_INFO: Final = Gauge("hookwright_build_info", "1, with the operator's version.", ["version"])

STATES: Final = ("active", "failing", "suspended", "blocked")
"""Values of ``hookwright_endpoints``'s label."""

NAMESPACE_BOUNDS: Final = ("attempts", "memory", "polls")
"""Values of ``hookwright_namespace_use_ratio``'s label."""

OWN_FAULT_REASONS: Final = (
    "descriptors",
    "memory",
    "ports",
    "lookups",
    "namespace_lookups",
    "tls_contexts",
    "proxy",
    "token_server",
)
"""Values of ``hookwright_own_faults_total``'s label."""

REGISTRY.register(WHOLE_STORE)
BUILD_INFO.labels(version("hookwright")).set(1)
for _outcome in ("delivered", "failed", "discarded"):
    DELIVERIES.labels(_outcome)
for _result in ("delivered", "failed"):
    ATTEMPTS.labels(_result)
    ENDPOINTS_ATTEMPTED.labels(_result)
    NAMESPACES_ATTEMPTED.labels(_result)
for _result in ("taken", "acked", "nacked", "lease_ended"):
    PULLED.labels(_result)
for _bound in NAMESPACE_BOUNDS:
    NAMESPACE_USE.labels(_bound)
for _reason in OWN_FAULT_REASONS:
    OWN_FAULTS.labels(_reason)
for _reason in ("unavailable", "refused"):
    STORE_ERRORS.labels(_reason)
for _state in STATES:
    ENDPOINTS.labels(_state)
for _kind in (kind.names.kind for kind in KINDS):
    UNSUPPORTED_OBJECTS.labels(_kind)
    RECONCILE_DURATION.labels(_kind)
    for _result in ("ok", "conflict", "refused", "error"):
        RECONCILES.labels(_kind, _result)
