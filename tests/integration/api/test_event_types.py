"""Event types through the API."""

import json
import time
from typing import Any

import httpx
import pytest
from integration.api.conftest import Organizations
from support.api_processes import Organization, problem_of
from support.api_receiver import Received
from support.polling import eventually

from hookwright_crds.events import ALL_TYPES, EVENT_TYPES, SUBSCRIPTIONS


def test_the_catalogue_has_every_type_and_its_wildcards_can_be_subscribed_to(
    acme: Organization, client: httpx.Client
) -> None:
    """A client builds the `events` of a webhook from the answer alone."""
    key = acme.service_key()
    types = client.get("/v1/event-types", headers=key).json()["data"]
    assert [entry["type"] for entry in types] == [*ALL_TYPES]
    assert set(types[0]) == {"type", "channel", "meaning", "example", "wildcards", "deprecated", "payload_schema"}
    wildcards = [*dict.fromkeys(wildcard for entry in types for wildcard in entry["wildcards"])]
    assert {*wildcards, *ALL_TYPES} == {*SUBSCRIPTIONS}
    subscriptions = [*wildcards, ALL_TYPES[-1]]
    assert acme.webhook(key, events=subscriptions)["events"] == subscriptions


def test_the_examples_are_accepted_as_events(acme: Organization, client: httpx.Client) -> None:
    """A producer can copy each example of a type that producers send, which is one with a wildcard."""
    key = acme.service_key()
    rows = client.get("/v1/event-types", headers=key).json()["data"]
    examples = [row["example"] for row in rows if row["wildcards"]]
    answer = client.post("/v1/events", json=examples, headers=key)
    assert (answer.status_code, answer.json()["accepted"]) == (202, len(EVENT_TYPES))


SCHEMA = {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "number"}}}
PAID: dict[str, Any] = {
    "type": "invoice.paid",
    "channel": "own",
    "meaning": "A customer paid an invoice.",
    "example": {"type": "invoice.paid", "messageId": "inv-17", "amount": 129.9},
    "wildcards": ["*"],
    "deprecated": False,
    "payload_schema": SCHEMA,
}


def declare(acme: Organization, name: str = "invoice.paid", **changes: Any) -> None:
    """Apply an EventType."""
    spec = {
        "meaning": "A customer paid an invoice.",
        "example": '{"messageId": "inv-17", "amount": 129.9}',
        "payloadSchema": json.dumps(SCHEMA),
        **changes,
    }
    acme.apply({"kind": "EventType", "metadata": {"name": name}, "spec": spec})


def own_types(acme: Organization, client: httpx.Client) -> dict[str, dict[str, Any]]:
    """Return the own types that /v1 lists."""
    rows = client.get("/v1/event-types", headers=acme.session()).json()["data"]
    return {row["type"]: row for row in rows if row["channel"] == "own"}


def test_an_own_type_is_listed_within_seconds_for_its_organization_alone(
    acme: Organization, organizations: Organizations, client: httpx.Client
) -> None:
    """A change and a deletion are seen too. An EventType without example and schema has an example of its type."""
    rival = organizations.new("rival")
    rival.project()
    declare(acme)
    begin = time.monotonic()
    eventually(lambda: own_types(acme, client) == {"invoice.paid": PAID}, "the own type is listed")
    assert time.monotonic() - begin < 5
    assert own_types(rival, client) == {}
    acme.apply({"kind": "EventType", "metadata": {"name": "invoice.due"}, "spec": {"meaning": "m", "deprecated": True}})
    due = {"example": {"type": "invoice.due"}, "deprecated": True, "payload_schema": None, "meaning": "m"}
    eventually(lambda: own_types(acme, client).get("invoice.due") == {**PAID, "type": "invoice.due", **due}, "a second")
    assert list(own_types(acme, client)) == ["invoice.due", "invoice.paid"]
    acme.cluster.objects.delete("EventType", "invoice.paid", namespace=acme.name)
    eventually(lambda: list(own_types(acme, client)) == ["invoice.due"], "the deletion is seen")


@pytest.mark.parametrize("name", ["invoice.payed", "deliverd"])
def test_an_unknown_type_is_refused_with_the_nearest_names(acme: Organization, client: httpx.Client, name: str) -> None:
    """POST and PATCH name the entry. The type that an endpoint has already stays, also after its EventType is gone."""
    declare(acme)
    eventually(lambda: own_types(acme, client), "the own type is listed")
    key, nearest = acme.service_key(), {"invoice.payed": "invoice.paid", "deliverd": "delivered"}[name]
    webhook = acme.webhook(key, events=["invoice.paid"])["id"]
    new = {"url": "https://example.com/hooks", "events": ["bounced", name]}
    change = {"events": ["invoice.paid", name]}
    merge_patch = {**key, "Content-Type": "application/merge-patch+json"}
    for answer in (
        client.post("/v1/webhooks", json=new, headers=key),
        client.patch(f"/v1/webhooks/{webhook}", json=change, headers=merge_patch),
    ):
        [fault] = problem_of(answer, 422)["errors"]
        assert fault["field"] == "events[1]"
        assert f"unknown event type {name!r}" in fault["message"]
        assert nearest in fault["message"].partition("nearest")[2]
    assert len(client.get("/v1/webhooks", headers=key).json()["data"]) == 1


def test_an_own_type_is_tested_and_delivered(acme: Organization, client: httpx.Client, receiver: Received) -> None:
    """A test without a payload sends the example of the EventType; an event is found by its type."""
    declare(acme)
    eventually(lambda: own_types(acme, client), "the own type is listed")
    key = acme.service_key()
    webhook = acme.webhook(key, f"{receiver.url}/ledger", events=["invoice.paid"])["id"]
    answer = client.post(f"/v1/webhooks/{webhook}/test", json={"type": "invoice.paid"}, headers=key)
    assert (answer.status_code, answer.json().get("success")) == (200, True), answer.text
    assert receiver.requests[0][2] == b'{"type":"invoice.paid","messageId":"inv-17","amount":129.9,"test":true}'
    answer = client.post("/v1/events", json={**PAID["example"], "amount": 7}, headers=key)
    assert (answer.status_code, answer.json()["deliveries"]) == (202, 1), answer.text
    path = "/v1/deliveries?type=invoice.paid&status=delivered"
    eventually(lambda: len(client.get(path, headers=key).json()["data"]) == 1, "the delivery is found by its type")
    assert receiver.requests[1][2] == b'{"type":"invoice.paid","messageId":"inv-17","amount":7}'
    wrong = client.post(f"/v1/webhooks/{webhook}/test", json={"type": "invoice.payed"}, headers=key)
    assert "invoice.paid" in problem_of(wrong, 422)["errors"][0]["message"]
