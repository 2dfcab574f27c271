"""The story of a platform team with GitOps: what is removed from Git is gone, and each state has its health."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from lupa.lua54 import LuaRuntime  # type: ignore[import-untyped]
from support.cluster_actions import Object, Organization, apikey, delivered, endpoint, manifest, receiving
from support.polling import eventually

from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.receiver import verdict

GITOPS = Path(__file__).resolve().parents[2] / "examples" / "gitops"
NOWHERE = "http://127.0.0.1:9/"
KINDS = "hookwright"
APPLICATION = "app.kubernetes.io/instance"
"""The label by which Argo CD marks the objects of an application."""


def prunes(live: Iterable[Object], application: str, declared: Iterable[Object]) -> list[tuple[str, str]]:
    """Return kind and name of the live objects that Argo CD deletes, because Git does not declare them any more.

    After gitops-engine, ``pkg/cache/cluster.go``, ``GetManagedLiveObjs``: an object with an owner is not considered.
    """
    wanted = {(one["kind"], one["metadata"]["name"]) for one in declared}
    managed = [
        live_object
        for live_object in live
        if live_object["metadata"].get("labels", {}).get(APPLICATION) == application
        and not live_object["metadata"].get("ownerReferences")
    ]
    names = [(one["kind"], one["metadata"]["name"]) for one in managed]
    return [name for name in names if name not in wanted]


def kstatus(live: Object) -> str:
    """Return Terminating, InProgress, Failed or Current, as cli-utils' ``pkg/kstatus/status`` does for Flux and kpt."""
    metadata, status = live["metadata"], live.get("status") or {}
    if metadata.get("deletionTimestamp"):
        return "Terminating"
    if "observedGeneration" in status and status["observedGeneration"] != metadata.get("generation"):
        return "InProgress"
    conditions = {one["type"]: one["status"] for one in status.get("conditions", [])}
    if conditions.get("Reconciling") == "True":
        return "InProgress"
    if conditions.get("Stalled") == "True":
        return "Failed"
    return "InProgress" if conditions.get("Ready", "True") != "True" else "Current"


def tracked(declared: Object) -> Object:
    """Return an object with the mark of Argo CD's application."""
    metadata = {**declared["metadata"], "labels": {APPLICATION: "shop"}}
    return {**declared, "metadata": metadata}


def argo_health(live: Object) -> str:
    """Return the health that Argo CD computes with the checks in examples/gitops."""
    checks = yaml.safe_load((GITOPS / "argocd-cm.yaml").read_text())["data"]
    lua = LuaRuntime(unpack_returned_tuples=True)
    lua.globals().obj = lua.table_from(live, recursive=True)
    return str(lua.execute(checks[f"resource.customizations.health.hookwright.dev_{live['kind']}"])["status"])


def health(org: Organization, kind: str, name: str) -> tuple[str, str]:
    """Return what kstatus and Argo CD say of an object."""
    live = org.get(kind, name)
    assert live is not None
    return kstatus(live), argo_health(live)


def test_removed_from_git_means_gone(org: Organization) -> None:
    """Argo CD prunes a removed endpoint, key and project; the key then gives access to nothing."""
    with receiving() as receiver:
        git = [
            tracked(value) for value in (manifest("Project", "billing"), apikey("ci"), endpoint("orders", receiver.url))
        ]
        org.apply(*git)
        org.wait_for("hwep", "orders", "True Delivering")
        org.wait_for("hwkey", "ci", "True Usable")
        assert prunes(org.objects(KINDS), "shop", git) == []
        removal = prunes(org.objects(KINDS), "shop", git[:1])
        assert sorted(removal) == [("ApiKey", "ci"), ("WebhookEndpoint", "orders")]
        for kind, name in removal:
            org.delete(kind, name)
        eventually(lambda: org.objects("secrets") == [], "the Secrets of the removed objects are gone")
        assert org.send(delivered(1))["deliveries"] == 0
        assert prunes(org.objects(KINDS), "shop", []) == [("Project", "billing")]


def test_what_people_declare_outlives_its_project_and_accepts_nothing(org: Organization) -> None:
    """Without the project, events are refused; with it, everything works again with the same signing secret."""
    with receiving() as receiver:
        org.apply(manifest("Project", "billing"), apikey("ci"), endpoint("orders", receiver.url))
        org.wait_for("hwep", "orders", "True Delivering")
        org.wait_for("hwkey", "ci", "True Usable")
        secret, key = org.secret("orders-signing"), org.status("hwkey", "ci")["keyId"]
        org.delete("hwproj", "billing")
        org.wait_for("hwep", "orders", "False ProjectNotFound")
        org.wait_for("hwkey", "ci", "False ProjectNotFound")
        assert org.post('{"type": "delivered", "data": {}}').status_code == 404
        assert [event["involvedObject"]["kind"] for event in org.events("ProjectNotFound")]
        org.apply(manifest("Project", "billing"))
        org.wait_for("hwep", "orders", "True Delivering")
        org.wait_for("hwkey", "ci", "True Usable")
        assert (org.secret("orders-signing"), org.status("hwkey", "ci")["keyId"]) == (secret, key)


