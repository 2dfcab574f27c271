"""One event through both processes: by its request id in the logs, and by its trace in a collector."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from support.api_processes import Organization
from support.api_receiver import Received, receiving
from support.json_lines import entries
from support.polling import eventually
from support.trace_collector import Collector, collecting

from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
SETTINGS = {
    "HOOKWRIGHT_LOG_LEVEL": "debug",
    "HOOKWRIGHT_LOG_FORMAT": "json",
    "HOOKWRIGHT_RETRY_SCHEDULE": "1s,1s",
    "HOOKWRIGHT_ALLOWED_NETWORKS": "",
    "HOOKWRIGHT_ALLOWED_HOSTS": "localhost",
    "HOOKWRIGHT_DENIED_HOSTS": "denied.localhost",
    "OTEL_BSP_SCHEDULE_DELAY": "100",
}


@dataclass
class Site:
    """Both processes, a collector, a receiver, and a client that has a key."""

    operator: OperatorProcess
    api: ApiProcess
    organization: Organization
    collector: Collector
    receiver: Received
    client: httpx.Client

    def endpoint(self, name: str, event: str, url: str) -> None:
        """Declare an endpoint and return when it is ready."""
        self.declare(name, event, url)
        eventually(lambda: "Delivering" in self.said(name), f"{name} is ready")

    def declare(self, name: str, event: str, url: str) -> None:
        """Declare an endpoint."""
        spec = {"projectRef": {"name": "billing"}, "url": url, "events": [event]}
        self.organization.apply({"kind": "WebhookEndpoint", "metadata": {"name": name}, "spec": spec})

    def said(self, name: str) -> str:
        """Return the messages of an endpoint's conditions."""
        endpoint = self.organization.cluster.objects.get("hwep", name, self.organization.name) or {}
        return json.dumps(endpoint.get("status", {}).get("conditions", []))

    def send(self, event: str, **headers: str) -> httpx.Response:
        """Send an event through the API."""
        return self.client.post("/v1/events", json={"type": event, "messageId": "m-1"}, headers=headers)

    def lines(self, process: OperatorProcess | ApiProcess, **fields: str) -> list[dict[str, Any]]:
        """Return the lines of a log that have these fields."""
        return [line for line in entries(process.log) if fields.items() <= line.items()]


