"""Declared objects become ready, stay ready, and are deleted completely, on a real cluster with a real operator."""

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.conftest import FINALIZER_GRACE
from support.cluster_actions import (
    Organization,
    apikey,
    condition,
    delivered,
    endpoint,
    locked,
    made_by_api,
    manifest,
    receiving,
)
from support.polling import PATIENCE, busy_seconds, eventually

from hookwright_crds.base import format_timestamp
from hookwright_crds.keys import key_id_of, matches

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOWHERE = "http://127.0.0.1:9/"


def examples() -> list[dict[str, Any]]:
    """Return the objects in ``examples/`` except for the namespace."""
    documents = [
        document for path in sorted(EXAMPLES.glob("*.yaml")) for document in yaml.safe_load_all(path.read_text())
    ]
    for document in documents:
        document["metadata"].pop("namespace", None)
    return [document for document in documents if document["kind"] != "Namespace"]


def discarded(org: Organization) -> float:
    """Return how many deliveries the operator has discarded, also those of namespaces of earlier modules."""
    return org.metric("hookwright_deliveries_total", outcome="discarded")


def test_the_examples_are_ready_within_two_seconds(org: Organization) -> None:
    """The README's objects become Ready, and kubectl get shows the counts."""
    org.apply(*examples())
    start = time.monotonic()
    eventually(
        lambda: all(condition(document).startswith("True") for document in org.objects("hwep,hwkey,hwproj")),
        "everything in examples/ is ready",
    )
    assert time.monotonic() - start < busy_seconds(2.5)
    assert org.condition("hwep", "archive") == "True Suspended"
    eventually(
        lambda: (
            (status := org.status("hwproj", "billing")) and (status["apiKeys"], status["webhookEndpoints"]) == (1, 4)
        ),
        "the project counts its children",
    )


def test_an_endpoint_without_its_project_waits_for_it_and_then_delivers(org: Organization) -> None:
    """The order of applied objects does not matter."""
    with receiving() as receiver:
        org.apply(endpoint("orders", receiver.url), apikey("ci"))
        org.wait_for("hwep", "orders", "False ProjectNotFound")
        org.wait_for("hwkey", "ci", "False ProjectNotFound")
        assert org.objects("secrets") == []
        org.apply(manifest("Project", "billing"))
        org.wait_for("hwep", "orders", "True Delivering")
        org.wait_for("hwkey", "ci", "True Usable")
        eventually(lambda: org.post(json.dumps(delivered(1))).json().get("deliveries") == 1, "the project accepts")
        eventually(lambda: receiver.received, "the delivery arrives")


def test_deleting_a_project_takes_what_v1_created_for_it(org: Organization) -> None:
    """The garbage collector deletes these keys and endpoints with the project, and their Secrets with them."""
    org.apply(
        manifest("Project", "billing"),
        *map(made_by_api, (apikey("ci"), endpoint("a", NOWHERE), endpoint("b", NOWHERE))),
    )
    eventually(lambda: len(org.objects("secrets")) == 3, "two signing Secrets and a handover Secret")
    org.wait_for("hwkey", "ci", "True Usable")
    org.wait_for("hwep", "b", "True Delivering")
    org.delete("hwproj", "billing")
    assert org.post(json.dumps(delivered(1))).status_code == 404
    eventually(lambda: org.objects("hookwright,secrets") == [], "nothing of the project is left")


def test_deleting_an_endpoint_takes_its_secret_and_discards_its_pending_deliveries(org: Organization) -> None:
    """Pending deliveries are discarded and counted, and a later event finds no subscriber."""
    org.apply(manifest("Project", "billing"), endpoint("held", NOWHERE, suspend=True))
    org.wait_for("hwep", "held", "True Suspended")
    for number in range(5):
        assert org.send(delivered(number))["deliveries"] == 1
    eventually(lambda: org.status("hwep", "held")["deliveries"]["pending"] == 5, "the status shows pending deliveries")
    before = discarded(org)
    org.delete("hwep", "held", seconds=5)
    assert discarded(org) - before >= 5
    assert org.send(delivered(6))["deliveries"] == 0
    eventually(lambda: org.get("secret", "held-signing") is None, "the signing Secret is gone")


