"""Reconciling in a replica that is not the leader: it updates its registry and writes nothing to the cluster."""

import base64

import pytest
from support.reconcile_stage import DELETED_AT, Stage
from unit.operator.watch.test_cache import ORDERS, PROJECT, endpoint, secret

from hookwright_crds.base import MADE_BY_API
from hookwright_crds.resources import DeliveryCounts
from hookwright_operator.leader.election import Leadership
from hookwright_operator.reconcile.plan import FINALIZER
from hookwright_operator.registry import Health

FIRST = "whsec_" + base64.b64encode(b"1" * 32).decode()
SECOND = "whsec_" + base64.b64encode(b"2" * 32).decode()


@pytest.fixture
def stage() -> Stage:
    """Return a stage with a project, in a replica that does not lead."""
    return Stage(Leadership())


def shows_secret(stage: Stage, version: int, text: str) -> None:
    """Let the watch show a signing Secret."""
    stage.cache.see_secret({**secret(version), "data": {"secret": base64.b64encode(text.encode()).decode()}})


def known_secrets(stage: Stage) -> tuple[str, ...] | None:
    """Return the secrets that sign an attempt, None if the endpoint is unknown."""
    snapshot = stage.registry.get("uid-orders")
    return snapshot.secrets if snapshot else None


async def test_a_project_takes_events_and_nothing_is_asked(stage: Stage) -> None:
    """A follower knows the same projects as the leader."""
    await stage.reconciler.reconcile(PROJECT)
    assert stage.registry.project("acme", "billing")
    assert stage.server.asked == []


async def test_an_endpoint_is_known_before_its_secret_is_made_and_signs_with_no_other(stage: Stage) -> None:
    """The endpoint gets its events, and no delivery is sent until the watch shows the leader's Secret."""
    stage.cache.see("WebhookEndpoint", endpoint(1))
    await stage.reconciler.reconcile(ORDERS)
    assert known_secrets(stage) == ()
    shows_secret(stage, 5, FIRST)
    stage.sees(6)
    await stage.reconciler.reconcile(ORDERS)
    assert known_secrets(stage) == (FIRST,)
    assert stage.server.asked == []


async def test_a_rotation_is_the_leaders_and_its_result_is_taken_over(stage: Stage) -> None:
    """The old secret signs until the new one is in the cluster."""
    stage.sees(1)
    shows_secret(stage, 2, FIRST)
    await stage.reconciler.reconcile(ORDERS)
    asking = endpoint(3, finalizers=[FINALIZER])
    stage.cache.see("WebhookEndpoint", asking | {"spec": {**asking["spec"], "signing": {"rotation": 1}}})
    await stage.reconciler.reconcile(ORDERS)
    assert known_secrets(stage) == (FIRST,)
    shows_secret(stage, 4, SECOND)
    await stage.reconciler.reconcile(ORDERS)
    assert known_secrets(stage) == (SECOND,)
    assert stage.server.asked == []


async def test_a_secret_that_vanished_is_not_looked_for(stage: Stage) -> None:
    """The leader reads and repairs it; until then deliveries stay pending."""
    stage.sees(1)
    shows_secret(stage, 2, FIRST)
    await stage.reconciler.reconcile(ORDERS)
    stage.cache.lose_secret(secret(3))
    stage.cache.see("WebhookEndpoint", endpoint(4, finalizers=[FINALIZER]) | {
        "status": {"signingSecretRef": {"name": "orders-signing", "key": "secret"}}
    })  # fmt: skip
    await stage.reconciler.reconcile(ORDERS)
    assert known_secrets(stage) == ()
    assert stage.server.asked == []


async def test_a_deletion_is_followed_and_the_finalizer_left_to_the_leader(stage: Stage) -> None:
    """Nothing more is sent, and deliveries accepted before are discarded after the object is gone."""
    stage.sees(1)
    shows_secret(stage, 2, FIRST)
    await stage.reconciler.reconcile(ORDERS)
    stage.sees(3, deletionTimestamp=DELETED_AT)
    await stage.reconciler.reconcile(ORDERS)
    assert known_secrets(stage) is None
    assert stage.store.discarded == []
    stage.cache.lose("WebhookEndpoint", endpoint(4))
    await stage.reconciler.reconcile(ORDERS)
    assert stage.store.discarded == ["uid-orders"]
    assert stage.server.asked == []


async def test_what_was_to_be_published_when_the_lead_was_lost_is_not_kept(stage: Stage) -> None:
    """The next leader compares counts; this replica must not write old ones when it leads again."""
    stage.sees(1)
    await stage.reconciler.reconcile(ORDERS)
    snapshot = stage.registry.get("uid-orders")
    assert snapshot is not None
    stage.unpublished_health.publish(snapshot, Health(DeliveryCounts(delivered=1)))
    await stage.reconciler.reconcile(ORDERS)
    assert stage.unpublished_health.health("uid-orders") is None
    assert await stage.counted() == []


async def test_a_leader_that_has_rivals_writes_only_over_what_it_knows() -> None:
    """A status or metadata that another client has written since is not overwritten, even after a pause."""
    stage = Stage(check_resource_version=True)
    stage.sees(7, labels=MADE_BY_API)
    await stage.reconciler.reconcile(ORDERS)
    patches = [body for method, path, body in stage.server.asked if method == "PATCH" and "webhookendpoints" in path]
    versions = [int(body["metadata"]["resourceVersion"]) for body in patches]
    assert versions[0] == 7
    assert len(versions) == 2
    assert versions[1] > 1000, "what its own first write made of it"
