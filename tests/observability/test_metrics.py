"""Metrics: all of the design exist, and the code sets each."""

import re
from pathlib import Path

from hookwright_api import metrics as api_metrics
from hookwright_dev.reference import metric_names
from hookwright_operator import metrics

OPERATOR = [
    "events_accepted_total",
    "events_duplicate_total",
    "deliveries_total",
    "delivery_attempts_total",
    "delivery_attempt_duration_seconds",
    "delivery_latency_seconds",
    "deliveries_pending",
    "deliveries_oldest_pending_age_seconds",
    "deliveries_in_flight",
    "endpoints",
    "reconcile_total",
    "reconcile_duration_seconds",
    "store_transaction_duration_seconds",
]
API = ["api_requests_total", "api_request_duration_seconds", "rate_limit_rejections_total"]


def test_every_metric_of_the_design_is_there() -> None:
    """Each metric is on the process that the design gives it to."""
    assert {f"hookwright_{name}" for name in OPERATOR} <= set(metric_names(metrics))
    assert {f"hookwright_{name}" for name in API} <= set(metric_names(api_metrics))


def test_the_metrics_module_measures_all_that_it_defines() -> None:
    """Each defined metric is set somewhere in the operator."""
    folder = Path(metrics.__file__).parent
    elsewhere = "".join(path.read_text() for path in folder.rglob("*.py") if path.name != "metrics.py")
    container = Path(metrics.__file__).read_text()
    for name in re.findall(r"^([A-Z_]+): Final = (?:Counter|Gauge|Histogram)", container, re.MULTILINE):
        assert f"metrics.{name}" in elsewhere or f"\n{name}." in container, name
