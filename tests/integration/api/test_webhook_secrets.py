"""Signing secrets through the API: rotation, reading, and Secrets that the tenant makes."""

import base64
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import httpx
from integration.api.conftest import StartApi
from support.api_processes import Organization, problem_of
from support.api_receiver import Received
from support.polling import eventually
from support.stack import LIFTED

from hookwright_dev.cluster.kubectl import Cluster
from hookwright_operator.delivery.http.signatures import signature_headers
from hookwright_runtime.problems import Code

GENUINE = "whsec_" + base64.b64encode(b"s" * 32).decode()


def rotated(client: httpx.Client, headers: dict[str, str], name: str, body: object = None) -> dict[str, Any]:
    """Rotate a secret and return the answer; a 503 is repeated, as a client does on a busy machine."""
    answer = client.post(f"/v1/webhooks/{name}/rotate-secret", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    document: dict[str, Any] = answer.json()
    return document


def rotation(cluster: Cluster, organization: Organization, name: str) -> int:
    """Return the rotation of an endpoint."""
    resource = cluster.objects.get("WebhookEndpoint", name, organization.name) or {}
    return int(resource["spec"]["signing"]["rotation"])


def test_a_rotation_returns_the_new_secret_and_both_sign(
    acme: Organization, client: httpx.Client, control_plane: Cluster, receiver: Received
) -> None:
    """The old secret signs beside the new one until the time in the answer."""
    key = acme.service_key()
    new_webhook = acme.webhook(key, f"{receiver.url}/r")
    answer = rotated(client, key, new_webhook["id"], {"overlap": "2h"})
    assert (answer["id"], answer["secret"] == new_webhook["secret"]) == (new_webhook["id"], False)
    until = datetime.fromisoformat(answer["previous_signs_until"])
    assert timedelta(hours=1) < until - datetime.now(UTC) <= timedelta(hours=2)
    assert rotation(control_plane, acme, new_webhook["id"]) == 1

    assert client.post(f"/v1/webhooks/{new_webhook['id']}/test", headers=key).json()["success"]
    [(_, headers, body)] = receiver.requests
    secrets = (answer["secret"], new_webhook["secret"])
    expected = signature_headers(secrets, headers["webhook-id"], int(headers["webhook-timestamp"]), body)
    assert (
        headers["webhook-signature"] == {name.lower(): value for name, value in expected.items()}["webhook-signature"]
    )
    assert client.get(f"/v1/webhooks/{new_webhook['id']}/secret", headers=acme.session()).json() == answer


def test_a_rotation_without_an_overlap_ends_the_old_secret(acme: Organization, client: httpx.Client) -> None:
    """No earlier secret signs then; a later rotation without a body keeps this overlap."""
    key = acme.service_key()
    name = str(acme.webhook(key)["id"])
    first = rotated(client, key, name, {"overlap": "0s"})
    second = rotated(client, key, name)
    assert [answer["previous_signs_until"] for answer in (first, second)] == [None, None]
    assert first["secret"] != second["secret"]


def test_an_idempotency_key_makes_a_rotation_repeatable(
    acme: Organization, client: httpx.Client, control_plane: Cluster, start_api: StartApi
) -> None:
    """Simultaneous requests, also to another replica, rotate once; another body or credential is another request."""
    _, second = start_api(LIFTED)
    key = acme.service_key()
    name = str(acme.webhook(key)["id"])
    once = {**key, "Idempotency-Key": "rotation-1"}
    eventually(lambda: second.get(f"/v1/webhooks/{name}", headers=key).status_code == 200, "the other replica knows it")
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda replica: rotated(replica, once, name), (client, second) * 3))
    assert len({answer["secret"] for answer in answers}) == 1
    assert rotation(control_plane, acme, name) == 1
    path = f"/v1/webhooks/{name}/rotate-secret"
    problem = problem_of(client.post(path, json={"overlap": "1h"}, headers=once), 422)
    assert problem["errors"][0]["field"] == "Idempotency-Key"
    assert problem["code"] == Code.IDEMPOTENCY_KEY_REUSED
    rotated(client, {**acme.service_key(), "Idempotency-Key": "rotation-1"}, name)
    assert rotation(control_plane, acme, name) == 2
    assert "was replaced after" in problem_of(client.post(path, headers=once), 409)["detail"]


def test_a_rotation_of_what_the_api_does_not_own_is_409(acme: Organization, client: httpx.Client) -> None:
    """A declared endpoint is rotated where it is declared, and a Secret of the tenant is changed by the tenant."""
    key = acme.service_key()
    _declare(acme, "orders")
    eventually(lambda: client.get("/v1/webhooks/orders", headers=key).status_code == 200, "orders is shown")
    problem = problem_of(client.post("/v1/webhooks/orders/rotate-secret", headers=key), 409)
    assert '"kubectl"' in problem["detail"]


