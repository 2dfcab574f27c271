"""A revoked key stays revoked: no other tenant can declare its digest and get the key."""

import json
import secrets
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from integration.api import conftest as shared
from support.api_processes import Organization, problem_of
from support.polling import eventually
from support.stack import LIFTED

from hookwright_crds.keys import MintedKey, mint
from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster

control_plane, operator = shared.control_plane, shared.operator

DUPLICATE = "False DuplicateDigest"


@pytest.fixture(scope="module")
def api(
    control_plane: Cluster, operator: OperatorProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiProcess]:
    """Yield an API that tests may kill and start again, as the stack's operator; it waits 2 s for the operator."""
    settings = {**LIFTED, "HOOKWRIGHT_CREATE_TIMEOUT": "2"}
    with ApiProcess(control_plane, tmp_path_factory.mktemp("api"), operator.intake_url, settings) as process:
        yield process


@pytest.fixture
def tenants(control_plane: Cluster, api: ApiProcess) -> Iterator[tuple[Organization, Organization]]:
    """Two organizations with a project each: the victim and the attacker."""
    with httpx.Client(base_url=api.url, trust_env=False, timeout=30.0) as client:
        names = [f"{prefix}-{uuid4().hex[:8]}" for prefix in ("victim", "attacker")]
        for name in names:
            control_plane.objects.create("Namespace", name)
        victim, attacker = (Organization(control_plane, client, name) for name in names)
        victim.project()
        attacker.project()
        yield victim, attacker
        control_plane.objects.delete("Namespace", *names, wait=False)


def declared(name: str, digest: str) -> dict[str, Any]:
    """Return an ApiKey that declares a digest."""
    return {
        "kind": "ApiKey",
        "metadata": {"name": name},
        "spec": {"projectRef": {"name": "billing"}, "digest": digest},
    }


def stored(organization: Organization, name: str) -> dict[str, Any]:
    """Return an ApiKey as the API server has it."""
    return organization.cluster.objects.get("ApiKey", name, organization.name) or {}


def ready(organization: Organization, name: str) -> str:
    """Return the condition Ready of an ApiKey as ``<status> <reason>``."""
    for condition in stored(organization, name).get("status", {}).get("conditions", ()):
        if condition["type"] == "Ready":
            return f"{condition['status']} {condition['reason']}"
    return ""


def await_ready(organization: Organization, name: str, wanted: str) -> None:
    """Return when the condition Ready of an ApiKey is ``<status> <reason>``."""
    eventually(lambda: ready(organization, name) == wanted, f"{organization.name}/{name} is {wanted}", within=30)


def opens(organization: Organization, plaintext: str) -> int:
    """Return how the API answers a key."""
    return organization.client.get("/v1/webhooks", headers={"X-Service-Key": plaintext}).status_code


def revoked_key(victim: Organization) -> tuple[str, str, str]:
    """Make, use and revoke a key of the victim; return its id, its plaintext and its digest."""
    new_key = victim.key()
    assert opens(victim, new_key["key"]) == 200
    digest = stored(victim, new_key["id"])["spec"]["digest"]
    answer = victim.client.delete(f"/v1/projects/billing/keys/{new_key['id']}", headers=victim.session())
    assert answer.status_code == 204
    return new_key["id"], new_key["key"], digest


def a_key() -> MintedKey:
    """Return a key that was made outside the cluster."""
    return mint(secrets.choice, key_id=f"ci-{uuid4().hex[:8]}")


