"""Metrics: all exist, are set by real operations, are bounded, and cost the same for any amount of data."""

import re
from pathlib import Path

import pytest
from support.busy_operator import Samples, Session, scrape, value
from support.polling import eventually

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
UNBOUNDED = re.compile(r"https?:|/v1/webhooks/[^{]|msg_|dlv_|hw_|[0-9a-f]{8}-[0-9a-f]{4}-|@")


def test_every_metric_of_the_design_is_there() -> None:
    """Each metric is on the process that the design gives it to."""
    assert {f"hookwright_{name}" for name in OPERATOR} <= set(metric_names(metrics))
    assert {f"hookwright_{name}" for name in API} <= set(metric_names(api_metrics))


@pytest.mark.parametrize(
    ("name", "labels", "least"),
    [
        ("hookwright_events_accepted_total", {}, 8),
        ("hookwright_events_duplicate_total", {}, 1),
        ("hookwright_deliveries_total", {"outcome": "delivered"}, 5),
        ("hookwright_deliveries_total", {"outcome": "failed"}, 1),
        ("hookwright_deliveries_total", {"outcome": "discarded"}, 1),
        ("hookwright_delivery_attempts_total", {"result": "delivered"}, 5),
        ("hookwright_delivery_attempts_total", {"result": "failed"}, 3),
        ("hookwright_delivery_attempt_duration_seconds_count", {}, 8),
        ("hookwright_delivery_latency_seconds_count", {}, 6),
        ("hookwright_reconcile_total", {"kind": "Project", "result": "ok"}, 1),
        ("hookwright_reconcile_total", {"kind": "ApiKey", "result": "ok"}, 1),
        ("hookwright_reconcile_total", {"kind": "WebhookEndpoint", "result": "ok"}, 4),
        ("hookwright_reconcile_duration_seconds_count", {"kind": "WebhookEndpoint"}, 4),
        ("hookwright_store_transaction_duration_seconds_count", {"operation": "accept"}, 1),
        ("hookwright_store_transaction_duration_seconds_count", {"operation": "settle"}, 1),
        ("hookwright_store_transaction_duration_seconds_count", {"operation": "commit"}, 1),
    ],
)
def test_what_happens_is_counted(session: Session, name: str, labels: dict[str, str], least: float) -> None:
    """A metric was zero before the session, and counts the operations after it."""
    grown = value(scrape(session.operator.health_url), name, **labels) - value(session.before, name, **labels)
    assert grown >= least


def test_latency_is_of_first_attempts_alone(session: Session) -> None:
    """A retry is an attempt, but no first attempt."""
    assert session.metric("hookwright_delivery_latency_seconds_count") < session.metric(
        "hookwright_delivery_attempt_duration_seconds_count"
    )


def test_gauges_tell_how_things_stand(session: Session) -> None:
    """An endpoint is in one state; a delivery of a suspended endpoint is pending, but not late."""
    expected = {"active": 1, "unreachable": 1, "blocked": 1, "suspended": 0}
    for state, number in expected.items():
        eventually(
            lambda: session.metric("hookwright_endpoints", state=state) == number,  # noqa: B023 - called at once
            f"{number} {state}",
        )
    assert session.metric("hookwright_deliveries_oldest_late_age_seconds") < 5
    assert session.metric("hookwright_deliveries_in_flight") == 0
    assert session.metric("hookwright_build_info", version="0.1.0") == 1


def test_the_lease_and_the_gauges_carry_the_time(session: Session) -> None:
    """Both are timestamps near now, so that an alert can compute their age."""
    assert session.metric("hookwright_lease_until_timestamp_seconds") > session.metric(
        "hookwright_gauges_timestamp_seconds"
    )
    assert session.metric("hookwright_gauges_timestamp_seconds") > value(
        session.before, "hookwright_gauges_timestamp_seconds"
    )


@pytest.mark.parametrize("resource", ["projects", "apikeys", "webhookendpoints", "secrets"])
def test_every_watch_gives_a_sign_of_life(session: Session, resource: str) -> None:
    """The age exists, and is smaller than that of a watch that was never answered."""
    samples = scrape(session.operator.health_url)
    assert ("hookwright_watch_age_seconds", frozenset({("resource", resource)})) in samples
    assert value(samples, "hookwright_watch_age_seconds", resource=resource) < 130


def test_the_api_counts_its_requests(session: Session) -> None:
    """Requests are counted by template, method and status."""
    samples = scrape(session.api.health_url)
    labels = {"route": "/v1/webhooks/{id}/test", "method": "POST", "status": "200"}
    assert value(samples, "hookwright_api_requests_total", **labels) == 1
    assert value(samples, "hookwright_api_requests_total", status="401") >= 2
    assert value(samples, "hookwright_rate_limit_storage_available") == 1


def test_every_value_of_a_label_is_there_from_the_start(session: Session) -> None:
    """If a counter began with its first event, a rate would not include that event."""
    for name, labels in (
        ("hookwright_deliveries_total", {"outcome": "failed"}),
        ("hookwright_store_errors_total", {"reason": "unavailable"}),
        ("hookwright_reconcile_total", {"kind": "ApiKey", "result": "error"}),
        ("hookwright_loop_restarts_total", {"loop": "claim"}),
    ):
        assert (name, frozenset(labels.items())) in session.before, name


@pytest.mark.parametrize("process", ["operator", "api"])
def test_labels_are_bounded(session: Session, process: str) -> None:
    """No URL, id, address, namespace or endpoint is a label's value."""
    url = session.operator.health_url if process == "operator" else session.api.health_url
    values = {text for name, labels in scrape(url) if name.startswith("hookwright") for _, text in labels}
    assert values
    assert not [text for text in values if UNBOUNDED.search(text) or session.namespace in text or text == "good"]


def test_more_deliveries_make_no_more_series(session: Session) -> None:
    """The number of series does not change."""
    before = _series(scrape(session.operator.health_url))
    for number in range(10):
        assert session.send("opened", f"more-{number}").status_code == 202
    assert _series(scrape(session.operator.health_url)) == before


def test_a_scrape_asks_the_store_nothing(session: Session) -> None:
    """Fifty scrapes cause no operation of the store; its own loops cause a few in that time."""
    name = "hookwright_store_transaction_duration_seconds_count"
    first = scrape(session.operator.health_url)
    for _ in range(50):
        last = scrape(session.operator.health_url)
    for operation in ("counts", "next_due"):
        assert value(last, name, operation=operation) - value(first, name, operation=operation) < 50


def _series(samples: Samples) -> int:
    return sum(name.startswith("hookwright") for name, _ in samples)


def test_the_metrics_module_measures_all_that_it_defines() -> None:
    """Each defined metric is set somewhere in the operator."""
    folder = Path(metrics.__file__).parent
    elsewhere = "".join(path.read_text() for path in folder.rglob("*.py") if path.name != "metrics.py")
    own = Path(metrics.__file__).read_text()
    for name in re.findall(r"^([A-Z_]+): Final = (?:Counter|Gauge|Histogram)", own, re.MULTILINE):
        assert f"metrics.{name}" in elsewhere or f"\n{name}." in own, name
