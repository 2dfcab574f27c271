"""Tests of webhooks with a chosen event, and their place in the delivery log."""

import httpx
from support.api_processes import Organization, problem_of
from support.api_receiver import Received
from support.polling import eventually


def test_a_test_with_a_chosen_event_is_in_the_log(acme: Organization, client: httpx.Client, receiver: Received) -> None:
    """The receiver gets the numbers of the payload unchanged and the mark of a test; the log shows its one attempt."""
    key = acme.service_key()
    name = str(acme.webhook(key, f"{receiver.url}/t")["id"])
    body = b'{"type": "wa_replied", "payload": {"messageId": "m-1", "amount": 12345678901234567.890, "test": false}}'
    headers = {**key, "Content-Type": "application/json"}
    answer = client.post(f"/v1/webhooks/{name}/test", content=body, headers=headers).json()
    assert (answer["success"], answer["statusCode"]) == (True, 200)
    [(_, _, request)] = receiver.requests
    assert request == b'{"type":"wa_replied","messageId":"m-1","amount":12345678901234567.890,"test":true}'
    [row] = client.get(f"/v1/webhooks/{name}/deliveries", headers=key).json()["data"]
    assert (row["id"], row["test"], row["status"]) == (answer["delivery_id"], True, "delivered")
    assert (row["type"], row["reason"], len(row["attempts"])) == ("wa_replied", "test", 1)
    document = client.get(f"/v1/deliveries/{row['id']}", headers=key).json()
    assert {name: document[name] for name in row if name != "attempts"} | {"attempts": row["attempts"]} == row
    assert document["request"]["body"] == request.decode()
    assert document["attempts"][0]["signature_known"]
    text = {**key, "Content-Type": "text/plain"}
    problem_of(client.post(f"/v1/webhooks/{name}/test", content=b"{}", headers=text), 415)


def test_a_failed_test_is_not_counted_and_not_sent_again(
    acme: Organization, client: httpx.Client, receiver: Received
) -> None:
    """After an ordinary delivery the counters show only that one; the test cannot be retried.

    A closed port is statusCode 0 with an error.
    """
    key = acme.service_key()
    name = str(acme.webhook(key, f"{receiver.url}/t")["id"])
    receiver.status = 500
    document = client.post(f"/v1/webhooks/{name}/test", headers=key).json()
    assert (document["success"], document["statusCode"]) == (False, 500)
    closed_name = acme.webhook(key, "http://127.0.0.1:9/", events=["opened"])["id"]
    dead = client.post(f"/v1/webhooks/{closed_name}/test", headers=key)
    assert (dead.json()["success"], dead.json()["statusCode"]) == (False, 0)
    assert dead.json()["error"]
    receiver.status = 200
    client.post("/v1/events", json={"type": "delivered", "messageId": "m"}, headers=key)
    path = f"/v1/webhooks/{name}"
    eventually(lambda: client.get(path, headers=key).json()["deliveries"]["delivered"] == 1, "the count")
    body = client.get(path, headers=key).json()
    assert (body["deliveries"]["failed"], body["deliveries"]["discarded"], body["status"]) == (0, 0, "active")
    problem = problem_of(client.post(f"/v1/deliveries/{document['delivery_id']}/retry", headers=key), 409)
    assert "is a test" in problem["detail"]
    assert len(receiver.requests) == 2
