"""Credentials of receivers by `/v1`: the operator writes the Secrets, and a real receiver gets the values."""

import base64
from typing import Any

import httpx
from support.api_processes import Organization, problem_of
from support.cluster_actions import receiving
from support.oauth2_server import CLIENT_ID, CLIENT_SECRET, TokenServer
from support.polling import eventually
from support.tls_receiver import TlsReceiver

from hookwright_dev.cluster.certificates import KeyPair
from hookwright_dev.cluster.kubectl import Cluster

TOKEN = "t0ken-of-the-receiver"


def secrets_of(cluster: Cluster, tenant: Organization, webhook: str) -> dict[str, dict[str, Any]]:
    """Return the Secrets with credentials that belong to a webhook, by their value."""
    result = {}
    for secret in cluster.objects.list("secret", tenant.name):
        if "-credential-" in secret["metadata"]["name"]:
            (owner,) = secret["metadata"]["ownerReferences"]
            assert owner["name"] == webhook
            assert secret["metadata"]["labels"]["hookwright.dev/delivery-credential"] == "true"
            result[base64.b64decode(secret["data"]["value"]).decode()] = secret
    return result


def hosts_of(secret: dict[str, Any]) -> str:
    """Return the hosts that may get a Secret."""
    return str(secret["metadata"]["annotations"]["hookwright.dev/hosts"])


def sent_header(client: httpx.Client, key: dict[str, str], webhook: str, receiver: Any, header: str) -> str | None:
    """Send a test, and return a header that the receiver got."""
    answer = client.post(f"/v1/webhooks/{webhook}/test", headers=key)
    assert answer.json().get("success"), answer.text
    value: str | None = receiver.received[-1].headers.get(header)
    return value


def test_a_receiver_gets_a_token_from_v1_which_can_be_replaced_and_removed(
    client: httpx.Client, acme: Organization, control_plane: Cluster
) -> None:
    """Each value has a Secret, which is deleted when the value is replaced or removed, or with its webhook."""
    key = acme.service_key()
    with receiving() as receiver, receiving() as second:
        headers = {"Authorization": {"prefix": "Bearer ", "value": f" {TOKEN}\n"}}
        body = {"url": receiver.url, "events": ["delivered"], "secret_headers": headers}
        answer = client.post("/v1/webhooks", json=body, headers=key)
        assert answer.status_code == 201, answer.text
        name = answer.json()["id"]
        assert (answer.json()["status"], answer.json()["secret_header_names"]) == ("active", ["Authorization"])
        (secret,) = secrets_of(control_plane, acme, name).values()
        assert hosts_of(secret) == "127.0.0.1"
        assert sent_header(client, key, name, receiver, "Authorization") == f"Bearer {TOKEN}"

        def patched(**patch: Any) -> dict[str, Any]:
            answer = client.patch(f"/v1/webhooks/{name}", json=patch, headers=key)
            assert answer.status_code == 200, answer.text
            assert TOKEN not in answer.text
            document: dict[str, Any] = answer.json()
            return document

        patched(secret_headers={"Authorization": {"value": "new"}, "X-Key": {"value": "k3y"}})
        assert sorted(secrets_of(control_plane, acme, name)) == ["k3y", "new"]
        assert sent_header(client, key, name, receiver, "Authorization") == "Bearer new"
        assert receiver.received[-1].headers["X-Key"] == "k3y"
        patched(secret_headers={"Authorization": {"prefix": ""}}, description="other")
        eventually(lambda: sent_header(client, key, name, receiver, "Authorization") == "new", "no prefix")
        # Another host gets only values that are given for it.
        other = second.url.replace("127.0.0.1", "localhost")
        patched(url=other, secret_headers={"Authorization": {"value": "for-two"}, "X-Key": None})
        (secret,) = secrets_of(control_plane, acme, name).values()
        assert hosts_of(secret) == "localhost"
        assert sent_header(client, key, name, second, "Authorization") == "for-two"
        assert second.received[-1].headers.get("X-Key") is None
        assert patched(secret_headers=None)["secret_header_names"] == []
        assert secrets_of(control_plane, acme, name) == {}
        assert sent_header(client, key, name, second, "Authorization") is None
        patched(secret_headers={"Authorization": {"value": "last"}})
        assert client.delete(f"/v1/webhooks/{name}", headers=key).status_code == 204
        eventually(lambda: not secrets_of(control_plane, acme, name), "the Secret is deleted with its webhook")


