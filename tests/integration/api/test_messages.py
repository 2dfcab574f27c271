"""Endpoints with pull through /v1: from the registration to the acknowledged message."""

import threading
from typing import Any

import httpx
from support.api_processes import Organization, problem_of
from support.json_lines import entries
from support.polling import eventually

from hookwright_dev.cluster.installation import ApiProcess

EVENT = {"type": "delivered", "messageId": "m-1"}


def test_a_consumer_takes_and_acknowledges_by_v1(acme: Organization, client: httpx.Client, api: ApiProcess) -> None:
    """A key with the scope pull is enough for a consumer; a request that waits gets the next event."""
    key, consumer = acme.service_key(), {"X-Service-Key": acme.key(scopes=["pull"])["key"]}
    new_webhook = acme.webhook(key, None, pull={"lease": "1m"})
    assert (new_webhook["url"], new_webhook["pull"]) == (None, {"lease": "1m"})
    path = f"/v1/webhooks/{new_webhook['id']}/messages"
    assert client.get(path, headers=consumer).json() == {"data": []}
    messages: list[dict[str, Any]] = []

    def wait() -> None:
        while not messages:
            messages.extend(client.get(f"{path}?wait=30s&limit=10", headers=consumer).json()["data"])

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert client.post("/v1/events", json=EVENT, headers=key).json()["deliveries"] == 1
    waiting.join(60)
    [message] = messages
    assert message["headers"]["webhook-id"].startswith("msg_")
    assert message["body"] == httpx.Request("POST", "http://x", json=EVENT).content.decode()
    [result] = client.post(f"{path}/ack", json={"ids": [message["id"]]}, headers=consumer).json()["data"]
    assert (result["result"], result["repeated"], result["status"]) == ("acked", False, "delivered")
    new_key = {"X-Service-Key": acme.key(scopes=["pull"])["key"]}
    [again] = client.post(f"{path}/ack", json={"ids": [message["id"]]}, headers=new_key).json()["data"]
    assert again == {**result, "repeated": True}
    lines = [line for line in entries(api.log) if line.get("organization") == acme.name]
    [line] = [line for line in lines if line.get("action") == "message.ack"]
    assert (line["actor"].partition(":")[0], line["deliveries"]) == ("key", [message["delivery_id"]])
    document = client.get(f"/v1/deliveries/{message['delivery_id']}", headers=key).json()
    assert (document["status"], document["request"]["url"]) == ("delivered", None)

    def reachable() -> bool:
        return "The last message was acknowledged." in client.get(path[:-9], headers=key).text

    eventually(reachable, "the condition Reachable")
    assert client.head(path, headers=consumer).status_code == 405
    problem = problem_of(client.get(f"{path}?lease=1ms&wait=31s", headers=consumer), 422)
    assert {fault["field"] for fault in problem["errors"]} == {"lease", "wait"}


def test_an_endpoint_changes_between_url_and_pull(acme: Organization, client: httpx.Client) -> None:
    """Its pending deliveries go the new way; the messages of a url cannot be taken."""
    key = acme.service_key()
    name = acme.webhook(key, "https://example.com/hooks", enabled=False)
    path = f"/v1/webhooks/{name['id']}"
    client.post("/v1/events", json=EVENT, headers=key)
    assert "only a webhook with pull" in problem_of(client.get(f"{path}/messages", headers=key), 409)["detail"]
    problem = problem_of(client.patch(path, json={"pull": {}}, headers=key), 422)
    assert problem["errors"][0]["message"] == "exactly one of url and pull must be set"
    response = client.patch(path, json={"url": None, "pull": {}, "enabled": True}, headers=key)
    assert (response.json()["url"], response.json()["pull"]) == (None, {"lease": "30s"})
    messages: list[dict[str, Any]] = []

    def taken() -> bool:
        answer = client.get(f"{path}/messages", headers=key)
        messages.extend(answer.json()["data"] if answer.is_success else [])
        return bool(messages)

    eventually(taken, "a message")
    assert messages[0]["attempt"] == 1
    fault = problem_of(client.patch(path, json={"timeout": "5s"}, headers=key), 422)
    sentence = "limits requests to a url; omit it for an endpoint with pull"
    assert fault["errors"] == [{"field": "timeout", "message": sentence}]