def test_a_new_object_is_in_progress_until_an_operator_has_seen_it(org: Organization) -> None:
    """The answer to the creation shows the object as no operator has seen it."""
    for value in (manifest("Project", "billing"), apikey("ci"), endpoint("orders", NOWHERE)):
        live = org.cluster.objects.create_from(yaml.safe_dump(value), org.namespace)
        assert (kstatus(live), argo_health(live)) == ("InProgress", "Progressing")


STATES: dict[str, tuple[list[Object], str, tuple[str, str], tuple[str, str]]] = {
    "ready": ([endpoint("orders", NOWHERE)], "True Delivering", ("hwep", "orders"), ("Current", "Healthy")),
    "suspended": (
        [endpoint("orders", NOWHERE, suspend=True)],
        "True Suspended",
        ("hwep", "orders"),
        ("Current", "Suspended"),
    ),
    "a project that may still come": (
        [endpoint("orders", NOWHERE, project="later")],
        "False ProjectNotFound",
        ("hwep", "orders"),
        ("InProgress", "Progressing"),
    ),
    "an address that is refused": (
        [endpoint("orders", "http://10.255.0.1/")],
        "False AddressRefused",
        ("hwep", "orders"),
        ("Failed", "Degraded"),
    ),
    "an expired key": (
        [apikey("ci", expiresAt="2020-01-01T00:00:00Z")],
        "False Expired",
        ("hwkey", "ci"),
        ("Failed", "Degraded"),
    ),
    "an expired endpoint": (
        [endpoint("orders", NOWHERE, expiresAt="2020-01-01T00:00:00Z")],
        "False Expired",
        ("hwep", "orders"),
        ("Failed", "Degraded"),
    ),
    "a Secret in the way": (
        [
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ci-key"}, "stringData": {"key": "theirs"}},
            apikey("ci"),
        ],
        "False SecretConflict",
        ("hwkey", "ci"),
        ("Failed", "Degraded"),
    ),
}


@pytest.mark.parametrize(("declared", "ready", "named", "computed"), STATES.values(), ids=STATES.keys())
def test_each_state_has_its_health(
    org: Organization, declared: list[Object], ready: str, named: tuple[str, str], computed: tuple[str, str]
) -> None:
    """A terminal state is Failed and Degraded, so that a rollout ends; one Event tells the reason."""
    errors = org.metric("hookwright_reconcile_total", result="error")
    org.apply(manifest("Project", "billing"), *declared)
    org.wait_for(*named, ready)
    eventually(lambda: health(org, *named) == computed, f"health is {computed}")
    status, reason = ready.split()
    if status == "False":
        eventually(lambda: len(org.events(reason)) == 1, f"one Event {reason}")
        assert reason in org.kubectl("get", named[0])
    assert org.metric("hookwright_reconcile_total", result="error") == errors


