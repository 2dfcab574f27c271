"""After a busy session the metrics have counted it, with bounded labels, and no secret has left its Secret."""

import json
import re

import pytest
from support.busy_operator import Samples, Session, scrape, value
from support.json_lines import complete_lines, entries
from support.polling import eventually

from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE

UNBOUNDED = re.compile(r"https?:|/v1/webhooks/[^{]|msg_|dlv_|hw_|[0-9a-f]{8}-[0-9a-f]{4}-|@")


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
    count = value(scrape(session.operator.health_url), name, **labels) - value(session.before, name, **labels)
    assert count >= least


def test_latency_is_of_first_attempts_alone(session: Session) -> None:
    """A retry is an attempt, but no first attempt."""
    assert session.metric("hookwright_delivery_latency_seconds_count") < session.metric(
        "hookwright_delivery_attempt_duration_seconds_count"
    )


def test_gauges_tell_how_things_stand(session: Session) -> None:
    """An endpoint is in one state; a delivery of a suspended endpoint is pending, but not late."""
    expected = {"active": 1, "failing": 1, "blocked": 1, "suspended": 0}
    for state, number in expected.items():
        eventually(
            lambda: session.metric("hookwright_endpoints", state=state) == number,  # noqa: B023 - called at once
            f"{number} {state}",
        )
    assert session.metric("hookwright_deliveries_oldest_late_age_seconds") < 5
    assert session.metric("hookwright_deliveries_in_flight") == 0
    assert session.metric("hookwright_shards_owned") == 128
    assert session.metric("hookwright_build_info", version="0.1.0") == 1


def test_the_lease_and_the_gauges_carry_the_time(session: Session) -> None:
    """Both are timestamps near now, so that an alert can compute their age."""
    assert session.metric("hookwright_lease_until_timestamp_seconds") > session.metric(
        "hookwright_gauges_timestamp_seconds"
    )
    assert session.metric("hookwright_gauges_timestamp_seconds") > value(
        session.before, "hookwright_gauges_timestamp_seconds"
    )


@pytest.mark.parametrize("resource", ["projects", "apikeys", "webhookendpoints", "secrets", "configmaps"])
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


# ------------------------------------------------------------------------------------ logs and secrets


def _told(session: Session) -> dict[str, str]:
    kubectl, namespace = session.cluster.kubectl, session.namespace
    return {
        "operator's log": session.operator.log.read_text(),
        "API's log": session.api.log.read_text(),
        "operator's metrics": session.operator.metrics(),
        "API's metrics": session.api.metrics(),
        "Events": kubectl("get", "events", "-n", namespace, "-o", "yaml").stdout,
        "Events of the installation": kubectl("get", "events", "-n", SYSTEM_NAMESPACE, "-o", "yaml").stdout,
        "description": kubectl("describe", "hookwright", "-n", namespace).stdout,
        "description of Secrets": kubectl("describe", "secrets", "-n", namespace).stdout,
    }


def test_no_secret_is_told_anywhere(session: Session) -> None:
    """No signing secret, API key, token, password, session key or password hash appears, old or new, valid or not."""
    message = _told(session)
    assert all(message[item] for item in message if item != "Events of the installation")
    assert len(session.secrets) >= 12
    for what, secret in session.secrets.items():
        assert len(secret) >= 16, what
        # The spec of an endpoint has the static header, so its description shows it; docs/security.md says so.
        shown = {"description"} if what == "static header" else set()
        leaks = [item for item, text in message.items() if secret in text and item not in shown]
        assert not leaks, f"{what} is in {leaks}"


def test_the_search_would_find_a_secret(session: Session) -> None:
    """The same search finds values that are not secret."""
    text = _told(session)
    assert "sender-key" in text["Events"]
    assert "orphan" in text["description"]
    assert "delivery failed" in text["operator's log"]


def test_a_delivery_that_is_given_up_is_one_line_of_the_log(session: Session) -> None:
    """The line names the delivery, its endpoint, and the error."""
    (line,) = [line for line in entries(session.operator.log) if line["event"] == "delivery failed"]
    assert line["delivery"].startswith("dlv_")
    assert (line["namespace"], line["endpoint"]) == (session.namespace, "dead")
    assert line["error"] == "connection refused"
    assert line["attempts"] == 3


@pytest.mark.parametrize("process", ["operator", "api"])
def test_every_line_of_a_json_log_is_json(session: Session, process: str) -> None:
    """Libraries' lines are JSON too, each with its level, its logger and a time in UTC."""
    log = session.operator.log if process == "operator" else session.api.log
    lines = complete_lines(log)
    assert lines
    for text in lines:
        line = json.loads(text)
        assert line["level"]
        assert line["logger"]
        assert line["timestamp"].endswith("Z")
