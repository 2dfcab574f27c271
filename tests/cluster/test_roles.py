"""Three replicas with one role each work like one with all roles, on a real PostgreSQL server."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
from standardwebhooks import Webhook
from support.cluster_actions import Organization, delivered, endpoint, manifest, message_ids, receiving
from support.operator_replicas import leads, replica
from support.polling import eventually

from hookwright_dev.cluster.installation import OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.cluster.postgres import PostgresServer
from hookwright_dev.receiver import verdict

pytestmark = pytest.mark.slow

NOWHERE = "http://127.0.0.1:9/"
GAUGES = ("hookwright_deliveries_pending", "hookwright_endpoints", "hookwright_gauges_timestamp_seconds")


@dataclass(frozen=True)
class Parts:
    """The replicas by role."""

    reconcile: OperatorProcess
    deliver: OperatorProcess
    intake: OperatorProcess


@pytest.fixture(scope="module")
def parts(
    control_plane: Cluster, postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Parts]:
    """Yield the running replicas; each must exit with 0 and log no traceback."""
    url = postgres.new_database("roles")
    roles = ("reconcile", "deliver", "intake")
    parts = Parts(*(replica(control_plane, tmp_path_factory.mktemp(role), url, role) for role in roles))
    processes = (parts.reconcile, parts.deliver, parts.intake)
    for process in processes:
        process.start(wait=False)
    for process in processes:
        process.wait_ready()
    eventually(lambda: leads(parts.reconcile), "the only one that can lead does")
    yield parts
    for process in processes:
        assert process.stop() == 0, process.log.read_text()
        assert "Traceback" not in process.log.read_text(), process.log.read_text()


@pytest.fixture
def org(control_plane: Cluster, parts: Parts, namespace: str) -> Iterator[Organization]:
    """Yield an organization of the test, whose events go to the replica with the intake."""
    with Organization(control_plane, parts.intake, namespace) as organization:
        yield organization


def test_what_one_takes_in_another_delivers_and_a_third_tells_of(parts: Parts, org: Organization) -> None:
    """YAML and an event result in a signed delivery, and the status shows it."""
    with receiving() as receiver:
        org.with_endpoint(endpoint("orders", receiver.url))
        before = parts.deliver.metric("hookwright_delivery_attempts_total")
        assert org.send(*map(delivered, range(20)))["deliveries"] == 20
        eventually(lambda: len(receiver.received) == 20, "all are delivered")
        eventually(lambda: org.status("hwep", "orders")["deliveries"]["delivered"] == 20, "the status shows them")
        org.wait_for("hwep", "orders", "True Delivered", type_="Reachable")
        secret = (org.secret("orders-signing") or {})["secret"]
        assert [verdict(request.headers, request.body, [secret]) for request in receiver.received] == [""] * 20
    assert parts.deliver.metric("hookwright_delivery_attempts_total") - before == 20
    assert parts.intake.metric("hookwright_delivery_attempts_total") == 0
    assert parts.intake.metric("hookwright_events_accepted_total") >= 20


def test_an_endpoint_that_is_ready_misses_no_event(org: Organization) -> None:
    """The replica with the intake knows an endpoint before the leader reports it as ready."""
    org.apply(manifest("Project", "billing"))
    for number in range(5):
        org.apply(endpoint(f"e{number}", NOWHERE))
        org.wait_for("hwep", f"e{number}", "True Delivering")
        assert org.send(delivered(number))["deliveries"] == number + 1


def test_the_status_has_the_words_of_the_process_that_tried(org: Organization) -> None:
    """The status has the receiver's answer, and a failed delivery causes an Event."""
    with receiving(lambda _: 500) as receiver:
        org.with_endpoint(endpoint("flaky", receiver.url))
        org.send(delivered(1))
        (event,) = eventually(lambda: org.events("DeliveryFailed"), "an Event")
        assert "500" in event["message"]
        assert org.condition("hwep", "flaky", "Reachable") == "False AttemptFailed"
        eventually(lambda: org.status("hwep", "flaky")["deliveries"]["failed"] == 1, "the status counts it")


def test_the_process_that_takes_events_in_sends_a_test_itself(parts: Parts, org: Organization) -> None:
    """The test is sent once, and the delivery log has it."""
    with receiving(lambda _: 204) as receiver:
        org.with_endpoint(endpoint("orders", receiver.url))
        url = f"{parts.intake.intake_url}/v1alpha1/namespaces/{org.namespace}/webhookendpoints/orders/test"
        answer = org.client.post(url, headers={"Authorization": f"Bearer {org.token}"})
        document = answer.json()
        assert document.pop("delivery_id").startswith("dlv_")
        assert document == {"success": True, "statusCode": 204}
        assert len(receiver.received) == 1


