"""All uses of an installation, for tests that measure its rights."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
from support.api_processes import PASSWORD
from support.api_processes import Organization as Customer
from support.cluster_actions import Organization, apikey, delivered, endpoint, receiving
from support.polling import eventually

from hookwright_crds.sessions import SESSION_KEYS_NAME
from hookwright_crds.users import user_secret_name
from hookwright_dev.cluster.installation import USERS_NAMESPACE, service_account_kubeconfig
from hookwright_dev.cluster.kubectl import Cluster


def platform_team(acme: Organization) -> None:
    """Apply YAML and run its whole life: handover, rotation, repair, suspension, deletion."""
    with receiving() as receiver:
        acme.with_endpoint(endpoint("orders", receiver.url))
        acme.apply(apikey("ci"))
        acme.wait_for("hwkey", "ci", "True Usable")
        acme.send(delivered(1))
        eventually(lambda: acme.status("hwep", "orders")["deliveries"]["delivered"] == 1, "the status shows it")
        first = (acme.secret("orders-signing") or {})["secret"]
        acme.patch("hwep", "orders", {"spec": {"signing": {"rotation": 1}}})
        eventually(lambda: (acme.secret("orders-signing") or {}).get("previous") == first, "the secret is rotated")
        acme.delete("secret", "orders-signing")
        eventually(lambda: acme.secret("orders-signing"), "a deleted signing secret is created again")
        eventually(lambda: acme.events("SigningSecretRestored"), "an Event reports it")
        past = {"metadata": {"annotations": {"hookwright.dev/remove-at": "2020-01-01T00:00:00Z"}}}
        acme.patch("secret", "ci-key", past)
        eventually(lambda: acme.secret("ci-key") is None, "the handover is over")
        acme.delete("hwep", "orders", seconds=30)
        acme.apply(endpoint("more", receiver.url))
        acme.wait_for("hwep", "more", "True Delivering")
        acme.delete("hwkey", "ci", seconds=30)
        acme.delete("hwep", "more", seconds=30)
        acme.delete("hwproj", "billing", seconds=30)
        eventually(lambda: not acme.objects("hookwright,secrets"), "nothing is left", within=60)


def user_logs_in(plane: Cluster, folder: Path, client: httpx.Client) -> None:
    """Create a user with the command line in the operator's pod, and log in."""
    email = "ada@globex.example"
    kubeconfig = service_account_kubeconfig(plane, "hookwright-operator", folder)
    user = ("users", "create", email, "--organization", "globex")
    result = subprocess.run(
        [sys.executable, "-m", "hookwright_cli", "--way=kubeconfig", *user],
        input=PASSWORD,
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert plane.objects.get("secret", user_secret_name(email), USERS_NAMESPACE)
    login = {"email": email, "password": PASSWORD}
    eventually(lambda: client.post("/v1/auth/login", json=login).status_code == 200, "the user logs in")


def api_client(globex: Customer, *, has_credentials: bool = True) -> None:
    """Call every route of the API."""
    globex.project()
    key = globex.key()
    headers = {"X-Service-Key": key["key"]}
    with receiving() as receiver:
        name = globex.webhook(headers, f"{receiver.url}/hooks")["id"]
        post, get, delete = globex.client.post, globex.client.get, globex.client.delete
        assert post(f"/v1/webhooks/{name}/test", headers=headers).status_code == 200
        assert post("/v1/events", json=delivered(1), headers=headers).status_code == 202
        eventually(lambda: len(receiver.received) == 2, "the test and the event arrive")
        description: dict[str, Any] = {"description": "Orders", "labels": {"team": "billing"}}
        if has_credentials:
            description["secret_headers"] = {"X-Key": {"value": "k3y"}}
        assert globex.client.patch(f"/v1/webhooks/{name}", json=description, headers=headers).status_code == 200
        assert post(f"/v1/webhooks/{name}/rotate-secret", headers=headers).status_code == 200
        assert get(f"/v1/webhooks/{name}/secret", headers=globex.session()).status_code == 200
        log = get(f"/v1/webhooks/{name}/deliveries", headers=headers)
        assert log.status_code == 200
        receiver.answer = lambda _: 500
        assert post("/v1/events", json=delivered(2), headers=headers).status_code == 202

        def failed() -> list[str]:
            document = get(f"/v1/webhooks/{name}/deliveries", headers=headers).json()["data"]
            return [row["id"] for row in document if row["status"] == "failed"]

        (delivery,) = eventually(failed, "a delivery has failed", within=30)
        assert post(f"/v1/deliveries/{delivery}/retry", headers=headers).status_code == 202
        assert delete(f"/v1/webhooks/{name}", headers=headers).status_code == 204
    body = post("/v1/webhooks", json={"pull": {}, "events": ["delivered"]}, headers=headers).json()["id"]
    assert get(f"/v1/webhooks/{body}/messages", headers=headers).json() == {"data": []}
    assert delete(f"/v1/webhooks/{body}", headers=headers).status_code == 204
    private = {"url": "https://example.com/", "events": ["delivered"], "tls": {"ca_certificates": "-----BEGIN x"}}
    answer = post("/v1/webhooks", json=private, headers=headers)
    if has_credentials:
        path = f"/v1/webhooks/{answer.json()['id']}"
        assert globex.client.patch(path, json={"tls": None}, headers=headers).status_code == 200
    else:
        assert answer.status_code == 409
    assert delete(f"/v1/projects/billing/keys/{key['id']}", headers=globex.session()).status_code == 204
    assert post("/v1/auth/logout", headers=globex.session()).status_code == 204


def session_keys_rotate(plane: Cluster) -> None:
    """Rotate the keys of session tokens."""

    def keys() -> dict[str, str]:
        return dict((plane.objects.get("secret", SESSION_KEYS_NAME, USERS_NAMESPACE) or {})["data"])

    eventually(lambda: len(keys()) > 1, "the keys of sessions rotate")
