"""Every metric of the operator, with its labels and help.

Labels are bounded: never a URL, never an id, and no namespace, project or endpoint.
"""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

_FAST: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SLOW: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

EVENTS_ACCEPTED: Final = Counter("hookwright_events_accepted", "Events accepted: committed and answered 202.")
EVENTS_DUPLICATE: Final = Counter(
    "hookwright_events_duplicate", "Events answered as repetitions of one accepted before."
)
DELIVERIES: Final = Counter("hookwright_deliveries", "Deliveries that reached an end state.", ["outcome"])
ATTEMPTS: Final = Counter("hookwright_delivery_attempts", "Attempts to deliver, by result.", ["result"])
ATTEMPT_DURATION: Final = Histogram(
    "hookwright_delivery_attempt_duration_seconds", "Duration of one whole attempt.", buckets=_FAST
)
LATENCY: Final = Histogram(
    "hookwright_delivery_latency_seconds", "From an event's acceptance to the end of its first attempt.", buckets=_SLOW
)
PENDING: Final = Gauge("hookwright_deliveries_pending", "Deliveries not yet delivered, failed or discarded.")
OLDEST_PENDING: Final = Gauge(
    "hookwright_deliveries_oldest_pending_age_seconds", "Age of the oldest delivery that is due and still pending."
)
IN_FLIGHT: Final = Gauge("hookwright_deliveries_in_flight", "Attempts under way.")
ENDPOINTS: Final = Gauge("hookwright_endpoints", "Endpoints known, by state.", ["state"])
RECONCILES: Final = Counter("hookwright_reconcile", "Reconciliations, by kind and result.", ["kind", "result"])
RECONCILE_DURATION: Final = Histogram(
    "hookwright_reconcile_duration_seconds", "Duration of one reconciliation.", ["kind"], buckets=_FAST
)
STORE_DURATION: Final = Histogram(
    "hookwright_store_transaction_duration_seconds", "Duration of a store transaction.", ["operation"], buckets=_FAST
)
LOOP_RESTARTS: Final = Counter(
    "hookwright_loop_restarts", "Supervised loops that ended and were started again.", ["loop"]
)