def test_a_successful_test_resumes_an_endpoint_that_the_operator_suspended(parts: Parts, org: Organization) -> None:
    """The process that sends the test reports it to the leader. What waited is delivered, and another endpoint told."""
    types = ["hookwright.endpoint.suspended", "hookwright.endpoint.recovered"]
    with receiving(lambda _: 500) as receiver, receiving() as on_call:
        org.with_endpoint(endpoint("on-call", on_call.url, events=types))
        org.with_endpoint(endpoint("orders", receiver.url, suspendAfter="1d"))
        org.send(delivered(1))
        org.wait_for("hwep", "orders", "False AttemptFailed", type_="Reachable")
        conditions = org.status("hwep", "orders")["conditions"]
        aged = [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"} for condition in conditions]
        org.patch("hwep", "orders", {"status": {"conditions": aged}}, subresource="status")
        org.send(delivered(2))
        org.wait_for("hwep", "orders", "False SuspendedAfterFailures")
        org.send(delivered(3))
        eventually(lambda: org.status("hwep", "orders")["deliveries"]["pending"] >= 1, "a delivery waits")
        receiver.answer = lambda _: 204
        url = f"{parts.intake.intake_url}/v1alpha1/namespaces/{org.namespace}/webhookendpoints/orders/test"
        assert org.client.post(url, headers={"Authorization": f"Bearer {org.token}"}).json()["success"]
        org.wait_for("hwep", "orders", "True Delivered", type_="Reachable")
        eventually(lambda: "3" in message_ids(receiver.received), "what waited arrives")
        eventually(lambda: [json.loads(each.body)["type"] for each in on_call.received] == types, "both reports")


def test_a_rotated_secret_reaches_the_process_that_signs(org: Organization) -> None:
    """After the rotation both secrets sign deliveries; X-Service-Signature is still that of the replaced one."""
    with receiving() as receiver:
        org.with_endpoint(endpoint("orders", receiver.url))
        old = (org.secret("orders-signing") or {})["secret"]
        org.patch("hwep", "orders", {"spec": {"signing": {"rotation": 1}}})
        eventually(lambda: (org.secret("orders-signing") or {}).get("previous") == old, "the secret is rotated")
        new = (org.secret("orders-signing") or {})["secret"]

        def signed_anew() -> bool:
            records = len(receiver.received)
            org.send(delivered(records))
            eventually(lambda: len(receiver.received) > records, "it arrives")
            return len(receiver.received[-1].headers["webhook-signature"].split()) == 2

        eventually(signed_anew, "deliveries are signed with the new secret")
        request = receiver.received[-1]
        assert verdict(request.headers, request.body, [old]) == ""
        Webhook(new).verify(request.body, dict(request.headers))


def test_a_deleted_endpoint_is_forgotten_by_all(org: Organization) -> None:
    """Its pending deliveries are discarded, later events create none, and no attempt is made."""
    with receiving(lambda _: 503) as receiver:
        org.with_endpoint(endpoint("orders", receiver.url))
        org.send(delivered(1))
        eventually(lambda: receiver.received, "an attempt was made")
        org.delete("hwep", "orders", seconds=30)
        eventually(lambda: org.send(delivered(2))["deliveries"] == 0, "it gets no events any more")


def test_only_who_takes_events_in_listens_for_them(parts: Parts) -> None:
    """Only the leader shows the gauges of the whole store, so that a sum over all replicas is correct."""
    for process in (parts.reconcile, parts.deliver):
        with pytest.raises(httpx.ConnectError):
            httpx.get(process.intake_url, trust_env=False)
    for name in GAUGES:
        assert name in parts.reconcile.metrics()
        assert name not in parts.deliver.metrics()
        assert name not in parts.intake.metrics()
    assert [leads(process) for process in (parts.reconcile, parts.deliver, parts.intake)] == [True, False, False]


def test_what_happens_while_nobody_leads_is_told_later(parts: Parts, org: Organization) -> None:
    """Events are accepted and delivered without a leader; the next leader publishes the missed changes."""
    with receiving() as receiver:
        org.with_endpoint(endpoint("orders", receiver.url))
        assert parts.reconcile.stop() == 0
        org.send(*map(delivered, range(10)))
        eventually(lambda: len(set(message_ids(receiver.received))) == 10, "all are delivered")
        document = parts.deliver.metric("hookwright_deliveries_total", outcome="delivered")
        assert document >= 10
        parts.reconcile.start()
        eventually(lambda: leads(parts.reconcile), "there is a leader again")
        eventually(lambda: org.status("hwep", "orders")["deliveries"]["delivered"] == 10, "the status shows them")
