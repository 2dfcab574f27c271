"""Changes behind the operator's back are repaired, or reported if a repair is not possible."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from support.cluster_actions import Object, Organization, apikey, delivered, endpoint, made_by_api, manifest, receiving
from support.polling import eventually

from hookwright_dev.cluster.installation import OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.receiver import verdict

NOWHERE = "http://127.0.0.1:9/"


REMOVE_OWNERS = [{"op": "remove", "path": "/metadata/ownerReferences"}]
REMOVE_STATUS = [{"op": "remove", "path": "/status"}]


@dataclass(frozen=True)
class Conflict:
    """Observations during a conflict with foreign Secrets, which are deleted now."""

    org: Organization
    secrets: list[dict[str, str] | None]
    endpoint: Object
    key: Object


@pytest.fixture(scope="module", autouse=True)
def conflict(shared_cluster: Cluster, operator: OperatorProcess) -> Iterator[Conflict]:
    """Yield a conflict that ended before the first test: its repair takes half a minute, in which other tests run."""
    with Organization(shared_cluster, operator, "test-conflict") as org:
        shared_cluster.objects.create("Namespace", org.namespace)
        names = ("orders-signing", "ci-key")
        for name in names:
            theirs = {"secret": "theirs", "key": "theirs"}
            shared_cluster.objects.create("Secret", name, org.namespace, stringData=theirs)
        org.apply(manifest("Project", "billing"), endpoint("orders", NOWHERE), apikey("ci"))
        org.wait_for("hwep", "orders", "False SecretConflict")
        org.wait_for("hwkey", "ci", "False SecretConflict")
        state = Conflict(
            org, [org.secret(name) for name in names], org.status("hwep", "orders"), org.status("hwkey", "ci")
        )
        org.delete("secret", *names)
        yield state
        shared_cluster.objects.delete("Namespace", org.namespace, wait=False)


def signing_secret(org: Organization) -> str:
    """Return the signing secret of the endpoint ``orders``, '' if there is none."""
    return (org.secret("orders-signing") or {}).get("secret", "")


def owners(org: Organization, kind: str, name: str) -> list[str]:
    """Return the names of an object's owners."""
    metadata = (org.get(kind, name) or {"metadata": {}})["metadata"]
    return [reference["name"] for reference in metadata.get("ownerReferences", [])]


def test_a_deleted_signing_secret_is_restored_with_the_same_value(org: Organization) -> None:
    """Each time, deliveries are signed with the same secret, and a Warning Event reports the restoration."""
    with receiving() as receiver:
        org.with_endpoint(endpoint("orders", receiver.url))
        first, status = signing_secret(org), org.status("hwep", "orders")
        org.delete("secret", "orders-signing")
        (event,) = eventually(lambda: org.events("SigningSecretRestored"), "an Event")
        assert event["type"] == "Warning"
        assert event["involvedObject"]["name"] == "orders"
        assert signing_secret(org) == first
        assert org.status("hwep", "orders") == status
        org.send(delivered(1))
        (request,) = eventually(lambda: receiver.received, "a delivery")
        assert verdict(request.headers, request.body, [first]) == ""
        org.delete("secret", "orders-signing")
        eventually(lambda: len(org.events("SigningSecretRestored")) == 2, "an Event for the second time too")
        assert org.events("SigningSecretRecreated") == []


def test_lost_ownerreferences_and_labels_come_back_and_contents_stay(org: Organization) -> None:
    """Garbage collection and the operator's watch need them; no new secret is created."""
    org.with_endpoint(made_by_api(endpoint("orders", NOWHERE)))
    org.apply(made_by_api(apikey("ci")))
    org.wait_for("hwkey", "ci", "True Usable")
    secrets = {name: org.get("secret", name) for name in ("orders-signing", "ci-key")}
    org.patch("hwep", "orders", REMOVE_OWNERS)
    org.patch("hwkey", "ci", REMOVE_OWNERS)
    org.patch("secret", "ci-key", REMOVE_OWNERS)
    org.patch("secret", "orders-signing", REMOVE_OWNERS)
    for kind, name, owner in (
        ("hwep", "orders", "billing"),
        ("hwkey", "ci", "billing"),
        ("secret", "ci-key", "ci"),
        ("secret", "orders-signing", "orders"),
    ):
        eventually(lambda: owners(org, kind, name) == [owner], f"{kind} {name} is owned again")  # noqa: B023
    for name in secrets:
        org.patch("secret", name, {"metadata": {"labels": None}})
    for name, before in secrets.items():
        assert before is not None

        def restored(name: str = name, labels: object = before["metadata"]["labels"]) -> bool:
            return bool((org.get("secret", name) or {})["metadata"].get("labels") == labels)

        eventually(restored, f"Secret {name} has its labels again")
        now = org.get("secret", name) or {}
        assert (now["metadata"]["uid"], now["data"]) == (before["metadata"]["uid"], before["data"])
    assert org.events("SigningSecretRecreated") == org.events("HandoverSecretGone") == []


