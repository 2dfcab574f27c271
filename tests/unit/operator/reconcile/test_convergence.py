"""Level-based: from any state, and from a crash at any point, plans lead to the same end and then stop."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from support.reconcile_scenes import (
    BILLING,
    KEY,
    NOW,
    OTHER_SECRET,
    SIGNING_SECRET,
    ApiKeyScene,
    EndpointScene,
    after,
    handover_secret,
    owned_by,
    signing_secret,
    steady_apikey,
    steady_endpoint,
    with_key_metadata,
    with_metadata,
    without_key_status,
    without_status,
    writes,
)

from hookwright_crds.base import MADE_BY_API
from hookwright_crds.resources import DeliveryCounts
from hookwright_operator.reconcile.plan import FINALIZER, CreateSecret, DeleteSecret
from hookwright_operator.registry import Health
from hookwright_operator.watch.objects import Parent, Secret, ours

PARENTS = st.sampled_from([None, BILLING, Parent("billing", "uid-billing-2")])
REFERENCES = st.sampled_from([(), owned_by(BILLING), owned_by(Parent("billing", "uid-billing-0"))])
LABELS = st.sampled_from([{}, ours("uid-orders"), ours("uid-ci"), {"app.kubernetes.io/managed-by": "somebody"}])
EXPIRIES = st.sampled_from([None, "2030-01-01T12:10:00Z", "2030-01-01T14:00:00Z"])
TIMES = st.integers(0, 7200).map(lambda seconds: NOW + timedelta(seconds=seconds))


@st.composite
def secrets(draw: st.DrawFn, made: Secret, field: str) -> Secret | None:
    """Return a Secret in any state: deleted, foreign, changed, or without the operator's metadata."""
    changes: dict[str, Any] = {}
    if draw(st.booleans()):
        changes["labels"] = draw(LABELS)
    if draw(st.booleans()):
        changes["owner_references"] = ()
    if draw(st.booleans()):
        changes["fields"] = draw(st.sampled_from([{}, {field: "tampered"}]))
    return draw(st.sampled_from([None, made, replace(made, **changes), replace(made, foreign=True, fields={})]))


@st.composite
def endpoints(draw: st.DrawFn) -> EndpointScene:
    """Return an endpoint in any state that users and crashes can cause."""
    expires_at = draw(EXPIRIES)
    scene = steady_endpoint(
        suspend=draw(st.booleans()),
        url=draw(st.sampled_from(["http://a/", "https://a/"])),
        **({"expiresAt": expires_at} if expires_at else {}),
    )
    if draw(st.booleans()):
        scene = without_status(scene)
    counts = DeliveryCounts(delivered=1, last_attempt_time=NOW, last_status_code=draw(st.sampled_from([0, 200, 500])))
    return replace(
        with_metadata(
            scene,
            owner_references=draw(REFERENCES),
            labels=draw(st.sampled_from([{}, MADE_BY_API])),
            finalizers=draw(st.sampled_from([(), (FINALIZER,), ("other/one",), ("other/one", FINALIZER)])),
            generation=draw(st.integers(1, 3)),
        ),
        parent=draw(PARENTS),
        secret=draw(secrets(signing_secret(), "secret")),
        health=draw(st.sampled_from([None, Health(counts), Health(counts, "500", 2)])),
        allow_http=draw(st.booleans()),
        refused_address=draw(st.sampled_from(["", "10.0.0.1 is a private address"])),
        kept_secrets=draw(st.sampled_from([(), (SIGNING_SECRET,), (SIGNING_SECRET, OTHER_SECRET)])),
    )


@st.composite
def keys(draw: st.DrawFn) -> ApiKeyScene:
    """Return a key in any state that users and crashes can cause."""
    expires_at = draw(EXPIRIES)
    scene = steady_apikey(**({"expiresAt": expires_at} if expires_at else {}))
    if draw(st.booleans()):
        scene = without_key_status(scene)
    if draw(st.booleans()):
        scene = with_key_metadata(scene, annotations={})
    return replace(
        with_key_metadata(scene, owner_references=draw(REFERENCES), labels=draw(st.sampled_from([{}, MADE_BY_API]))),
        parent=draw(PARENTS),
        secret=draw(secrets(handover_secret(), "key")),
    )


@given(endpoints(), TIMES)
def test_an_endpoint_s_second_plan_writes_nothing(scene: EndpointScene, now: datetime) -> None:
    """One plan repairs every state; an endpoint that it deletes is not repaired."""
    result_scene = scene.settled(now)
    if result_scene.endpoint.metadata.deletion_timestamp is None:
        assert writes(result_scene.plan(now)) == []


