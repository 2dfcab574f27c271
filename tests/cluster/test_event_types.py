"""Own event types on a real cluster: declared, sent, counted, healed and deleted."""

import json

from support.cluster_actions import Organization, endpoint, manifest, receiving
from support.polling import eventually

PAID = {"type": "invoice.paid", "invoice": 42}
MEANING = {"meaning": "An invoice is paid."}


def test_an_own_type_is_declared_sent_and_delivered(org: Organization) -> None:
    """The type exists for all projects of its organization, and reports how many endpoints name it."""
    with receiving() as receiver:
        org.apply(manifest("EventType", "invoice.paid", MEANING))
        org.with_endpoint(endpoint("orders", receiver.url, events=["invoice.paid"]))
        org.apply(endpoint("archive", receiver.url, events=["*"]))
        org.wait_for("hwep", "archive", "True Delivering")
        org.wait_for("hwtype", "invoice.paid", "True Accepting")
        assert org.send(PAID)["deliveries"] == 2
        eventually(lambda: len(receiver.received) == 2, "both deliveries arrive")
        assert {request.body for request in receiver.received} == {b'{"type":"invoice.paid","invoice":42}'}
    eventually(lambda: org.status("hwtype", "invoice.paid")["webhookEndpoints"] == 1, "wildcards do not count")
    org.patch("hwep", "orders", {"spec": {"events": ["delivered"]}})
    eventually(lambda: org.status("hwtype", "invoice.paid")["webhookEndpoints"] == 0, "no endpoint names it")


def test_an_endpoint_heals_when_the_type_that_it_names_appears(org: Organization) -> None:
    """Until then it delivers the other types; the order of applied objects does not matter."""
    with receiving() as receiver:
        org.apply(manifest("Project", "billing"), manifest("EventType", "invoice.sent", MEANING))
        org.wait_for("hwtype", "invoice.sent", "True Accepting")
        org.apply(endpoint("orders", receiver.url, events=["delivered", "invoice.paid"]))
        org.wait_for("hwep", "orders", "False EventTypesNotFound")
        ready = org.status("hwep", "orders")["conditions"][0]
        assert "EventType 'invoice.paid' does not exist; the nearest is invoice.sent" in ready["message"]
        assert org.send({"type": "delivered", "messageId": "m-1"})["deliveries"] == 1
        eventually(lambda: receiver.received, "the other type is delivered")
        refusal = org.post(json.dumps(PAID))
        assert (refusal.status_code, "the nearest is invoice.sent" in refusal.text) == (422, True)
        org.apply(manifest("EventType", "invoice.paid", MEANING))
        org.wait_for("hwep", "orders", "True Delivering", within=5)
        eventually(lambda: org.post(json.dumps(PAID)).status_code == 202, "the type is accepted")


def test_a_deleted_type_is_refused_and_its_pending_deliveries_are_sent(org: Organization) -> None:
    """Without the chart's policy a type in use can go: the endpoint says so, and nothing accepted is lost."""
    with receiving() as receiver:
        org.apply(manifest("EventType", "invoice.paid", MEANING))
        org.with_endpoint(endpoint("orders", receiver.url, events=["invoice.paid"]))
        eventually(lambda: org.post(json.dumps(PAID)).status_code == 202, "the type is accepted")
        eventually(lambda: receiver.received, "the first delivery arrives")
        org.patch("hwep", "orders", {"spec": {"suspend": True}})
        org.wait_for("hwep", "orders", "True Suspended")
        org.send(PAID)
        org.delete("hwtype", "invoice.paid")
        org.wait_for("hwep", "orders", "False EventTypesNotFound")
        assert org.post(json.dumps(PAID)).status_code == 422
        org.patch("hwep", "orders", {"spec": {"suspend": False}})
        eventually(lambda: len(receiver.received) == 2, "the pending delivery arrives")


def test_a_type_with_a_wrong_example_is_accepted_and_says_so(org: Organization) -> None:
    """The API server reads no JSON in texts, so the condition names the field and the correct form."""
    org.apply(manifest("Project", "billing"), manifest("EventType", "invoice.paid", {**MEANING, "example": "{"}))
    org.wait_for("hwtype", "invoice.paid", "False UnsupportedSpec")
    message = org.status("hwtype", "invoice.paid")["conditions"][0]["message"]
    assert "spec.example (must be the text of a JSON object, such as" in message
    assert org.send(PAID)["accepted"] == 1