def test_an_endpoint_whose_receiver_hangs_is_deleted_at_once(org: Organization) -> None:
    """Attempts in progress do not delay the deletion, and end by themselves."""

    async def hang(_: object) -> int:
        await asyncio.sleep(60)
        return 200

    with receiving(hang) as receiver:
        org.with_endpoint(endpoint("slow", receiver.url, timeout="30s", maxInFlight=2))
        org.send(*(delivered(number) for number in range(6)))
        eventually(lambda: len(receiver.received) == 2, "attempts are under way")
        before = discarded(org)
        org.delete("hwep", "slow", seconds=5)
        eventually(lambda: discarded(org) - before >= 6, "the deliveries are discarded, also without a finalizer")
        assert len(receiver.received) == 2


def test_deletion_does_not_hang_when_the_store_is_away(org: Organization) -> None:
    """After the grace period the endpoint is deleted with an Event, and its deliveries are discarded later."""
    org.apply(manifest("Project", "billing"), endpoint("held", NOWHERE, suspend=True))
    org.wait_for("hwep", "held", "True Suspended")
    org.send(delivered(1), delivered(2))
    eventually(lambda: org.status("hwep", "held")["deliveries"]["pending"] == 2, "counts and finalizer")
    before = discarded(org)
    with locked(org.operator):
        began = time.monotonic()
        org.delete("hwep", "held", wait=False)
        refusal = org.post(json.dumps(delivered(3)))
        assert refusal.status_code == 503, "an event that cannot be stored must not be answered 202"
        assert int(refusal.headers["Retry-After"]) > 0
        eventually(lambda: org.get("hwep", "held") is None, "the endpoint is gone", within=FINALIZER_GRACE + PATIENCE)
        assert time.monotonic() - began >= FINALIZER_GRACE - 1, "the store was given its time"
        assert len(org.events("DeliveriesNotDiscarded")) == 1
        assert discarded(org) == before
    eventually(lambda: discarded(org) - before >= 2, "the deliveries are discarded when the store is back")


# ------------------------------------------------------------------------------------------ handover


def with_key(org: Organization, declared: dict[str, Any]) -> str:
    """Apply the project and a key, and return the plaintext of the handover."""
    org.apply(manifest("Project", "billing"), declared)
    name = declared["metadata"]["name"]
    org.wait_for("hwkey", name, "True Usable")
    handed_over = org.secret(f"{name}-key")
    assert handed_over is not None
    return handed_over["key"]


def test_a_key_is_handed_over_once_and_only_its_digest_kept(org: Organization) -> None:
    """The Secret has a valid key, the status its id and digest, and an Event names the Secret."""
    plaintext = with_key(org, apikey("ci"))
    status = org.status("hwkey", "ci")
    assert key_id_of(plaintext) == status["keyId"]
    assert matches(plaintext, status["digest"])
    assert status["handover"]["state"] == "Delivered"
    (event,) = org.events("KeyHandedOver")
    assert event["involvedObject"]["name"] == "ci"
    assert "ci-key" in event["message"]


def test_neither_a_key_nor_a_signing_secret_is_anywhere_but_in_its_own_secret(org: Organization) -> None:
    """The secret is in no log, no metric, no other object, and no other Secret."""
    with receiving() as receiver:
        org.with_endpoint(endpoint("orders", receiver.url))
        plaintext = with_key(org, apikey("ci"))
        signing = (org.secret("orders-signing") or {})["secret"]
        org.send(delivered(1))
        eventually(lambda: receiver.received, "a delivery went out")
    elsewhere = {
        "the log": org.operator.log.read_text(),
        "the metrics": org.operator.metrics(),
        "our objects": json.dumps(org.objects("hookwright,events")),
    }
    for document in org.objects("secrets"):
        if document["metadata"]["name"] not in {"orders-signing", "ci-key"}:
            elsewhere[f"Secret {document['metadata']['name']}"] = json.dumps(document)
    for place, content in elsewhere.items():
        assert plaintext not in content, place
        assert plaintext.split("_")[2] not in content, place
        assert signing not in content, place
        assert signing.removeprefix("whsec_") not in content, place