@pytest.fixture(scope="module")
def site(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a site with its own organization in one namespace."""
    namespace = f"following-{os.getpid()}"
    control_plane.objects.create("Namespace", namespace)
    with collecting() as collector, receiving() as receiver:
        settings = SETTINGS | {"HOOKWRIGHT_WATCH_NAMESPACES": namespace, "HOOKWRIGHT_TRACES": collector.url}
        operator = OperatorProcess(control_plane, tmp_path_factory.mktemp("operator"), settings)
        operator.start()
        api = ApiProcess(control_plane, tmp_path_factory.mktemp("api"), operator.intake_url, settings)
        try:
            with api, httpx.Client(base_url=api.url, trust_env=False, timeout=30.0) as client:
                organization = Organization(control_plane, client, namespace)
                organization.project()
                client.headers.update(organization.service_key())
                yield Site(operator, api, organization, collector, receiver, client)
        finally:
            assert operator.stop() == 0
            control_plane.objects.delete("Namespace", namespace, wait=False)


def _at(receiver: Received, host: str) -> str:
    return f"{receiver.url.replace('127.0.0.1', host)}/hooks/path-token?key=query-token"


def test_an_event_is_found_by_the_id_of_its_request_and_by_its_trace(site: Site) -> None:
    """The caller's id is in the answer and in the operator's log, and leads to the delivery and its spans."""
    site.endpoint("orders", "delivered", _at(site.receiver, "localhost"))
    traced = {"X-Request-Id": "support-case-7", "traceparent": f"00-{TRACE}-{PARENT}-01"}
    answer = site.send("delivered", **traced)
    assert (answer.status_code, answer.headers["x-request-id"]) == (202, "support-case-7")
    eventually(lambda: len(site.collector.named("attempt", endpoint="orders")) == 1, "the attempt's span")
    eventually(lambda: len(site.collector.named("accept", request_id="support-case-7")) == 1, "the acceptance's span")
    (accept,) = site.collector.named("accept", request_id="support-case-7")
    (attempt,) = site.collector.named("attempt", endpoint="orders")
    assert (accept.trace, accept.parent, attempt.trace, attempt.parent) == (TRACE, PARENT, TRACE, accept.id)
    lines = eventually_lines(site, event="events accepted", namespace=site.organization.name)
    (entry,) = [entry for line in lines for entry in line["events"] if entry["request_id"] == "support-case-7"]
    assert entry["event_id"] == attempt.attributes["hookwright.event.id"]
    assert "request_id" not in lines[0]
    ((_, headers, _),) = site.receiver.requests
    assert headers["webhook-id"] == entry["event_id"]
    assert "traceparent" not in headers


def test_one_message_is_followed_by_its_producers_id(site: Site) -> None:
    """The log has one line of its acceptance, one for each failed attempt, and the last one for its delivery."""
    site.receiver.status = 500
    site.endpoint("followed", "complained", _at(site.receiver, "localhost"))
    event = {"id": "case-4711", "type": "complained", "messageId": "m-1"}
    (event_id,) = site.client.post("/v1/events", json=event).json()["event_ids"]
    eventually_lines(site, event="attempt failed", producer_id="case-4711")
    site.receiver.status = 200
    eventually_lines(site, event="attempt delivered", producer_id="case-4711")
    matches = [line for line in entries(site.operator.log) if "case-4711" in json.dumps(line)]
    (acceptance,) = [line for line in matches if line["event"] == "events accepted"]
    attempts = [line for line in matches if line is not acceptance]
    assert [entry["event_id"] for entry in acceptance["events"] if entry.get("producer_id") == "case-4711"] == [
        event_id
    ]
    assert {line["event"] for line in attempts} == {"attempt failed", "attempt delivered"}
    assert {line["event_id"] for line in attempts} == {event_id}
    assert len({(line["delivery"], line["endpoint"], line["namespace"]) for line in attempts}) == 1


@pytest.mark.slow
def test_a_delivery_goes_on_in_its_trace_when_the_operator_is_killed(site: Site) -> None:
    """The attempt of the next process is a child of the acceptance by the killed one."""
    site.receiver.status = 500
    site.endpoint("crash", "bounced", _at(site.receiver, "localhost"))
    assert site.send("bounced", traceparent=f"00-{TRACE[::-1]}-{PARENT}-01").status_code == 202
    eventually(lambda: len(site.collector.named("attempt", endpoint="crash")) == 1, "the first attempt's span")
    eventually(lambda: any(span.trace == TRACE[::-1] for span in site.collector.named("accept")), "the acceptance's")
    site.operator.kill()
    site.receiver.status = 200
    site.operator.start()
    eventually(lambda: len(site.collector.named("attempt", endpoint="crash")) >= 2, "the second attempt's span")
    (accept,) = [span for span in site.collector.named("accept") if span.trace == TRACE[::-1]]
    attempts = site.collector.named("attempt", endpoint="crash")
    assert {(span.trace, span.parent) for span in attempts} == {(accept.trace, accept.id)}
    assert attempts[0].error == "HTTP 500 Internal Server Error"
    assert attempts[-1].error is None


def test_the_host_lists_of_the_settings_hold_for_attempts(site: Site) -> None:
    """No special network is allowed; one name is, and one subdomain of it is denied before its look-up."""
    site.declare("literal", "opened", _at(site.receiver, "127.0.0.1"))
    site.endpoint("denied", "clicked", _at(site.receiver, "denied.localhost"))
    before = len(site.receiver.requests)
    for event in ("opened", "clicked"):
        assert site.send(event).status_code == 202
    eventually(lambda: "127.0.0.1 is a loopback address" in site.said("literal"), "the address is refused", within=20)
    refusal = "denied.localhost is denied by this installation"
    eventually(lambda: refusal in site.said("denied"), "the host is refused", within=20)
    assert len(site.receiver.requests) == before


def test_a_delivery_that_is_given_up_has_its_event_in_the_log(site: Site) -> None:
    """The log line has the ids of the delivery, its endpoint and its event; a retry has no request id."""
    (line,) = eventually_lines(site, event="delivery failed", endpoint="denied")
    (attempt, *_) = site.collector.named("attempt", endpoint="denied")
    assert line["event_id"] == attempt.attributes["hookwright.event.id"]
    assert line["delivery"] == attempt.attributes["hookwright.delivery.id"]
    assert line["namespace"] == site.organization.name
    assert "request_id" not in line


def eventually_lines(site: Site, **fields: str) -> list[dict[str, Any]]:
    """Wait for the operator's lines with these fields, and return them."""
    eventually(lambda: site.lines(site.operator, **fields) != [], f"a line with {fields}", within=20)
    return site.lines(site.operator, **fields)


def test_no_span_has_a_secret_or_a_url_or_a_body(site: Site) -> None:
    """The spans of all tests above are checked."""
    document = "".join(span.text for span in site.collector.spans) + json.dumps(site.collector.headers)
    assert "orders" in document
    remainder = (site.client.headers["x-service-key"], (site.api.folder / "operator-token").read_text())
    for secret in ("path-token", "query-token", "whsec_", "messageId", *remainder):
        assert secret not in document


def test_a_request_without_an_id_gets_one_on_every_answer_of_the_api(site: Site) -> None:
    """Refusals have one too, and each request has its own."""
    answer = [site.client.get(path).headers["x-request-id"] for path in ("/v1/webhooks", "/nowhere", "/v1/auth/me")]
    assert len(set(answer)) == 3
    assert all(len(item) == 32 for item in answer)