def test_a_webhook_that_signs_with_a_secret_of_the_tenant_is_not_rotated(
    acme: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """The answer names the Secret. The owner of the field is the API, as if its own client had written it."""
    key = acme.service_key()
    name = str(acme.webhook(key)["id"])
    _secret(control_plane, acme, "mine", GENUINE)
    patch = '{"spec": {"signing": {"secretRef": {"name": "mine"}}}}'
    manager = "--field-manager=hookwright-api"
    control_plane.kubectl("patch", "hwep", name, "-n", acme.name, "--type=merge", manager, "-p", patch)
    problem = problem_of(client.post(f"/v1/webhooks/{name}/rotate-secret", headers=key), 409)
    assert '"mine"' in problem["detail"]


def test_a_wrong_rotation_is_422_and_rotates_nothing(
    acme: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """The bounds are those of spec.signing."""
    key = acme.service_key()
    name = str(acme.webhook(key)["id"])
    bodies: list[object] = [{"overlap": "169h"}, {"overlap": "1d"}, {"overlap": 5}, {"rotation": 1}, []]
    for body in bodies:
        problem_of(client.post(f"/v1/webhooks/{name}/rotate-secret", json=body, headers=key), 422)
    assert rotation(control_plane, acme, name) == 0


RAW = "a password that its owner does not offer"
FOREIGN = {
    "a password": "correct horse battery staple",
    "a password beside a signing secret": f"password {GENUINE}",
    "a private key": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----\n",
    "a token of 48 bytes": base64.b64encode(b"t" * 48).decode(),
    "a prefix and a password": "whsec_correct-horse",
    "a prefix and a short key": "whsec_" + base64.b64encode(b"short").decode(),
    "a prefix and a long text": "whsec_" + base64.b64encode(b"l" * 65).decode(),
    RAW: "correct horse battery staple",
}


def test_no_content_of_another_secret_can_be_read(
    acme: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """An endpoint may name any Secret of its namespace; only texts of the form of signing secrets are ever shown.

    With another form, the Secret needs the label of its owner.
    """
    session, key = acme.session(), acme.service_key()
    for number, (title, content) in enumerate(FOREIGN.items()):
        _secret(control_plane, acme, f"app-{number}", content)
        _declare(acme, f"spy-{number}", f"app-{number}", "raw" if title == RAW else "whsec")
        path = f"/v1/webhooks/spy-{number}"
        eventually(partial(_refused, client, key, path), f"{title} is refused")
        answers = [
            client.get(f"{path}/secret", headers=session),
            client.post(f"{path}/test", headers=key),
            client.post(f"{path}/rotate-secret", headers=key),
            client.get(path, headers=key),
        ]
        texts = " ".join([answer.text.replace(GENUINE, "") for answer in answers])
        for part in content.replace(GENUINE, "").split():
            assert part not in texts, title
        if GENUINE not in content:
            assert "SigningSecretInvalid" in problem_of(answers[0], 409)["detail"]
            problem_of(answers[1], 409)
    _secret(control_plane, acme, "mine", f"{GENUINE} {FOREIGN['a password']}")


def test_a_signing_secret_of_the_tenant_is_shown_to_a_session(
    acme: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """It has the form of a signing secret, and it is what the receiver needs."""
    _secret(control_plane, acme, "mine", GENUINE)
    _declare(acme, "own", "mine")
    session = acme.session()

    def shown() -> object:
        answer = client.get("/v1/webhooks/own/secret", headers=session)
        return answer.json() if answer.status_code == 200 else None

    expected = {"id": "own", "secret": GENUINE, "previous_signs_until": None}
    eventually(lambda: shown() == expected, "the secret is shown")


def _refused(client: httpx.Client, key: dict[str, str], path: str) -> bool:
    return bool(client.get(path, headers=key).json().get("status") == "error")


def _secret(cluster: Cluster, organization: Organization, name: str, content: str) -> None:
    cluster.objects.create("Secret", name, organization.name, stringData={"secret": content})


def _declare(organization: Organization, name: str, secret: str = "", encoding: str = "whsec") -> None:
    signing = {"signing": {"secretRef": {"name": secret, "encoding": encoding}}} if secret else {}
    spec = {"projectRef": {"name": "billing"}, "url": "https://example.com/o", "events": ["bounced"], **signing}
    organization.apply({"kind": "WebhookEndpoint", "metadata": {"name": name}, "spec": spec})