@pytest.mark.slow
def test_a_revoked_digest_declared_by_another_tenant_opens_nothing_also_after_restarts(
    tenants: tuple[Organization, Organization], operator: OperatorProcess, api: ApiProcess
) -> None:
    """The attacker's ApiKey is DuplicateDigest, before and after restarts; the victim's own becomes valid again."""
    victim, attacker = tenants
    key_id, plaintext, digest = revoked_key(victim)
    attacker.apply(declared(key_id, digest))
    await_ready(attacker, key_id, DUPLICATE)
    assert victim.name not in json.dumps(stored(attacker, key_id))
    assert opens(attacker, plaintext) == 401

    operator.kill()
    api.running.kill()
    operator.start()
    api.start()
    attacker.apply({**declared(key_id, digest), "metadata": {"name": key_id, "labels": {"again": "true"}}})
    assert opens(attacker, plaintext) == 401
    attacker.cluster.objects.delete("ApiKey", key_id, namespace=attacker.name)
    attacker.apply(declared(key_id, digest))
    await_ready(attacker, key_id, DUPLICATE)
    assert opens(attacker, plaintext) == 401

    victim.apply(declared(key_id, digest))
    await_ready(victim, key_id, "True Usable")
    eventually(lambda: opens(victim, plaintext) == 200, "the victim's own key works again")
    webhook = victim.webhook({"X-Service-Key": plaintext})
    document = victim.client.get("/v1/webhooks", headers=victim.session(), params={"project": "billing"}).json()["data"]
    assert [row["id"] for row in document] == [webhook["id"]]


def test_of_two_living_keys_with_one_digest_the_first_works_also_after_it_is_deleted(
    tenants: tuple[Organization, Organization],
) -> None:
    """The second never gets the digest, although the first was declared in YAML and is gone."""
    victim, attacker = tenants
    key = a_key()
    victim.apply(declared(key.key_id, key.digest))
    await_ready(victim, key.key_id, "True Usable")
    attacker.apply(declared(key.key_id, key.digest))
    await_ready(attacker, key.key_id, DUPLICATE)
    eventually(lambda: opens(victim, key.plaintext) == 200, "the first key works")
    victim.cluster.objects.delete("ApiKey", key.key_id, namespace=victim.name)
    eventually(lambda: opens(victim, key.plaintext) == 401, "the first key is revoked")
    blocks = {"metadata": {"annotations": {"touched": "1"}}}
    attacker.cluster.objects.patch("ApiKey", key.key_id, attacker.name, blocks)
    attacker.apply({"kind": "Project", "metadata": {"name": "billing"}, "spec": {"displayName": "again"}})
    await_ready(attacker, key.key_id, DUPLICATE)
    assert opens(attacker, key.plaintext) == 401


def test_a_digest_in_annotations_of_another_tenant_opens_nothing(tenants: tuple[Organization, Organization]) -> None:
    """The operator's own record of a handed over key is in annotations, which a tenant can write."""
    victim, attacker = tenants
    key_id, plaintext, digest = revoked_key(victim)
    forgery = {
        "kind": "ApiKey",
        "metadata": {
            "name": "forged",
            "annotations": {"hookwright.dev/key-id": key_id, "hookwright.dev/digest": digest},
        },
        "spec": {"projectRef": {"name": "billing"}, "handover": {"secretName": "forged-key"}},
    }
    attacker.apply(forgery)
    await_ready(attacker, "forged", DUPLICATE)
    assert opens(attacker, plaintext) == 401


@pytest.mark.slow
def test_without_the_operator_no_new_key_opens_anything(
    tenants: tuple[Organization, Organization], operator: OperatorProcess
) -> None:
    """The API fails closed: only the operator knows whether a digest belongs to another tenant. Old keys stay valid."""
    victim, attacker = tenants
    key_id, plaintext, digest = revoked_key(victim)
    living = victim.key()["key"]
    operator.kill()
    try:
        attacker.apply(declared(key_id, digest))
        refusal = victim.client.post("/v1/projects/billing/keys", json={"name": "ci"}, headers=victim.session())
        problem_of(refusal, 503)
        assert refusal.headers["retry-after"]
        # The API has seen the attacker's ApiKey, because it has seen a later one.
        assert opens(attacker, plaintext) == 401
        assert opens(victim, living) == 200
    finally:
        operator.start()
    await_ready(attacker, key_id, DUPLICATE)
    assert opens(attacker, plaintext) == 401
    rows = victim.client.get("/v1/projects/billing/keys", headers=victim.session()).json()["data"]
    assert len(rows) == 1