def test_a_receiver_gets_an_access_token_for_a_client_of_v1(
    client: httpx.Client, acme: Organization, control_plane: Cluster
) -> None:
    """The Secret is for both hosts. Another token server needs the client's secret again, other fields do not."""
    key, server = acme.service_key(), TokenServer()
    with receiving(server.guard) as receiver, receiving(server.answer) as tokens:
        url = tokens.url.replace("127.0.0.1", "localhost")
        oauth2 = {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "token_url": url}
        body = {"url": receiver.url, "events": ["delivered"]}
        name = client.post("/v1/webhooks", json=body, headers=key).json()["id"]
        path = f"/v1/webhooks/{name}"
        for wrong in ({"oauth2": {"scopes": ["a"]}}, {"oauth2": {**oauth2, "client_secret": None}}):
            assert "client_secret" in str(problem_of(client.patch(path, json=wrong, headers=key), 422))
        answer = client.patch(path, json={"oauth2": oauth2}, headers=key)
        assert answer.json()["secret_header_names"] == ["Authorization"]
        (secret,) = secrets_of(control_plane, acme, name).values()
        assert hosts_of(secret) == "127.0.0.1, localhost"
        eventually(lambda: sent_header(client, key, name, receiver, "Authorization"), "an access token")
        assert client.patch(path, json={"oauth2": {"scopes": ["events"]}}, headers=key).status_code == 200
        eventually(lambda: sent_header(client, key, name, receiver, "Authorization"), "an access token with a scope")
        assert [*secrets_of(control_plane, acme, name)] == [CLIENT_SECRET]
        elsewhere = {"oauth2": {"token_url": tokens.url}}
        problem = problem_of(client.patch(path, json=elsewhere, headers=key), 422)
        assert problem["errors"][0]["field"] == "oauth2.client_secret"
        elsewhere["oauth2"]["client_secret"] = CLIENT_SECRET
        assert client.patch(path, json=elsewhere, headers=key).status_code == 200
        assert hosts_of(secrets_of(control_plane, acme, name)[CLIENT_SECRET]) == "127.0.0.1"
        assert client.patch(path, json={"oauth2": None}, headers=key).status_code == 200
        assert secrets_of(control_plane, acme, name) == {}


def test_a_repeated_creation_heals_a_missing_value_and_replaces_none(
    client: httpx.Client, acme: Organization, control_plane: Cluster
) -> None:
    """The digest of a request has no value, so a repetition with another value is the same request."""
    key = {**acme.service_key(), "Idempotency-Key": "one"}
    with receiving() as receiver:
        body: dict[str, Any] = {"url": receiver.url, "events": ["delivered"]}
        body["secret_headers"] = {"X-Key": {"value": TOKEN}}
        first = client.post("/v1/webhooks", json=body, headers=key).json()
        (secret,) = secrets_of(control_plane, acme, first["id"]).values()
        other = {**body, "secret_headers": {"X-Key": {"value": "other"}}}
        assert client.post("/v1/webhooks", json=other, headers=key).json()["secret"] == first["secret"]
        assert [*secrets_of(control_plane, acme, first["id"])] == [TOKEN]
        # As after a crash between the two writes.
        control_plane.objects.delete("secret", secret["metadata"]["name"], namespace=acme.name)
        path = f"/v1/webhooks/{first['id']}"
        eventually(lambda: client.get(path, headers=key).json()["status"] == "error", "no value")
        assert problem_of(client.post(f"{path}/test", headers=key), 409)
        assert client.post("/v1/webhooks", json=body, headers=key).json()["status"] == "active"
        assert sent_header(client, key, first["id"], receiver, "X-Key") == TOKEN
        assert client.patch(path, json={"secret_headers": {"X-Key": None}}, headers=key).status_code == 200
        assert client.post("/v1/webhooks", json=body, headers=key).json()["secret_header_names"] == []
        assert secrets_of(control_plane, acme, first["id"]) == {}


def test_a_refused_change_leaves_no_secret(client: httpx.Client, acme: Organization, control_plane: Cluster) -> None:
    """An endpoint declared in YAML is refused before a Secret is written, and its own Secrets stay."""
    key = acme.service_key()
    reference = {"name": "own", "key": "token"}
    acme.apply(
        {
            "apiVersion": "hookwright.dev/v1alpha1",
            "kind": "WebhookEndpoint",
            "metadata": {"name": "declared"},
            "spec": {
                "projectRef": {"name": "billing"},
                "url": "https://example.com/",
                "events": ["delivered"],
                "secretHeaders": [{"name": "X-Key", "secretKeyRef": reference}],
            },
        }
    )
    path = "/v1/webhooks/declared"
    eventually(lambda: client.get(path, headers=key).status_code == 200, "it is shown")
    assert client.get(path, headers=key).json()["secret_header_names"] == ["X-Key"]
    patch = {"secret_headers": {"X-Key": {"value": TOKEN}}}
    problem_of(client.patch(path, json=patch, headers=key), 409)
    name = acme.webhook(key)["id"]
    problem_of(client.patch(f"/v1/webhooks/{name}", json=patch, headers={**key, "If-Match": '"1"'}), 412)
    assert secrets_of(control_plane, acme, name) == {}