@pytest.fixture
def full(org: Organization) -> Iterator[Organization]:
    """Yield an organization whose quota allows no Secret."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": {"count/secrets": "0"}},
    }
    org.apply(quota)
    eventually(lambda: (org.get("resourcequota", "none") or {}).get("status", {}).get("hard"), "the quota is in force")
    yield org
    if org.get("resourcequota", "none"):
        org.delete("resourcequota", "none")


def test_a_quota_that_allows_no_secret_is_reported_and_loses_no_event(full: Organization) -> None:
    """READY shows the reason; events are accepted and delivered after the quota is raised."""
    with receiving() as receiver:
        errors = full.metric("hookwright_reconcile_total", result="error")
        full.apply(manifest("Project", "billing"), apikey("ci"), endpoint("orders", receiver.url))
        full.wait_for("hwep", "orders", "False WriteRefused")
        full.wait_for("hwkey", "ci", "False WriteRefused")
        (ready, *_) = full.status("hwep", "orders")["conditions"]
        assert "exceeded quota" in ready["message"]
        assert health(full, "hwep", "orders") == ("InProgress", "Progressing")
        assert full.send(delivered("early"))["deliveries"] == 1
        assert full.metric("hookwright_reconcile_total", result="error") == errors
        full.delete("resourcequota", "none")
        full.wait_for("hwep", "orders", "True Delivering")
        eventually(lambda: receiver.received, "the early event is delivered")


def test_a_rotation_goes_one_way(org: Organization) -> None:
    """A git revert of an increase is refused in words, so that it rotates nothing a second time."""
    org.apply(manifest("Project", "billing"), endpoint("orders", NOWHERE, signing={"rotation": 3}))
    org.wait_for("hwep", "orders", "True Delivering")
    secret = org.secret("orders-signing")
    for change in ({"rotation": 2}, {}):
        with pytest.raises(Exception, match="rotation cannot be decreased"):
            org.apply(endpoint("orders", NOWHERE, signing=change))
    assert org.secret("orders-signing") == secret


def test_kustomize_changes_the_names_of_references(tmp_path: Path, shared_cluster: Cluster) -> None:
    """With a namePrefix, keys and endpoints still name their project."""
    objects: list[Any] = [manifest("Project", "billing"), apikey("ci"), endpoint("orders", NOWHERE)]
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all(objects))
    (tmp_path / "kustomizeconfig.yaml").write_text((GITOPS / "kustomizeconfig.yaml").read_text())
    kustomization = {
        "namePrefix": "eu-",
        "resources": ["objects.yaml"],
        "configurations": ["kustomizeconfig.yaml"],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    built = list(yaml.safe_load_all(shared_cluster.kubectl("kustomize", str(tmp_path)).stdout))
    assert {item["metadata"]["name"] for item in built} == {"eu-billing", "eu-ci", "eu-orders"}
    assert {item["spec"]["projectRef"]["name"] for item in built if item["kind"] != "Project"} == {"eu-billing"}


def test_a_restored_signing_secret_is_used_without_a_change_by_hand(org: Organization) -> None:
    """A backup tool restores the Secret without its owner, and then the endpoint, which has a new uid."""
    with receiving() as receiver:
        org.with_endpoint(endpoint("orders", receiver.url))
        backup = org.get("secret", "orders-signing")
        assert backup is not None
        labels = {**backup["metadata"]["labels"], "hookwright.dev/owner-uid": "8c5b1a9e-0000-4000-8000-000000000000"}
        restoration = {**backup, "metadata": {"name": "copy-signing", "labels": labels}}
        org.apply(restoration)
        org.with_endpoint(endpoint("copy", receiver.url))
        assert (org.get("secret", "copy-signing") or {})["data"] == backup["data"]
        owner = (org.get("hwep", "copy") or {})["metadata"]["uid"]
        copy = (org.get("secret", "copy-signing") or {})["metadata"]
        assert (copy["labels"]["hookwright.dev/owner-uid"], copy["ownerReferences"][0]["uid"]) == (owner, owner)


def test_a_signing_secret_of_the_tenant_is_used_when_it_comes(org: Organization) -> None:
    """Events that arrive before the Secret are delivered, signed with it; the operator makes no Secret."""
    with receiving() as receiver:
        signing = {"secretRef": {"name": "vault", "key": "orders"}}
        org.apply(manifest("Project", "billing"), endpoint("orders", receiver.url, signing=signing))
        org.wait_for("hwep", "orders", "False SecretNotFound")
        assert org.send(delivered("early"))["deliveries"] == 1
        secret = "whsec_" + "QUFB" * 11
        vault = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "vault"}, "stringData": {"orders": secret}}
        org.apply(vault)
        org.wait_for("hwep", "orders", "True Delivering")
        (request,) = eventually(lambda: receiver.received, "the early event is delivered")
        assert verdict(request.headers, request.body, [secret]) == ""
        assert org.status("hwep", "orders")["signingSecretRef"] == {"name": "vault", "key": "orders"}
        assert [document["metadata"]["name"] for document in org.objects("secrets")] == ["vault"]


def test_a_handover_can_be_changed_until_the_key_is_generated(org: Organization) -> None:
    """A name that is in use is corrected in place; after the handover the API server refuses a change."""
    lease = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ci-key"}, "stringData": {"key": "theirs"}}
    org.apply(lease, manifest("Project", "billing"), apikey("ci"))
    org.wait_for("hwkey", "ci", "False SecretConflict")
    org.patch("hwkey", "ci", {"spec": {"handover": {"secretName": "other-key", "ttl": "2h"}}})
    org.wait_for("hwkey", "ci", "True Usable")
    assert (org.secret("other-key") or {})["key"].startswith("hw_")
    with pytest.raises(Exception, match="handover cannot be changed after the key is generated"):
        org.patch("hwkey", "ci", {"spec": {"handover": {"ttl": "3h"}}})
