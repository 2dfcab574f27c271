"""The promises of an endpoint's plan about `spec.expiresAt`."""

from dataclasses import replace

import pytest
from support.reconcile_scenes import (
    NOW,
    EndpointScene,
    after,
    endpoint,
    in_words,
    signing_secret,
    status_of,
    steady_endpoint,
    with_metadata,
    writes,
)
from support.reconcile_stage import Stage
from unit.operator.watch.test_cache import ORDERS

from hookwright_crds.base import MADE_BY_API, MANAGED_BY
from hookwright_crds.reading import Unsupported
from hookwright_crds.resources import DeliveryCounts
from hookwright_operator.reconcile.endpoint import PROTECTION_ANNOTATION
from hookwright_operator.reconcile.plan import DeleteEndpoint, Register
from hookwright_operator.reconcile.signing_secret import RECHECK
from hookwright_operator.registry import Health
from hookwright_runtime.errors import KubeError, WriteRefused

OVER = after(minutes=30)
"""The time at which the endpoints of these tests expire."""
DECLARED = steady_endpoint(expiresAt="2030-01-01T12:30:00Z")
TEMPORARY = with_metadata(DECLARED, labels=MADE_BY_API, owner_references=())
EMPTY = Health(DeliveryCounts())
PENDING = Health(DeliveryCounts(pending=3))
EXPIRED = "status: Ready=False Expired, Stalled=True Expired, Reachable=Unknown NotTried"
ENDED = ["register: blocked by Expired", "discard, and insist", EXPIRED, "Warning Event Expired"]


@pytest.fixture
def stage() -> Stage:
    """Return a stage with a project only, in a replica that leads."""
    return Stage()


def test_a_plan_looks_again_when_the_endpoint_expires() -> None:
    """Nothing in the cluster changes at that time. An earlier reason to look again stays."""
    assert DECLARED.plan().again_at == OVER
    assert replace(DECLARED, parent=None).plan().again_at == OVER
    conflict = replace(DECLARED, secret=signing_secret(foreign=True))
    assert conflict.plan().again_at == NOW + RECHECK


@pytest.mark.parametrize(
    "scene",
    [
        DECLARED,
        replace(DECLARED, parent=None),
        with_metadata(DECLARED, labels={MANAGED_BY: "Helm"}),
        replace(DECLARED, secret=None),
    ],
    ids=["declared", "without a project", "of Helm", "without a Secret"],
)
def test_a_declared_endpoint_ends_and_stays(scene: EndpointScene) -> None:
    """GitOps would create it again. It gets no event, it signs nothing, and no Secret is made for it."""
    assert in_words(scene.plan(OVER)) == ENDED
    result_scene = scene.settled(OVER)
    assert result_scene.registered is not None
    assert (result_scene.registered.events, result_scene.registered.expired) == (frozenset(), True)
    assert writes(result_scene.plan(OVER)) == []
    assert result_scene.plan(OVER).again_at is None


def test_a_delivery_that_is_late_for_the_end_is_discarded_too() -> None:
    """Its acceptance may have begun before; the counts show it, and the plan discards once more."""
    result_scene = DECLARED.settled(OVER)
    late = replace(result_scene, health=PENDING)
    assert in_words(late.plan(OVER))[:2] == ENDED[:2]
    assert "discard, and insist" in in_words(late.settled(OVER).plan(OVER))
    counted_scene = replace(late.settled(OVER), health=Health(DeliveryCounts(discarded=3))).settled(OVER)
    assert writes(counted_scene.plan(OVER)) == []


def test_a_later_time_makes_a_declared_endpoint_ready_again() -> None:
    """It keeps its Secret and gets events again."""
    outcome = DECLARED.settled(OVER)
    spec = outcome.endpoint.spec.model_copy(update={"expires_at": after(days=1)})
    extended_scene = replace(outcome, endpoint=outcome.endpoint.model_copy(update={"spec": spec}))
    assert in_words(extended_scene.plan(OVER)) == [
        "register: sends",
        "status: Ready=True Delivering, Reachable=Unknown NotTried",
    ]
    snapshot = extended_scene.settled(OVER).registered
    assert snapshot is not None
    assert snapshot.events == {"delivered"}


@pytest.mark.parametrize("tool", ["hookwright-api", "hookwright-cli"])
def test_an_endpoint_of_our_tools_is_deleted(tool: str) -> None:
    """The deletion names the state that was read, so that a client that extends the time at the same moment wins."""
    scene = with_metadata(TEMPORARY, labels={MANAGED_BY: tool})
    assert in_words(scene.plan(OVER)) == ["register: blocked by Expired", "DeleteEndpoint", "Normal Event Expired"]
    _, deletion, _ = scene.plan(OVER).actions
    assert isinstance(deletion, DeleteEndpoint)
    assert (deletion.uid, deletion.resource_version) == ("uid-orders", "10")
    assert in_words(scene.settled(OVER).plan()) == [
        "Unregister",
        "discard, and insist",
        "remove finalizer, keep []",
    ]


def test_a_deletion_that_is_refused_leaves_an_expired_endpoint() -> None:
    """The deletion protection refuses it while deliveries are pending; they are discarded, and the message says why."""
    refusal = replace(TEMPORARY, refused_write="it is protected")
    assert in_words(refusal.plan(OVER)) == ENDED
    assert "it is protected" in status_of(refusal.plan(OVER))["conditions"][0]["message"]


