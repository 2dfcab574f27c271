"""Tests of webhooks with a chosen event, and their place in the delivery log."""

import json

import httpx
from support.api_processes import Organization, problem_of
from support.api_receiver import Received
from support.polling import eventually


def test_a_test_with_a_chosen_event_is_in_the_log(acme: Organization, client: httpx.Client, receiver: Received) -> None:
    """The receiver gets the payload unchanged, and the log shows the test with its one attempt."""
    key = acme.service_key()
    name = str(acme.webhook(key, f"{receiver.url}/t")["id"])
    body = b'{"type": "wa_replied", "payload": {"messageId": "m-1", "text": "hi", "amount": 1.10}}'
    headers = {**key, "Content-Type": "application/json"}
    answer = client.post(f"/v1/webhooks/{name}/test", content=body, headers=headers).json()
    assert (answer["success"], answer["statusCode"]) == (True, 200)
    [(_, _, received)] = receiver.requests
    assert received == b'{"type":"wa_replied","messageId":"m-1","text":"hi","amount":1.10,"test":true}'
    [shown] = client.get(f"/v1/webhooks/{name}/deliveries", headers=key).json()["data"]
    assert (shown["id"], shown["test"], shown["status"]) == (answer["delivery_id"], True, "delivered")
    assert (shown["type"], shown["reason"], len(shown["attempts"])) == ("wa_replied", "test", 1)
    detailed = client.get(f"/v1/deliveries/{shown['id']}", headers=key).json()
    assert {name: detailed[name] for name in shown if name != "attempts"} | {"attempts": shown["attempts"]} == shown
    assert detailed["request"]["body"] == received.decode()
    assert detailed["attempts"][0]["signature_known"]


def test_a_failed_test_is_not_counted_and_not_sent_again(
    acme: Organization, client: httpx.Client, receiver: Received
) -> None:
    """After an ordinary delivery the counters show only that one; the test cannot be retried.

    A closed port is statusCode 0 with an error.
    """
    key = acme.service_key()
    name = str(acme.webhook(key, f"{receiver.url}/t")["id"])
    receiver.status = 500
    failed = client.post(f"/v1/webhooks/{name}/test", headers=key).json()
    assert (failed["success"], failed["statusCode"]) == (False, 500)
    closed = acme.webhook(key, "http://127.0.0.1:9/", events=["opened"])["id"]
    dead = client.post(f"/v1/webhooks/{closed}/test", headers=key)
    assert (dead.json()["success"], dead.json()["statusCode"]) == (False, 0)
    assert dead.json()["error"]
    receiver.status = 200
    client.post("/v1/events", json={"type": "delivered", "messageId": "m"}, headers=key)
    shown = f"/v1/webhooks/{name}"
    eventually(lambda: client.get(shown, headers=key).json()["deliveries"]["delivered"] == 1, "the count")
    found = client.get(shown, headers=key).json()
    assert (found["deliveries"]["failed"], found["deliveries"]["discarded"], found["status"]) == (0, 0, "active")
    problem = problem_of(client.post(f"/v1/deliveries/{failed['delivery_id']}/retry", headers=key), 409)
    assert "is a test" in problem["detail"]
    assert len(receiver.requests) == 2


def test_a_wrong_test_is_refused_with_its_field(acme: Organization, client: httpx.Client, receiver: Received) -> None:
    """The operator's faults have the form of all faults, and nothing is sent."""
    key = acme.service_key()
    path = f"/v1/webhooks/{acme.webhook(key, f'{receiver.url}/t')['id']}/test"
    headers = {**key, "Content-Type": "application/json"}
    for body, status, fields in (
        ({"type": "nonsense"}, 422, ["type"]),
        ({"payload": "text"}, 422, ["payload"]),
        ({"secret": "x"}, 422, ["'secret'"]),
        ([], 422, [""]),
    ):
        problem = problem_of(client.post(path, content=json.dumps(body).encode(), headers=headers), status)
        assert [fault["field"] for fault in problem["errors"]] == fields
    problem_of(client.post(path, content=b"[" * 5_000, headers=headers), 400)
    problem_of(client.post(path, content=b"x" * (256 * 1024 + 1), headers=headers), 413)
    problem_of(client.post(path, content=b"{}", headers={**key, "Content-Type": "text/plain"}), 415)
    problem_of(client.post(path, content=b"{}", headers=key), 415)
    assert receiver.requests == []
