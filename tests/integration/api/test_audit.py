"""The audit log of the API: who did what, and from where; and the creators of objects."""

from typing import Any

import httpx
import pytest
from support.api_processes import PASSWORD, Organization
from support.api_receiver import Received
from support.json_lines import complete_lines, entries
from support.polling import eventually

from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster

ADDRESS = "198.51.100.7"


@pytest.fixture(autouse=True)
def at_an_address(client: httpx.Client) -> None:
    """Send every request from one address, through a trusted proxy."""
    client.headers["X-Forwarded-For"] = ADDRESS


def audited(process: ApiProcess | OperatorProcess, organization: str) -> list[dict[str, Any]]:
    """Return the audit lines about an organization."""
    return [
        line for line in entries(process.log) if line["event"] == "audit" and line.get("organization") == organization
    ]


def test_every_act_has_one_line_with_actor_and_address(
    acme: Organization, client: httpx.Client, api: ApiProcess, operator: OperatorProcess, receiver: Received
) -> None:
    """A session and a key act; the lines come in the order of the acts, and the operator's have the same request id."""
    new_key = acme.key()
    key = {"X-Service-Key": new_key["key"]}
    body = {"url": f"{receiver.url}/a", "events": ["delivered"]}
    once = {**key, "Idempotency-Key": "once"}
    webhooks = [client.post("/v1/webhooks", json=body, headers=once).json() for _ in range(2)]
    name = webhooks[0]["id"]
    answer = client.patch(f"/v1/webhooks/{name}", json={"headers": {"X-Token": "of-the-receiver"}}, headers=key)
    assert answer.status_code == 200
    document = client.post(f"/v1/webhooks/{name}/rotate-secret", headers=key).json()
    client.post("/v1/events", json={"type": "delivered", "messageId": "m"}, headers=key)

    def delivered() -> list[Any]:
        page = client.get(f"/v1/webhooks/{name}/deliveries?status=delivered", headers=key).json()
        rows: list[Any] = page["data"]
        return rows

    (delivery,) = eventually(delivered, "the delivery")
    response = client.post(f"/v1/deliveries/{delivery['id']}/retry", headers=key)
    assert response.status_code == 202
    assert client.delete(f"/v1/webhooks/{name}", headers=key).status_code == 204
    assert client.delete(f"/v1/projects/billing/keys/{new_key['id']}", headers=acme.session()).status_code == 204

    lines = audited(api, acme.name)
    user, service = f"user:{acme.email}", f"key:{new_key['id']}"
    assert {(line["client"], line["outcome"]) for line in lines} == {(ADDRESS, "success")}
    assert [(line["action"], line["actor"], line.get("target")) for line in lines] == [
        ("login", user, None),
        ("key.create", user, new_key["id"]),
        ("webhook.create", service, name),
        ("secret.read", service, name),
        ("webhook.update", service, name),
        ("secret.rotate", service, name),
        ("delivery.retry", service, delivery["id"]),
        ("webhook.delete", service, name),
        ("key.delete", user, new_key["id"]),
    ]
    assert {line.get("project") for line in lines[1:]} == {"billing"}
    assert lines[6]["request_id"] == response.headers["x-request-id"]
    operators = [(line["action"], line["request_id"]) for line in audited(operator, acme.name)]
    assert operators == [(action, line["request_id"]) for action, line in zip(
        ("secret.read", "secret.read", "secret.read", "delivery.retry"), (*lines[2:4], *lines[5:7]), strict=True
    )]  # fmt: skip
    text = "\n".join(line for log in (api.log, operator.log) for line in complete_lines(log) if "audit" in line)
    secrets = (webhooks[0]["secret"], document["secret"], "of-the-receiver")
    for secret in (new_key["key"], *secrets, receiver.url, acme.session()["Authorization"], PASSWORD):
        assert secret not in text


def test_a_failed_login_has_a_line_with_the_email_and_without_the_password(
    acme: Organization, client: httpx.Client, api: ApiProcess
) -> None:
    """An email without an account has the same line."""
    acme.session()

    def failures(email: str) -> list[dict[str, Any]]:
        return [
            line for line in entries(api.log) if line.get("actor") == f"user:{email}" and line["outcome"] == "failure"
        ]

    for email in (acme.email, f"nobody@{acme.name}.example"):
        # The first login of the session may have failed until the API knew the user.
        before = len(failures(email))
        wrong = {"email": email, "password": "guess-7f3a9c"}
        assert client.post("/v1/auth/login", json=wrong).status_code == 401
        (line,) = failures(email)[before:]
        assert (line["action"], line["client"]) == ("login", ADDRESS)
    assert "guess-7f3a9c" not in api.log.read_text()


def test_created_objects_have_their_creator(acme: Organization, client: httpx.Client, control_plane: Cluster) -> None:
    """A platform team sees in the cluster who created a key or a webhook."""
    new_key = acme.key()
    by_key = acme.webhook({"X-Service-Key": new_key["key"]})["id"]
    by_user = client.post(
        "/v1/webhooks?project=billing",
        json={"url": "https://example.com/b", "events": ["delivered"]},
        headers={**acme.session(), "Idempotency-Key": "once"},
    ).json()["id"]
    expected = {
        ("apikey", new_key["id"]): f"user:{acme.email}",
        ("hwep", by_key): f"key:{new_key['id']}",
        ("hwep", by_user): f"user:{acme.email}",
    }
    for (kind, name), creator in expected.items():
        resource = control_plane.objects.get(kind, name, acme.name)
        assert resource is not None
        assert resource["metadata"]["annotations"]["hookwright.dev/created-by"] == creator
