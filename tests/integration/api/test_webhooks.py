"""Webhooks through the API, with a real operator."""

import base64
import hashlib
import hmac
import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from integration.api.conftest import StartApi
from support.api_processes import Organization, problem_of
from support.api_receiver import Received
from support.chart_rendering import Chart
from support.polling import eventually
from support.stack import LIFTED

from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.tools import HELM, acquire_tool
from hookwright_runtime.problems import Code


@pytest.fixture(scope="module")
def replica(start_api: StartApi) -> httpx.Client:
    """Return a client of another replica, which does not allow plain HTTP."""
    return start_api(LIFTED | {"HOOKWRIGHT_ALLOW_HTTP": "false"})[1]


def test_a_registered_webhook_is_a_resource_of_the_same_name_with_the_secret_in_the_answer(
    acme: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """The answer of POST equals that of GET and the object, and has the operator's signing secret."""
    key = acme.service_key()
    new_webhook = acme.webhook(key)
    assert {"id", "url", "events", "project", "status", "created_at", "secret"} <= set(new_webhook)
    assert new_webhook["status"] == "active"
    resource = control_plane.objects.get("WebhookEndpoint", new_webhook["id"], acme.name) or {}
    assert resource["spec"]["url"] == new_webhook["url"]
    assert resource["metadata"]["creationTimestamp"] == new_webhook["created_at"]
    secret = control_plane.objects.get("Secret", f"{new_webhook['id']}-signing", acme.name) or {}
    assert base64.b64decode(secret["data"]["secret"]).decode() == new_webhook["secret"]
    answer = client.get("/v1/webhooks", headers=key)
    public_fields = {name: value for name, value in new_webhook.items() if name != "secret"}
    assert answer.json() == {"data": [public_fields], "next": None}


def test_an_endpoint_declared_in_yaml_is_listed_and_shown(acme: Organization, client: httpx.Client) -> None:
    """The API shows an endpoint declared in YAML, without its secret."""
    key = acme.service_key()
    acme.apply(
        {
            "kind": "WebhookEndpoint",
            "metadata": {"name": "orders"},
            "spec": {"projectRef": {"name": "billing"}, "url": "https://example.com/o", "events": ["bounced"]},
        }
    )
    eventually(lambda: client.get("/v1/webhooks/orders", headers=key).json().get("status") == "active", "orders active")
    assert [row["id"] for row in client.get("/v1/webhooks", headers=key).json()["data"]] == ["orders"]
    answer = client.get("/v1/webhooks/orders", headers=key)
    assert "whsec_" not in answer.text
    assert answer.json()["deliveries"]["pending"] == 0
    assert {condition["type"] for condition in answer.json()["conditions"]} == {"Ready", "Reachable"}


@pytest.mark.slow
def test_a_protected_webhook_with_pending_deliveries_is_not_deleted(
    acme: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """The chart's policy refuses the deletion, and the problem has its message."""
    key = acme.service_key()
    name = str(acme.webhook(key)["id"])
    values = {"settings": {"watchNamespaces": [acme.name]}, "fullnameOverride": acme.name}
    policies = Chart(acquire_tool(HELM)).text(values, "--show-only", "templates/deletion-protection.yaml")
    control_plane.kubectl("apply", "-f", "-", stdin=policies)
    try:
        in_acme = ("hwep", name, "-n", acme.name)
        patch = '{"status": {"deliveries": {"pending": 3}}}'
        control_plane.kubectl("annotate", *in_acme, "hookwright.dev/deletion-protection=true")
        control_plane.kubectl("patch", *in_acme, "--subresource=status", "--type=merge", "-p", patch)
        dry_run = ("delete", *in_acme, "--dry-run=server")
        eventually(lambda: control_plane.kubectl(*dry_run, check=False).returncode != 0, "the policy in force")
        problem = problem_of(client.delete(f"/v1/webhooks/{name}", headers=key), 422)
        assert "has 3 pending deliveries" in str(problem["errors"])
        assert client.get(f"/v1/webhooks/{name}", headers=key).status_code == 200
    finally:
        control_plane.kubectl("delete", "-f", "-", stdin=policies)


def test_a_caller_reads_its_own_writes(acme: Organization, client: httpx.Client) -> None:
    """Immediately after the answer to a POST or DELETE, every list shows the change."""
    key = acme.service_key()
    for _ in range(5):
        name = acme.webhook(key)["id"]
        assert name in {row["id"] for row in client.get("/v1/webhooks", headers=key).json()["data"]}
        assert client.delete(f"/v1/webhooks/{name}", headers=key).status_code == 204
        assert client.get("/v1/webhooks", headers=key).json()["data"] == []
        problem_of(client.delete(f"/v1/webhooks/{name}", headers=key), 404)


def test_deleting_a_webhook_discards_its_pending_deliveries_and_removes_the_resource(
    acme: Organization, client: httpx.Client, control_plane: Cluster, receiver: Received
) -> None:
    """After DELETE no delivery is sent, and the object's deletion completes."""
    key = acme.service_key()
    receiver.status = 500
    new_webhook = acme.webhook(key, f"{receiver.url}/gone")["id"]
    assert client.post("/v1/events", json={"type": "delivered", "messageId": "m"}, headers=key).status_code == 202
    eventually(lambda: len(receiver.requests) == 1, "the first attempt")
    assert client.delete(f"/v1/webhooks/{new_webhook}", headers=key).status_code == 204
    eventually(
        lambda: control_plane.objects.get("WebhookEndpoint", new_webhook, acme.name) is None,
        "gone for good",
    )
    assert len(receiver.requests) == 1


def test_a_test_sends_one_signed_delivered_event(acme: Organization, client: httpx.Client, receiver: Received) -> None:
    """POST test reaches the receiver once, signed with the webhook's secret, and returns its status."""
    key = acme.service_key()
    name = acme.webhook(key, f"{receiver.url}/t", events=["bounced"])
    answer = client.post(f"/v1/webhooks/{name['id']}/test", headers=key)
    assert (answer.status_code, answer.json()["success"], answer.json()["statusCode"]) == (200, True, 200)
    [(_, headers, body)] = receiver.requests
    assert json.loads(body)["type"] == "delivered"
    expected = hmac.new(name["secret"].encode(), body, hashlib.sha256).hexdigest()
    assert headers["x-service-signature"] == expected


def test_the_delivery_log_shows_attempts_and_a_delivery_can_be_sent_again(
    acme: Organization, client: httpx.Client, receiver: Received
) -> None:
    """The log has an event's delivery with its attempt; a retry sends it once more."""
    key = acme.service_key()
    new_webhook = acme.webhook(key, f"{receiver.url}/log")["id"]
    answer = client.post("/v1/events", json={"type": "delivered", "messageId": "m1"}, headers=key)
    assert answer.status_code == 202
    ids = answer.json()["event_ids"]
    assert answer.json() == {"accepted": 1, "duplicates": 0, "deliveries": 1, "event_ids": ids}

    def delivered() -> list[dict[str, object]]:
        page = client.get(f"/v1/webhooks/{new_webhook}/deliveries", params={"status": "delivered"}, headers=key)
        document: list[dict[str, object]] = page.json()["data"]
        return document

    eventually(lambda: len(delivered()) == 1, "delivered")
    [delivery] = delivered()
    assert delivery["type"] == "delivered"
    assert [attempt["statusCode"] for attempt in delivery["attempts"]] == [200]  # type: ignore[attr-defined]
    for credential in (key, acme.session()):
        response = client.get(f"/v1/deliveries/{delivery['id']}", headers=credential)
        assert response.status_code == 200
        body = response.json()
        assert {name: body[name] for name in delivery if name != "attempts"} | {"attempts": 1} == {
            **delivery,
            "attempts": len(body["attempts"]),
        }
        assert body["request"]["body"].encode() == receiver.requests[0][2]
        assert body["attempts"][0]["signature_known"] is True
    again = client.post(f"/v1/deliveries/{delivery['id']}/retry", headers=acme.session())
    assert (again.status_code, again.json()) == (202, {"id": delivery["id"], "status": "pending"})
    eventually(lambda: len(receiver.requests) == 2, "sent again")


def test_a_wrong_webhook_is_refused_with_its_field(acme: Organization, client: httpx.Client) -> None:
    """The 422 names the field; the answer repeats nothing of the request."""
    headers = {**acme.service_key(), "Content-Type": "application/json"}
    for body, field in (
        ({"url": "ftp://example.com", "events": ["delivered"]}, "url"),
        ({"url": "https://user:pw@example.com", "events": ["delivered"]}, "url"),
        ({"url": "https://example.com", "events": []}, "events"),
        ({"url": "https://example.com", "events": ["delivered", "nonsense"]}, "events[1]"),
        ({"url": "https://example.com", "events": ["delivered", "delivered"]}, "events"),
        ({"url": "https://example.com"}, "events"),
        ({"url": "https://example.com", "events": ["delivered"], "secret": "mine"}, "secret"),
    ):
        problem = problem_of(client.post("/v1/webhooks", content=json.dumps(body).encode(), headers=headers), 422)
        assert [error["field"] for error in problem["errors"]] == [field]
        assert "user:pw" not in json.dumps(problem)


def test_plain_http_is_refused_where_the_installation_does_not_allow_it(
    acme: Organization, replica: httpx.Client
) -> None:
    """Without HOOKWRIGHT_ALLOW_HTTP an http URL is a 422 and no webhook is created."""
    key = acme.service_key()
    eventually(lambda: replica.get("/v1/webhooks", headers=key).status_code == 200, "the replica knows the key")
    for url in ("http://example.com", "HTTP://example.com"):
        problem = problem_of(replica.post("/v1/webhooks", json={"url": url, "events": ["opened"]}, headers=key), 422)
        assert problem["errors"][0]["field"] == "url"
    assert replica.get("/v1/webhooks", headers=key).json()["data"] == []


def test_an_idempotency_key_makes_registration_repeatable(
    acme: Organization, client: httpx.Client, replica: httpx.Client
) -> None:
    """A repeated request, also through another replica and concurrently, results in one webhook with one secret."""
    headers = {**acme.service_key(), "Idempotency-Key": "order-17"}
    body = {"url": "https://example.com/idem", "events": ["delivered"]}
    eventually(lambda: replica.get("/v1/webhooks", headers=headers).status_code == 200, "the replica knows the key")
    with ThreadPoolExecutor(6) as pool:
        posts = [
            pool.submit(instance.post, "/v1/webhooks", json=body, headers=headers) for instance in (client, replica) * 3
        ]
    answers = [post.result() for post in posts]
    assert [answer.status_code for answer in answers] == [201] * 6, [answer.text for answer in answers]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len({answer.json()["secret"] for answer in answers}) == 1
    assert len(client.get("/v1/webhooks", headers=headers).json()["data"]) == 1
    changed_body = {**body, "events": ["bounced"]}
    problem = problem_of(client.post("/v1/webhooks", json=changed_body, headers=headers), 422)
    assert problem["errors"][0]["field"] == "Idempotency-Key"
    assert problem["code"] == Code.IDEMPOTENCY_KEY_REUSED


def test_a_session_names_the_project_by_name_or_uid_and_a_key_must_not(
    acme: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """A session needs ?project=, with the project's name or uid; with a key it is refused."""
    uid = (control_plane.objects.get("Project", "billing", acme.name) or {})["metadata"]["uid"]
    for project_name in ("billing", uid):
        assert client.get("/v1/webhooks", params={"project": project_name}, headers=acme.session()).status_code == 200
    problem_of(client.get("/v1/webhooks", headers=acme.session()), 422)
    problem_of(client.get("/v1/webhooks", params={"project": "nope"}, headers=acme.session()), 404)
    problem_of(client.get("/v1/webhooks", params={"project": "billing"}, headers=acme.service_key()), 422)
    key, session = [*acme.service_key().items()], [*acme.session().items()]
    for credentials in (key + session, key + key, session + session, [*key, (key[0][0], "hw_other")]):
        assert "one credential" in problem_of(client.get("/v1/webhooks", headers=credentials), 400)["detail"]