@given(keys(), TIMES)
def test_a_key_s_second_plan_writes_nothing(scene: ApiKeyScene, now: datetime) -> None:
    """One plan repairs every state."""
    assert writes(scene.settled(now).plan(now)) == []


@given(endpoints(), TIMES, st.integers(0, 6))
def test_a_crash_within_an_endpoint_s_plan_changes_nothing_about_the_end(
    scene: EndpointScene, now: datetime, done: int
) -> None:
    """The plan after a restart completes the interrupted plan; at most the warnings differ."""
    crashed_scene = scene.after(scene.plan(now).actions[:done])
    recovered_scene = crashed_scene.settled(now)
    straight = scene.settled(now)
    assume(straight.endpoint.metadata.deletion_timestamp is None)
    assert recovered_scene.endpoint == straight.endpoint
    assert recovered_scene.secret == straight.secret
    assert recovered_scene.registered == straight.registered


@given(keys(), TIMES, st.integers(0, 6))
def test_a_crash_within_a_key_s_plan_changes_nothing_about_the_end(
    scene: ApiKeyScene, now: datetime, done: int
) -> None:
    """No second key is created, and the status shows the same key.

    Only the removal time may be lost, if the Secret is deleted and the status was lost before.
    """
    recovered_scene = scene.after(scene.plan(now).actions[:done]).settled(now)
    straight = scene.settled(now)
    assert recovered_scene.key.metadata == straight.key.metadata
    assert _told(recovered_scene) == _told(straight)
    assert recovered_scene.secret == straight.secret
    assert recovered_scene.minted == straight.minted


def _told(scene: ApiKeyScene) -> tuple[object, ...]:
    status = scene.key.status
    return status.key_id, status.digest, status.handover and status.handover.state, status.conditions


@given(endpoints(), TIMES)
def test_a_signing_secret_that_is_there_is_never_replaced(scene: EndpointScene, now: datetime) -> None:
    """The repair of labels, owners or a status never creates a new secret, because receivers use the old one."""
    replacing = [action for action in scene.plan(now).actions if isinstance(action, CreateSecret | DeleteSecret)]
    assert replacing == [] or (scene.secret is None and scene.parent is not None)
    assert len(replacing) <= 1


@given(keys(), TIMES)
def test_what_a_key_is_never_changes(scene: ApiKeyScene, now: datetime) -> None:
    """A key keeps its identity as long as the status or annotations have it."""
    remembered = scene.key.status.digest or scene.key.metadata.annotations.get("hookwright.dev/digest")
    result_scene = scene.settled(now)
    if remembered is not None:
        assert result_scene.key.status.digest == remembered or result_scene.parent is None
        assert result_scene.minted == scene.minted
    elif result_scene.key.status.digest is not None:
        assert result_scene.key.status.digest == (result_scene.minted[-1] if result_scene.minted else KEY).digest


@given(keys(), TIMES)
def test_no_plaintext_outlives_its_time(scene: ApiKeyScene, now: datetime) -> None:
    """After the handover's time, no Secret of the operator contains the key, expired or not."""
    much_later = scene.settled(now).settled(after(days=1))
    remainder = much_later.secret
    if remainder is not None and not remainder.foreign and much_later.parent is not None:
        assert KEY.plaintext not in remainder.fields.values()


@given(endpoints(), TIMES)
def test_an_endpoint_that_sends_and_has_had_deliveries_has_the_finalizer(scene: EndpointScene, now: datetime) -> None:
    """In every plan, the finalizer delays the deletion of an endpoint that may have pending deliveries."""
    result_scene = scene.settled(now)
    assert result_scene.registered is not None
    if result_scene.registered.sendable and result_scene.endpoint.status.deliveries != DeliveryCounts():
        assert FINALIZER in result_scene.endpoint.metadata.finalizers


@given(endpoints(), TIMES, st.integers(0, 60))
def test_a_deleted_endpoint_always_goes(scene: EndpointScene, now: datetime, seconds: int) -> None:
    """In every state, the plan removes Hookwright's finalizer and keeps those of others."""
    deleted_scene = with_metadata(scene, deletion_timestamp=now - timedelta(seconds=seconds))
    before = deleted_scene.endpoint.metadata.finalizers
    remainder = deleted_scene.settled(now).endpoint.metadata.finalizers
    assert remainder == tuple(name for name in before if name != FINALIZER)
