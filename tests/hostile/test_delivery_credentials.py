"""A tenant tries to get a credential for deliveries that it cannot read: by other hosts, Secrets, answers and pages."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from aiohttp import web
from cluster.test_credentials import certificates, client_pair
from integration.api import conftest as shared
from integration.api.conftest import Organizations
from support.api_processes import Organization, problem_of
from support.cluster_actions import condition, endpoint, receiving
from support.oauth2_server import CLIENT_ID, TokenServer
from support.polling import eventually
from support.tls_receiver import TlsReceiver

from hookwright_dev.cluster.installation import (
    AUDIENCE,
    SYSTEM_NAMESPACE,
    ApiProcess,
    OperatorProcess,
    service_account_token,
)
from hookwright_dev.cluster.kubectl import Cluster

control_plane, operator, api, client = shared.control_plane, shared.operator, shared.api, shared.client
organizations, acme = shared.organizations, shared.acme

TOKEN = "t0ken-that-only-the-receiver-gets"
HEADER = {"name": "Authorization", "prefix": "Bearer ", "secretKeyRef": {"name": "api", "key": "token"}}
OFFER = {"hookwright.dev/delivery-credential": "true"}


def credential(name: str = "api", **labels: str) -> dict[str, Any]:
    """Return a Secret for the host of the receivers, with these labels in place of the offer."""
    metadata = {"name": name, "labels": labels or OFFER, "annotations": {"hookwright.dev/hosts": "127.0.0.1"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"token": TOKEN, "secret": TOKEN}}


def with_secret(url: str, name: str = "api", key: str = "token", **spec: Any) -> dict[str, Any]:
    """Return an endpoint whose header is a field of a Secret."""
    header = {**HEADER, "secretKeyRef": {"name": name, "key": key}}
    return endpoint("orders", url, secretHeaders=[header], **spec)


def with_oauth2(url: str, tokens: str, **spec: Any) -> dict[str, Any]:
    """Return an endpoint whose client secret is in the Secret, and whose tokens come from a URL."""
    reference = {"name": "api", "key": "token"}
    return endpoint(
        "orders", url, oauth2={"clientId": CLIENT_ID, "clientSecretRef": reference, "tokenUrl": tokens}, **spec
    )


def wait_for(cluster: Cluster, tenant: Organization, expected: str) -> None:
    """Return when the condition Ready of the endpoint is as expected."""
    eventually(lambda: condition(cluster.objects.get("hwep", "orders", tenant.name) or {}) == expected, expected)


@pytest.mark.parametrize("kind", ["secretHeaders", "oauth2"])
def test_a_credential_goes_to_no_other_host_and_is_shown_nowhere(
    control_plane: Cluster, operator: OperatorProcess, acme: Organization, kind: str
) -> None:
    """Not by another name of its address, a redirect, a test, an answer, `/v1`, describe, Events, metrics or logs."""
    key, server = acme.service_key(), TokenServer(secret=TOKEN, new_token=lambda: TOKEN)
    with receiving() as receiver, receiving() as thief, receiving(server.answer) as tokens:
        echo: Callable[[Any], web.Response] = lambda request: web.Response(  # noqa: E731
            status=307,
            text=request.headers["Authorization"],
            headers={"Location": thief.url, "X-Echo": request.headers["Authorization"]},
        )
        receiver.answer = echo
        acme.apply(
            credential(), with_oauth2(receiver.url, tokens.url) if kind == "oauth2" else with_secret(receiver.url)
        )
        wait_for(control_plane, acme, "True Delivering")
        answer = acme.client.post("/v1/webhooks/orders/test", headers=key)
        assert (answer.status_code, answer.json()["statusCode"]) == (200, 307)
        (request,) = receiver.received
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        delivery = answer.json()["delivery_id"]
        pages = [f"/v1/deliveries/{delivery}", "/v1/webhooks", "/v1/webhooks/orders", "/v1/deliveries"]
        texts = [acme.client.get(page, headers=key).text for page in pages]
        assert '"secret_header_names":["Authorization"]' in texts[2].replace(" ", "")
        assert "(hidden)" in texts[0]

        patch = {"url": thief.url.replace("127.0.0.1", "localhost")}
        texts.append(problem_of(acme.client.patch("/v1/webhooks/orders", json=patch, headers=key), 409)["detail"])
        control_plane.objects.patch("hwep", "orders", acme.name, {"spec": patch})
        wait_for(control_plane, acme, "False CredentialsRefused")
        texts.append(problem_of(acme.client.post("/v1/webhooks/orders/test", headers=key), 409)["detail"])
        assert (
            acme.client.post("/v1/events", json={"type": "delivered", "messageId": "1"}, headers=key).status_code == 202
        )
        texts.append(control_plane.kubectl("describe", "hwep", "orders", "-n", acme.name).stdout)
        texts.append(control_plane.kubectl("get", "events", "-n", acme.name, "-o", "yaml").stdout)
        if kind == "oauth2":
            stolen = {"url": receiver.url, "oauth2": {"tokenUrl": patch["url"]}}
            control_plane.objects.patch("hwep", "orders", acme.name, {"spec": stolen})
            eventually(lambda: "oauth2.tokenUrl is" in str(control_plane.objects.get("hwep", "orders", acme.name)), "")
        assert thief.received == []
        assert len(tokens.received) == (1 if kind == "oauth2" else 0)
    texts += [operator.log.read_text(), httpx.get(f"{operator.health_url}/metrics", trust_env=False).text]
    for text in texts:
        assert TOKEN not in text


def test_a_secret_that_its_owner_did_not_offer_is_not_read(
    control_plane: Cluster, organizations: Organizations, acme: Organization
) -> None:
    """That is one without the label, of another namespace, of the operator with the label, or to sign with."""
    victim = organizations.new("victim")
    victim.apply(credential("theirs"))
    acme.apply(credential("plain", app="billing"), credential("almost", **dict.fromkeys(OFFER, "True")))
    with receiving() as receiver:
        acme.apply(endpoint("other", receiver.url))
        eventually(lambda: control_plane.objects.get("secret", "other-signing", acme.name), "a signing secret")
        control_plane.objects.patch("secret", "other-signing", acme.name, {"metadata": {"labels": OFFER}})
        annotations = {"hookwright.dev/hosts": "127.0.0.1"}
        control_plane.objects.patch("secret", "other-signing", acme.name, {"metadata": {"annotations": annotations}})
        for name, field in (("plain", "token"), ("almost", "token"), ("theirs", "token"), ("other-signing", "secret")):
            acme.apply(with_secret(receiver.url, name, field, description=name))
            wait_for(control_plane, acme, "False CredentialsNotFound")
            assert f"'{name}'" in str(control_plane.objects.get("hwep", "orders", acme.name))
        signing = {"secretRef": {"name": "api", "key": "token", "encoding": "raw"}}
        acme.apply(credential(), endpoint("orders", receiver.url, signing=signing))
        wait_for(control_plane, acme, "False SigningSecretInvalid")
        assert receiver.received == []


def test_no_tenant_uses_the_client_certificate_of_another_at_the_same_host(
    control_plane: Cluster,
    operator: OperatorProcess,
    organizations: Organizations,
    acme: Organization,
    tls_receiver: TlsReceiver,
) -> None:
    """Not by its name, by an idle connection, or by a field that skips verification, while its owner renews it."""
    trusted, thief = tls_receiver.trusted, organizations.new("thief")
    thief.project()
    tenants = [(tenant, tenant.service_key()) for tenant in (acme, thief)]
    tls: dict[str, Any] = {"caCertificateRefs": [{"name": "ca"}]}
    mutual = endpoint("orders", tls_receiver.url, tls={**tls, "clientCertificateRef": {"name": "pair"}})
    for tenant, _ in tenants:
        tenant.apply(certificates("ca", trusted.pem.decode()), mutual)
        wait_for(control_plane, tenant, "False CredentialsNotFound")
    thief.apply(endpoint("orders", tls_receiver.url, tls=tls))
    wait_for(control_plane, thief, "True Delivering")
    answers = []
    for name in ("first", "second"):
        pair = trusted.issue(name)
        acme.apply(client_pair(pair))
        wait_for(control_plane, acme, "True Delivering")
        while name not in tls_receiver.clients:
            for tenant, key in tenants:
                answer = tenant.client.post("/v1/webhooks/orders/test", headers=key).json()
                answers.append((tenant.name, answer["statusCode"]))
    assert set(answers) == {(acme.name, 200), (thief.name, 400)}
    assert len(tls_receiver.clients) == len(answers) / 2
    document = acme.client.get("/v1/webhooks/orders", headers=tenants[0][1]).json()
    assert (document["ca_certificate_names"], document["client_certificate_name"]) == (["ca"], "pair")
    shown = operator.log.read_text() + acme.client.get("/v1/deliveries", headers=tenants[0][1]).text
    assert not any(line in shown for line in pair.key.decode().splitlines()[1:-1])
    with pytest.raises(Exception, match="insecureSkipVerify"):
        thief.apply(endpoint("orders", tls_receiver.url, tls={"insecureSkipVerify": True}))


def test_a_key_gets_no_credential_that_another_key_gave(
    control_plane: Cluster, organizations: Organizations, api: ApiProcess, operator: OperatorProcess, acme: Organization
) -> None:
    """Not by another url or token server, a test, a redirect, its spec, the same Idempotency-Key, or another tenant."""
    key, other = acme.service_key(), {**acme.service_key(), "Idempotency-Key": "same"}
    stranger = organizations.new("stranger")
    stranger.project()
    with receiving() as receiver, receiving() as thief:
        receiver.answer = lambda _: web.Response(status=307, headers={"Location": thief.url})
        secret = {"Authorization": {"prefix": "Bearer ", "value": TOKEN}, "X-Api-Key": {"value": TOKEN}}
        body = {"url": receiver.url, "events": ["delivered"], "secret_headers": secret}
        made = acme.client.post("/v1/webhooks", json=body, headers={**key, "Idempotency-Key": "same"})
        assert made.status_code == 201, made.text
        name = made.json()["id"]
        path, texts = f"/v1/webhooks/{name}", [made.text]
        away = thief.url.replace("127.0.0.1", "localhost")
        one = {"url": away, "secret_headers": {"X-Api-Key": {"value": "own"}, "Authorization": {"prefix": ""}}}
        for patch in ({"url": away}, {"url": away, "secret_headers": {}}, one):
            problem = problem_of(acme.client.patch(path, json=patch, headers=key), 422)
            assert problem["errors"][0]["field"] == "secret_headers"
            assert "Authorization again" in problem["errors"][0]["message"].replace(", X-Api-Key", "")
            texts.append(str(problem))
        problem_of(acme.client.patch(path, json={"url": None, "pull": {}}, headers=key), 422)
        (spec, *_) = [item["spec"] for item in control_plane.objects.list("hwep", acme.name)]
        texts.append(str(spec))
        # Another webhook of the organization names the Secret, in YAML.
        theft = endpoint("orders", away, secretHeaders=spec["secretHeaders"])
        acme.apply(theft)
        stranger.apply(theft)
        wait_for(control_plane, acme, "False CredentialsRefused")
        wait_for(control_plane, stranger, "False CredentialsNotFound")
        answers = (
            acme.client.post(f"{path}/test", headers=key),
            acme.client.get(path, headers=other),
            acme.client.get("/v1/webhooks", headers=other),
            acme.client.post("/v1/webhooks", json={**body, "secret_headers": {}}, headers=other),
        )
        texts += [answer.text for answer in answers]
        assert stranger.client.get(path, headers=stranger.service_key()).status_code == 404
        assert thief.received == []
        assert receiver.received[0].headers["Authorization"] == f"Bearer {TOKEN}"
        texts.append(control_plane.kubectl("get", "hwep,events", "-n", acme.name, "-o", "yaml").stdout)
    for text in (*texts, operator.log.read_text(), api.log.read_text()):
        assert TOKEN not in text


def test_v1_names_no_secret_of_the_tenant_and_pull_has_no_credential(
    acme: Organization, control_plane: Cluster
) -> None:
    """A key cannot use a Secret of its namespace, and consumers do not get a value in the headers of a message."""
    key = acme.service_key()
    body = {"url": "https://example.com/", "events": ["delivered"]}
    name = acme.webhook(key)["id"]
    reference: dict[str, Any] = {"secret_key_ref": {"name": "api", "key": "token"}}
    for fields in (
        {"secret_headers": [HEADER]},
        {"secret_headers": {"Authorization": reference}},
        {"oauth2": {"client_id": "a", "token_url": "https://example.com/", "client_secret_ref": {}}},
        {"pull": {}, "url": None, "secret_headers": {"Authorization": {"value": TOKEN}}},
        {"headers": {"authorization": "x"}, "secret_headers": {"Authorization": {"value": TOKEN}}},
        {"secret_headers": {"Host": {"value": TOKEN}}},
        {"secret_headers": {"X-Key": {"value": f"{TOKEN}\n{TOKEN}"}}},
        {"secret_headers": {"X-Key": {"value": " "}}},
    ):
        for answer in (
            acme.client.post("/v1/webhooks", json={**body, **fields}, headers=key),
            acme.client.patch(f"/v1/webhooks/{name}", json=fields, headers=key),
        ):
            assert TOKEN not in str(problem_of(answer, 422))
    assert [item["metadata"]["name"] for item in control_plane.objects.list("secret", acme.name)] == [f"{name}-signing"]
    pulled = with_secret("https://example.com/")
    pulled["spec"] = {name: value for name, value in pulled["spec"].items() if name != "url"} | {"pull": {}}
    with pytest.raises(Exception, match="secretHeaders limits requests to a url"):
        acme.apply(pulled)
    with pytest.raises(Exception, match="none that headers or extraSignature sets"):
        acme.apply(with_secret("https://example.com/", headers={"AUTHORIZATION": "x"}))
    assert control_plane.objects.get("hwep", "orders", acme.name) is None


def test_the_route_that_writes_secrets_serves_the_api_and_changes_no_other_secret(
    control_plane: Cluster, operator: OperatorProcess, acme: Organization
) -> None:
    """The role for people does not open it. No Secret of another name or uid, or without labels, is deleted."""
    name = acme.webhook(acme.service_key())["id"]
    uid = (control_plane.objects.get("hwep", name, acme.name) or {})["metadata"]["uid"]
    owner = {"apiVersion": "hookwright.dev/v1alpha1", "kind": "WebhookEndpoint", "name": name, "uid": uid}
    names = (f"{name}-signing", f"{name}-credential-{0:012}")
    acme.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": names[1], "ownerReferences": [owner]}})
    url = f"{operator.intake_url}/v1alpha1/namespaces/{acme.name}/webhookendpoints/{name}/credentials"
    statuses = []
    for account, owner_uid, secret in (
        ("hookwright-producer", uid, names[1]),
        ("hookwright-api", uid, names[0]),
        ("hookwright-api", "another", names[1]),
        ("hookwright-api", uid, names[1]),
    ):
        token = service_account_token(control_plane, account, namespace=SYSTEM_NAMESPACE, audience=AUDIENCE)
        body, headers = {"uid": owner_uid, "removed": [secret]}, {"Authorization": f"Bearer {token}"}
        statuses.append(httpx.put(url, json=body, headers=headers, trust_env=False).status_code)
    assert statuses == [403, 422, 503, 204]
    assert all(control_plane.objects.get("secret", secret, acme.name) for secret in names)
