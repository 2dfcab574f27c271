"""Both processes are scraped through their Services, as Prometheus does it."""

import pytest
from e2e.installing import NAMESPACE
from prometheus_client.parser import text_string_to_metric_families
from support.pod_actions import API, Organization
from support.polling import eventually

OPERATOR = {
    "events_accepted": "counter",
    "events_duplicate": "counter",
    "deliveries": "counter",
    "delivery_attempts": "counter",
    "delivery_attempt_duration_seconds": "histogram",
    "delivery_latency_seconds": "histogram",
    "deliveries_pending": "gauge",
    "deliveries_oldest_pending_age_seconds": "gauge",
    "deliveries_in_flight": "gauge",
    "endpoints": "gauge",
    "reconcile": "counter",
    "reconcile_duration_seconds": "histogram",
    "store_transaction_duration_seconds": "histogram",
}
CLIENTS = {
    "api_requests": "counter",
    "api_request_duration_seconds": "histogram",
    "rate_limit_rejections": "counter",
}
"""The documented metrics by process; a counter's samples end in ``_total``."""


@pytest.fixture
def used(org: Organization) -> Organization:
    """Return an organization in which everything countable has happened at least once."""
    org.with_endpoint()
    for _ in range(2):
        assert org.post({"id": "e-1", "type": "delivered", "messageId": "m-1"}).status == 202
    org.arrived("orders", ["m-1"])
    assert org.request("GET", f"{API}/v1/webhooks").status == 401
    return org


def _scraped(org: Organization, url: str) -> dict[str, tuple[str, float]]:
    """Return the type of each Hookwright metric, and the sum of its samples."""
    answer = org.request("GET", url)
    assert answer.status == 200, answer
    return {
        family.name.removeprefix("hookwright_"): (family.type, sum(sample.value for sample in family.samples))
        for family in text_string_to_metric_families(answer.body)
        if family.name.startswith("hookwright_")
    }


def _types(scraped: dict[str, tuple[str, float]], promised: dict[str, str]) -> dict[str, str]:
    return {name: type_ for name, (type_, _) in scraped.items() if name in promised}


def test_every_promised_metric_is_scraped_from_its_process(used: Organization) -> None:
    """The metrics of alerts and dashboards exist, and count the operations of the organization."""
    url = f"http://hookwright-operator-metrics.{NAMESPACE}:9090/metrics"
    operator = _scraped(used, url)
    assert _types(operator, OPERATOR) == OPERATOR
    for name in ("events_accepted", "events_duplicate", "deliveries", "delivery_attempts", "reconcile"):
        assert operator[name][1] >= 1, name
    eventually(lambda: _scraped(used, url)["endpoints"][1] >= 1, "the endpoint is counted, which is done now and then")
    api = _scraped(used, f"http://hookwright-api-metrics.{NAMESPACE}:9091/metrics")
    assert _types(api, CLIENTS) == CLIENTS
    assert api["api_requests"][1] >= 1