@pytest.mark.parametrize("scene", [DECLARED, TEMPORARY], ids=["declared", "of a tool"])
def test_a_protected_endpoint_keeps_its_pending_deliveries(scene: EndpointScene) -> None:
    """The annotation promises that none is discarded. Without it they are, and the object of a tool is deleted."""
    protected_scene = replace(with_metadata(scene, annotations={PROTECTION_ANNOTATION: "true"}), health=PENDING)
    assert in_words(protected_scene.plan(OVER)) == ["register: blocked by Expired", EXPIRED, "Warning Event Expired"]
    assert "remove the annotation to discard them" in status_of(protected_scene.plan(OVER))["conditions"][0]["message"]
    result_scene = protected_scene.settled(OVER)
    assert writes(result_scene.plan(OVER)) == []
    released_scene = with_metadata(result_scene, annotations={})
    assert {"discard, and insist", "DeleteEndpoint"} & set(in_words(released_scene.plan(OVER)))


@pytest.mark.parametrize("health", [None, EMPTY], ids=["no counts", "counts from before"])
def test_a_protected_endpoint_of_a_tool_is_deleted_by_counts_from_after_its_end(health: Health | None) -> None:
    """Events may have been accepted since earlier counts. The protection is for deliveries, as the API server's is."""
    protected_scene = replace(with_metadata(TEMPORARY, annotations={PROTECTION_ANNOTATION: "true"}), health=health)
    plan = protected_scene.plan(OVER)
    assert (in_words(plan)[0], plan.counts_needed) == ("register: blocked by Expired", True)
    assert "DeleteEndpoint" not in in_words(plan)
    result_scene = protected_scene.settled(OVER)
    assert (writes(result_scene.plan(OVER)), result_scene.plan(OVER).counts_needed) == ([], True)
    assert "DeleteEndpoint" not in in_words(replace(result_scene, health=PENDING).plan(OVER))
    assert not replace(result_scene, health=PENDING).plan(OVER).counts_needed
    deletion = replace(result_scene, health=EMPTY).plan(OVER)
    assert "DeleteEndpoint" in in_words(deletion)
    assert PROTECTION_ANNOTATION not in str(deletion)


async def test_the_counts_of_a_protected_endpoint_are_read_soon_after_its_end(stage: Stage) -> None:
    """They decide whether the operator deletes it."""
    await stage.ready()
    await stage.counted()
    stage.store.counted.clear()
    annotations = {PROTECTION_ANNOTATION: "true"}
    stage.sees(2000, expires_at="2020-01-01T00:00:00Z", labels=dict(MADE_BY_API), annotations=annotations)
    await stage.reconciler.reconcile(ORDERS)
    assert await stage.counted() == ["uid-orders"]
    view = stage.server.endpoint
    stage.cache.see("WebhookEndpoint", {**view, "metadata": {**view["metadata"], "resourceVersion": "3000"}})
    await stage.reconciler.reconcile(ORDERS)
    assert "DELETE" in {method for method, _, _ in stage.server.asked}
    assert stage.store.discarded == []


def test_a_spec_that_is_not_understood_does_not_expire() -> None:
    """A newer version may mean something else by it."""
    strange = replace(TEMPORARY, unsupported_parts=Unsupported(faults=("spec.expiresAt (is new)",)))
    assert "DeleteEndpoint" not in in_words(strange.plan(OVER))


def test_a_new_endpoint_that_has_expired_before_gets_no_secret() -> None:
    """It is reported, and nothing is made for it."""
    manifest = endpoint(spec={"expiresAt": "2020-01-01T00:00:00Z"})
    scene = EndpointScene(endpoint=manifest)
    assert in_words(scene.plan(NOW)) == ENDED
    assert "signingSecretRef" not in status_of(scene.plan(NOW))
    (snapshot,) = [action.endpoint for action in scene.plan(NOW).actions if isinstance(action, Register)]
    assert not snapshot.sendable


async def test_the_counts_of_an_expired_endpoint_are_published_after_the_discard(stage: Stage) -> None:
    """The discard keeps the endpoint's counters, and the status shows the new counts."""
    await stage.ready()
    await stage.counted()
    stage.store.counted.clear()
    stage.sees(2000, expires_at="2020-01-01T00:00:00Z")
    await stage.reconciler.reconcile(ORDERS)
    assert stage.store.discarded == ["uid-orders"]
    snapshot = stage.registry.get("uid-orders")
    assert snapshot is not None
    assert snapshot.expired
    assert "uid-orders" in await stage.counted()


async def test_a_refused_deletion_is_tried_again(stage: Stage) -> None:
    """The status shows the refusal, and the work queue repeats the key."""
    await stage.ready()
    stage.sees(2000, expires_at="2020-01-01T00:00:00Z", labels=dict(MADE_BY_API))
    stage.server.refuse = lambda method, _: (
        KubeError("denied", status=403, explanation="it is protected") if method == "DELETE" else None
    )
    with pytest.raises(WriteRefused):
        await stage.reconciler.reconcile(ORDERS)
    assert stage.store.discarded == ["uid-orders"]
    stage.server.refuse = lambda _, __: None
    await stage.reconciler.reconcile(ORDERS)
    first, second = [body for method, _, body in stage.server.asked if method == "DELETE"]
    for deletion in (first, second):
        assert deletion["preconditions"]["uid"] == "uid-orders"
        assert deletion["preconditions"]["resourceVersion"]