def test_the_handover_secret_goes_at_its_time_and_the_key_stays(org: Organization) -> None:
    """The Secret is deleted at the time in it; id and digest stay, and the key stays valid."""
    with_key(org, apikey("ci", ttl="1m"))
    before = org.status("hwkey", "ci")
    org.patch("secret", "ci-key", {"metadata": {"annotations": {"hookwright.dev/remove-at": "2020-01-01T00:00:00Z"}}})
    eventually(lambda: org.get("secret", "ci-key") is None, "the Secret is gone")
    eventually(lambda: org.status("hwkey", "ci")["handover"]["state"] == "Removed", "the status shows it")
    after = org.status("hwkey", "ci")
    assert (after["keyId"], after["digest"]) == (before["keyId"], before["digest"])
    assert org.condition("hwkey", "ci") == "True Usable"
    assert org.events("HandoverSecretGone") == []


def test_a_key_expires_at_its_time_without_anybody_touching_it(org: Organization) -> None:
    """The condition changes by the clock alone."""
    expires_at = datetime.now(UTC) + timedelta(seconds=4)
    with_key(org, apikey("ci", expiresAt=format_timestamp(expires_at)))
    org.wait_for("hwkey", "ci", "False Expired")
    assert datetime.now(UTC) >= expires_at.replace(microsecond=0)


@pytest.mark.slow
def test_endpoints_expire_at_their_time(org: Organization) -> None:
    """They get no more events, and pending deliveries are discarded; those of `/v1` and the command line are deleted.

    A declared one stays, and a later time makes it work again.
    """
    soon = format_timestamp(datetime.now(UTC) + timedelta(seconds=6))
    endpoints = {name: endpoint(name, NOWHERE, suspend=True, expiresAt=soon) for name in ("held", "api", "cli")}
    for tool in ("api", "cli"):
        endpoints[tool]["metadata"]["labels"] = {"app.kubernetes.io/managed-by": f"hookwright-{tool}"}
    org.apply(manifest("Project", "billing"), *endpoints.values())
    for name in endpoints:
        org.wait_for("hwep", name, "True Suspended")
    before = discarded(org)
    assert org.send(delivered(1))["deliveries"] == 3
    org.wait_for("hwep", "held", "False Expired")
    eventually(
        lambda: (
            (counts := org.status("hwep", "held")["deliveries"]) and (counts["pending"], counts["discarded"]) == (0, 1)
        ),
        "the status shows the discarded delivery",
    )
    names = {"held", "held-signing"}
    eventually(
        lambda: {document["metadata"]["name"] for document in org.objects("hwep,secrets")} == names,
        "the tools' are gone",
    )
    assert discarded(org) - before >= 3
    assert org.send(delivered(2))["deliveries"] == 0
    assert len(org.events("Expired")) == 3
    with receiving() as receiver:
        org.apply(endpoint("held", receiver.url, expiresAt="2099-01-01T00:00:00Z"))
        org.wait_for("hwep", "held", "True Delivering")
        eventually(lambda: org.send(delivered(3))["deliveries"] == 1, "the endpoint subscribes again")
        eventually(lambda: receiver.received, "the delivery arrives")
    assert org.status("hwep", "held")["deliveries"]["discarded"] == 1


# ------------------------------------------------------------------------------------------- changes


@pytest.mark.parametrize(
    ("change", "wanted"),
    [({"suspend": True}, "True Suspended"), ({"events": ["bounced"]}, "True Delivering")],
)
def test_a_change_of_the_spec_is_acknowledged(org: Organization, change: dict[str, Any], wanted: str) -> None:
    """ObservedGeneration follows generation, and the condition follows the spec."""
    org.with_endpoint(endpoint("orders", NOWHERE))
    org.patch("hwep", "orders", {"spec": change})

    def acknowledged() -> bool:
        document = org.get("hwep", "orders") or {}
        return bool(document["status"]["observedGeneration"] == document["metadata"]["generation"] == 2)

    eventually(acknowledged, "the new generation is observed")
    assert org.condition("hwep", "orders") == wanted