def test_a_wiped_status_comes_back(org: Organization) -> None:
    """The status gets back its conditions, the Secret's name, the counts, and a key's id and digest."""
    with receiving() as receiver:
        org.with_endpoint(endpoint("orders", receiver.url))
        org.apply(apikey("ci"))
        org.wait_for("hwkey", "ci", "True Usable")
        org.send(delivered(1))
        org.wait_for("hwep", "orders", "True Delivered", type_="Reachable")
        eventually(lambda: org.status("hwproj", "billing").get("webhookEndpoints") == 1, "the project counts")
        objects = [("hwep", "orders"), ("hwkey", "ci"), ("hwproj", "billing")]
        before = {key: without_times(org.status(*key)) for key in objects}
        assert before["hwep", "orders"]["deliveries"]["delivered"] == 1
        for kind, name in objects:
            org.patch(kind, name, REMOVE_STATUS, subresource="status")
        for key, status in before.items():
            eventually(lambda: without_times(org.status(*key)) == status, f"{key} has its status again")  # noqa: B023


def without_times(status: Object) -> Object:
    """Return a status without the transition times of its conditions."""
    conditions = [
        {name: value for name, value in condition.items() if name != "lastTransitionTime"}
        for condition in status.get("conditions", [])
    ]
    return {**status, "conditions": conditions}


def test_a_signing_secret_that_was_spoilt_is_reported_and_deliveries_wait_until_it_is_mended(org: Organization) -> None:
    """No delivery is sent with a wrong signature; the repair of the Secret releases the deliveries."""
    with receiving() as receiver:
        org.with_endpoint(endpoint("orders", receiver.url))
        good = signing_secret(org)
        org.patch("secret", "orders-signing", {"data": {"secret": base64.b64encode(b"hunter2").decode()}})
        org.wait_for("hwep", "orders", "False SigningSecretInvalid")
        assert org.send(delivered(1))["deliveries"] == 1
        eventually(lambda: org.status("hwep", "orders")["deliveries"]["pending"] == 1, "the delivery waits")
        assert receiver.received == []
        org.patch("secret", "orders-signing", {"data": {"secret": base64.b64encode(good.encode()).decode()}})
        org.wait_for("hwep", "orders", "True Delivering")
        (request,) = eventually(lambda: receiver.received, "the delivery goes out")
        assert verdict(request.headers, request.body, [good]) == ""


def test_a_name_in_use_again_at_once_starts_from_nothing(org: Organization) -> None:
    """An endpoint that is deleted and created again has its own secret and no delivery of its predecessor."""
    with receiving() as receiver:
        spec = endpoint("orders", receiver.url, suspend=True)
        org.apply(manifest("Project", "billing"), spec)
        org.wait_for("hwep", "orders", "True Suspended")
        first = signing_secret(org)
        org.send(delivered("old"))
        org.delete("hwep", "orders")
        org.apply(endpoint("orders", receiver.url))
        org.wait_for("hwep", "orders", "True Delivering")
        second = eventually(lambda: signing_secret(org).replace(first, ""), "a separate secret")
        # The old Secret has the same name, and garbage collection deletes it while the new endpoint waits.
        assert org.send(delivered("new"))["deliveries"] == 1
        eventually(lambda: receiver.received, "the new delivery")
        (request,) = receiver.received
        assert b'"new"' in request.body
        assert verdict(request.headers, request.body, [second]) == ""


@pytest.mark.slow
def test_a_foreign_secret_is_left_alone_reported_and_replaced_when_it_goes(conflict: Conflict) -> None:
    """Endpoint and key do not change a foreign Secret; both become ready when the name is free."""
    org = conflict.org
    theirs = {"secret": "theirs", "key": "theirs"}
    assert conflict.secrets == [theirs, theirs]
    assert "signingSecretRef" not in conflict.endpoint
    assert "keyId" not in conflict.key
    org.wait_for("hwep", "orders", "True Delivering")
    org.wait_for("hwkey", "ci", "True Usable")
    assert signing_secret(org).startswith("whsec_")
    assert org.events("SigningSecretRecreated") == []
