"""A support case by ``/v1`` alone: a customer says that message m-42 never arrived."""

import json
from typing import Any

import httpx
import pytest
from support.api_processes import Organization, problem_of
from support.api_receiver import Received
from support.polling import eventually


def test_a_message_that_never_arrived_is_found_read_sent_again_and_seen_delivered(
    acme: Organization, client: httpx.Client, receiver: Received
) -> None:
    """The receiver refuses the event once; its delivery waits for a retry, which a person does not wait for."""
    key = acme.service_key()
    webhook = acme.webhook(key, f"{receiver.url}/case")["id"]
    receiver.status = 500
    for message in ("m-41", "m-42"):
        event = {"id": f"evt-{message}", "type": "delivered", "messageId": message}
        assert client.post("/v1/events", json=event, headers=key).json()["deliveries"] == 1

    def found() -> dict[str, object]:
        page = client.get("/v1/deliveries", params={"message_id": "m-42"}, headers=key)
        assert page.status_code == 200
        [delivery] = page.json()["data"]
        assert (delivery["webhook"], page.json()["next"]) == (webhook, None)
        story: dict[str, object] = delivery
        return story

    eventually(lambda: bool(found()["attempts"]), "the first attempt")
    delivery = found()
    assert delivery["status"] == "pending"
    conditions = {"status_code": "500", "status": "pending", "type": "delivered", "webhook": webhook}
    rows = client.get("/v1/deliveries", params=conditions, headers=key).json()["data"]
    assert delivery["id"] in {row["id"] for row in rows}

    document = client.get(f"/v1/deliveries/{delivery['id']}", headers=key).json()
    [attempt] = document["attempts"]
    assert attempt["statusCode"] == 500
    assert json.loads(document["request"]["body"])["messageId"] == "m-42"
    assert attempt["request_headers"]["webhook-id"] == delivery["event_id"]
    event_answer = client.get(f"/v1/events/{delivery['event_id']}", headers=key).json()
    assert [row["id"] for row in event_answer["deliveries"]] == [delivery["id"]]

    receiver.status = 200
    again = client.post(f"/v1/deliveries/{delivery['id']}/retry", headers=key)
    assert (again.status_code, again.json()) == (202, {"id": delivery["id"], "status": "pending"})
    eventually(lambda: found()["status"] == "delivered", "the delivery")
    attempts = found()["attempts"]
    assert [row["statusCode"] for row in attempts] == [500, 200]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("method", "path", "wrong", "field"),
    [
        ("GET", "/v1/deliveries", {"params": {"status": "lost"}}, "status"),
        ("GET", "/v1/webhooks/{}/deliveries", {"params": {"cursor": "1"}}, "cursor"),
        ("GET", "/v1/webhooks/{}/statistics", {"params": {"window": "1y"}}, "window"),
        ("GET", "/v1/projects/billing/statistics", {"params": {"window": "1y"}}, "window"),
        ("POST", "/v1/webhooks/{}/replays", {"json": {"since": "yesterday"}}, "since"),
        ("POST", "/v1/webhooks/{}/test", {"json": {"type": "nonsense"}}, "type"),
    ],
)
def test_a_refusal_of_the_operator_names_its_field(  # noqa: PLR0917 - a column of the table each
    tenant: Organization, client: httpx.Client, method: str, path: str, wrong: dict[str, Any], field: str
) -> None:
    """The API passes it on in the form of its own refusals."""
    key = tenant.service_key()
    answer = client.request(method, path.format(tenant.webhook(key)["id"]), headers=key, **wrong)
    assert [fault["field"] for fault in problem_of(answer, 422)["errors"]] == [field]


def test_a_project_that_keeps_payloads_out_of_its_log_is_asked_in_vain(
    acme: Organization, client: httpx.Client, receiver: Received
) -> None:
    """The Project's spec decides, also for an event that is accepted already; the receiver gets the payload."""
    key = acme.service_key(acme.project("private"))
    acme.webhook(key, f"{receiver.url}/private")
    event = {"type": "delivered", "messageId": "m-43", "to": "+491701234567"}
    [event_id] = client.post("/v1/events", json=event, headers=key).json()["event_ids"]

    def asked(path: str) -> httpx.Response:
        return client.get(f"/v1/{path}", headers=key)

    eventually(lambda: asked(f"events/{event_id}").json()["deliveries"][0]["status"] == "delivered", "the delivery")
    assert event["to"] in asked(f"events/{event_id}").json()["body"]
    acme.apply({"kind": "Project", "metadata": {"name": "private"}, "spec": {"deliveryLog": {"payloads": "Omit"}}})
    eventually(lambda: asked(f"events/{event_id}").json()["body"] is None, "the setting")
    [delivery] = asked(f"events/{event_id}").json()["deliveries"]
    for path in (f"events/{event_id}", f"deliveries/{delivery['id']}", "deliveries"):
        assert event["to"] not in asked(path).text
    assert "Omit" in asked(f"deliveries/{delivery['id']}").json()["request"]["body_omitted"]


def test_an_unknown_parameter_and_one_that_is_sent_twice_are_refused(acme: Organization, client: httpx.Client) -> None:
    """A client would otherwise get the deliveries of all states, or of the last one only."""
    key = acme.service_key()
    for path in ("/v1/deliveries", "/v1/webhooks"):
        answer = client.get(f"{path}?state=1&status=failed&limit=5&status=active", headers=key)
        assert answer.status_code == 422, path
        assert answer.json()["errors"] == [
            {"field": "state", "message": "is unknown; omit it"},
            {"field": "status", "message": "is sent more than once; send one value"},
        ]