def test_a_quota_of_secrets_is_said_in_words(client: httpx.Client, acme: Organization, control_plane: Cluster) -> None:
    """Then nothing is changed, and a new webhook does not remain."""
    key = acme.service_key()
    name = acme.webhook(key)["id"]
    count = len(control_plane.objects.list("secret", acme.name))
    quota = {"hard": {"secrets": str(count)}}
    acme.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "secrets"}, "spec": quota})

    def is_counted() -> bool:
        resource = control_plane.objects.get("resourcequota", "secrets", acme.name) or {}
        return "used" in resource.get("status", {})

    eventually(is_counted, "the quota counts")
    patch = {"secret_headers": {"X-Key": {"value": TOKEN}}}
    problem = problem_of(client.patch(f"/v1/webhooks/{name}", json=patch, headers=key), 409)
    assert "quota of Secrets" in problem["detail"]
    assert client.get(f"/v1/webhooks/{name}", headers=key).json()["secret_header_names"] == []


def test_a_private_receiver_gets_the_client_certificate_that_v1_has(
    client: httpx.Client, acme: Organization, control_plane: Cluster, tls_receiver: TlsReceiver
) -> None:
    """The authority has a ConfigMap, the pair a Secret. Another host needs the key again, an authority the headers."""
    key, trusted, receiver = acme.service_key(), tls_receiver.trusted, tls_receiver
    first, second = (trusted.issue(name) for name in ("first", "second"))
    tls = {"ca_certificates": trusted.pem.decode(), **pair_of(first)}

    def objects() -> list[str]:
        kinds = ("configmap", "secret")
        items = [item for kind in kinds for item in control_plane.objects.list(kind, acme.name)]
        return [item.get("type", "ConfigMap") for item in items if "-credential-" in item["metadata"]["name"]]

    body = {"url": receiver.url, "events": ["delivered"], "tls": tls}
    answer = client.post("/v1/webhooks", json=body, headers=key)
    assert (answer.status_code, answer.json()["status"]) == (201, "active"), answer.text
    document, path = answer.json(), f"/v1/webhooks/{answer.json()['id']}"
    assert len(document["ca_certificate_names"]) == 1
    assert document["client_certificate_name"]
    assert objects() == ["ConfigMap", "kubernetes.io/tls"]
    assert client.post(f"{path}/test", headers=key).json()["success"]
    away = {"url": receiver.url.replace("127.0.0.1", "localhost")}
    for wrong in (away, {**away, "tls": {"ca_certificates": tls["ca_certificates"]}}):
        problem = problem_of(client.patch(path, json=wrong, headers=key), 422)
        assert problem["errors"][0]["field"] == "tls.client_key"
    unfit: tuple[dict[str, Any], ...] = (
        {"client_key": None},
        {"client_key": "k3y"},
        {"client_certificate": "-----BEGIN "},
    )
    for fields in unfit:
        assert "k3y" not in str(problem_of(client.patch(path, json={"tls": fields}, headers=key), 422))
    assert client.patch(path, json={"tls": pair_of(second)}, headers=key).status_code == 200
    eventually(lambda: client.post(f"{path}/test", headers=key).json().get("success"), "the new certificate works")
    assert receiver.clients == ["first", "second"]
    assert objects() == ["ConfigMap", "kubernetes.io/tls"]
    header = {"secret_headers": {"X-Key": {"value": TOKEN}}}
    assert client.patch(path, json=header, headers=key).status_code == 200
    for change in ({"ca_certificates": second.public.decode()}, None):
        problem = problem_of(client.patch(path, json={"tls": change}, headers=key), 422)
        assert problem["errors"][0]["field"] == "secret_headers"
    removal = {"tls": None, "secret_headers": None}
    assert client.patch(path, json=removal, headers=key).json()["ca_certificate_names"] == []
    assert objects() == []


def pair_of(pair: KeyPair) -> dict[str, str]:
    """Return a client certificate with its key as fields of `/v1`."""
    return {"client_certificate": pair.public.decode(), "client_key": pair.key.decode()}
