"""API keys: created once, never stored, revoked and expired."""

import base64
import time

import httpx
from support.api_processes import Organization, problem_of
from support.polling import busy_seconds, eventually

from hookwright_crds.keys import digest
from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_runtime.problems import Code


def test_the_plaintext_of_a_key_is_kept_nowhere(
    acme: Organization, client: httpx.Client, control_plane: Cluster, api: ApiProcess, operator: OperatorProcess
) -> None:
    """After a key was created and used, neither etcd nor a log nor an object contains it."""
    new_key = acme.key()
    header = {"X-Service-Key": new_key["key"]}
    assert client.get("/v1/webhooks", headers=header).status_code == 200
    assert client.post("/v1/events", json={"type": "opened", "messageId": "m"}, headers=header).status_code == 202
    secret = new_key["key"].rpartition("_")[2]
    for log in (api.log, operator.log):
        assert secret not in log.read_text()
    kinds = "projects,apikeys,webhookendpoints,secrets,events,configmaps"
    objects = control_plane.kubectl("get", kinds, "-A", "-o", "json").stdout
    assert new_key["id"] in objects
    assert secret not in objects
    if isinstance(control_plane, ControlPlane):
        content = control_plane.etcd_content()
        assert new_key["id"].encode() in content
        assert secret.encode() not in content


def test_a_key_is_an_apikey_of_the_same_name_and_listed_without_key_or_digest(
    acme: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """The answer has exactly the promised fields; the list never contains the key or its digest."""
    new_key = acme.key()
    assert set(new_key) == {"id", "name", "key", "created_at", "scopes"}
    resource = control_plane.objects.get("ApiKey", new_key["id"], acme.name)
    assert resource is not None
    assert resource["spec"]["projectRef"] == {"name": "billing"}
    answer = client.get("/v1/projects/billing/keys", headers=acme.session())
    [document] = answer.json()["data"]
    assert set(document) == {"id", "name", "scopes", "created_at", "last_used_at", "expires_at"}
    assert "sha256" not in answer.text
    assert new_key["key"] not in answer.text


def test_a_revoked_key_stops_working_at_once_even_at_another_replica(acme: Organization, client: httpx.Client) -> None:
    """The request after DELETE gets a 401; after a deletion with kubectl, within a second."""
    new_key = acme.key()
    header = {"X-Service-Key": new_key["key"]}
    assert client.get("/v1/webhooks", headers=header).status_code == 200
    answer = client.delete(f"/v1/projects/billing/keys/{new_key['id']}", headers=acme.session())
    assert answer.status_code == 204
    problem_of(client.get("/v1/webhooks", headers=header), 401)
    problem_of(client.delete(f"/v1/projects/billing/keys/{new_key['id']}", headers=acme.session()), 404)
    other = acme.key()
    acme.cluster.objects.delete("ApiKey", other["id"], namespace=acme.name)
    began = time.monotonic()
    header = {"X-Service-Key": other["key"]}
    eventually(lambda: client.get("/v1/webhooks", headers=header).status_code == 401, "revoked by kubectl")
    assert time.monotonic() - began < busy_seconds(1)


def test_an_expiry_in_the_past_is_refused(acme: Organization, client: httpx.Client) -> None:
    """No key is made that never opens anything."""
    past = {"name": "old", "expires_at": "2020-01-01T00:00:00Z"}
    problem_of(client.post("/v1/projects/billing/keys", json=past, headers=acme.session()), 422)


def handed_over(acme: Organization, secret: str) -> str:
    """Return the key in a handover Secret, empty if there is none."""
    resource = acme.cluster.objects.get("Secret", secret, acme.name)
    return base64.b64decode(resource["data"]["key"]).decode() if resource else ""


def test_a_rotated_key_works_beside_the_new_one_until_the_overlap_ends(
    acme: Organization, client: httpx.Client
) -> None:
    """It is listed; another ApiKey cannot declare the replaced digest; the deletion of the ApiKey ends both keys."""
    handover = {"secretName": "ci-key"}
    acme.apply(
        {
            "kind": "ApiKey",
            "metadata": {"name": "ci"},
            "spec": {"projectRef": {"name": "billing"}, "handover": handover},
        }
    )
    keys = [eventually(lambda: handed_over(acme, "ci-key"), "handed over")]

    def status(key: str) -> int:
        return client.get("/v1/webhooks", headers={"X-Service-Key": key}).status_code

    def rotate(rotation: int, **spec: str) -> None:
        acme.cluster.objects.patch("ApiKey", "ci", acme.name, {"spec": {"rotation": rotation, **spec}})
        fresh = eventually(lambda: ({handed_over(acme, "ci-key")} - {"", *keys}) or None, "a new key")
        keys.append(fresh.pop())
        eventually(lambda: status(keys[-1]) == 200, "the new key works")

    eventually(lambda: status(keys[0]) == 200, "the first key works")
    rows = client.get("/v1/projects/billing/keys", headers=acme.session()).json()["data"]
    assert [row["id"] for row in rows] == ["ci"]
    rotate(1)
    assert [status(key) for key in keys] == [200, 200]
    status_of_key = (acme.cluster.objects.get("ApiKey", "ci", acme.name) or {})["status"]
    assert [item["digest"] for item in status_of_key["previous"]] == [digest(keys[0])]
    name = status_of_key["keyId"]
    stolen = {"projectRef": {"name": "billing"}, "digest": digest(keys[0])}
    acme.apply({"kind": "ApiKey", "metadata": {"name": name}, "spec": stolen})

    def reasons() -> list[str]:
        resource = acme.cluster.objects.get("ApiKey", name, acme.name) or {}
        conditions = resource.get("status", {}).get("conditions", ())
        return [condition["reason"] for condition in conditions if condition["type"] == "Ready"]

    eventually(lambda: reasons() == ["DuplicateDigest"], "the digest belongs to the first one")
    rotate(2, overlap="0s")
    eventually(lambda: [status(key) for key in keys] == [401, 401, 200], "an overlap of 0s ends the replaced keys")
    assert client.delete("/v1/projects/billing/keys/ci", headers=acme.session()).status_code == 204
    assert [status(key) for key in keys] == [401, 401, 401]


def test_last_use_is_written_once_an_interval(acme: Organization, client: httpx.Client, control_plane: Cluster) -> None:
    """The list shows the first use; a hundred more uses within the hour write nothing."""
    new_key = acme.key()
    header = {"X-Service-Key": new_key["key"]}
    assert client.get("/v1/webhooks", headers=header).status_code == 200

    def last_used() -> str | None:
        [row] = client.get("/v1/projects/billing/keys", headers=acme.session()).json()["data"]
        last_use: str | None = row["last_used_at"]
        return last_use

    eventually(lambda: last_used() is not None, "last_used_at written")
    before = control_plane.objects.get("ApiKey", new_key["id"], acme.name)
    for _ in range(100):
        client.get("/v1/webhooks", headers=header)
    assert control_plane.objects.get("ApiKey", new_key["id"], acme.name) == before


def test_a_key_of_a_deleted_project_is_refused(
    acme: Organization, client: httpx.Client, control_plane: Cluster
) -> None:
    """The project's deletion makes its keys invalid at once, before garbage collection deletes them."""
    acme.project("short-lived")
    header = acme.service_key("short-lived")
    assert client.get("/v1/webhooks", headers=header).status_code == 200
    control_plane.objects.delete("Project", "short-lived", namespace=acme.name)
    eventually(lambda: client.get("/v1/webhooks", headers=header).status_code == 401, "refused", within=2)


def test_repeating_the_creation_of_a_key_makes_no_second_one(acme: Organization, client: httpx.Client) -> None:
    """With the same Idempotency-Key the answer is 409 for the same request and 422 for another; one key is listed."""
    headers = {**acme.session(), "Idempotency-Key": "once"}
    path = "/v1/projects/billing/keys"
    answer = client.post(path, json={"name": "a"}, headers=headers)
    assert answer.status_code == 201
    problem = problem_of(client.post(path, json={"name": "a"}, headers=headers), 409)
    assert answer.json()["id"] in problem["detail"]
    other = problem_of(client.post(path, json={"name": "b"}, headers=headers), 422)
    assert other["code"] == Code.IDEMPOTENCY_KEY_REUSED
    assert len(client.get(path, headers=acme.session()).json()["data"]) == 1
