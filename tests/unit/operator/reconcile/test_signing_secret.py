"""The plan for a signing Secret: rotation with overlap, also twice in a row."""

import base64
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from support.reconcile_scenes import NOW, EndpointScene, after, endpoint, signing_secret

from hookwright_crds.conditions import find
from hookwright_crds.resources import WebhookEndpoint
from hookwright_operator.delivery.http.signatures import hex_signature, signature_headers
from hookwright_operator.reconcile.plan import EmitEvent, UpdateSecret
from hookwright_operator.reconcile.signing_secret import (
    ROTATION_ANNOTATION,
    plan_signing_secret,
    previous_until,
    rotation_of,
    signing_secrets,
)
from hookwright_operator.watch.objects import Secret


def made(number: int) -> str:
    """Return the number-th secret of a test."""
    return "whsec_" + base64.b64encode(bytes([number]) * 32).decode()


FIRST = signing_secret(fields={"secret": made(1)}, annotations={ROTATION_ANNOTATION: "0"})


def asking(rotation: int, *, overlap: str = "24h") -> WebhookEndpoint:
    """Return an endpoint that requests a rotation."""
    return endpoint(spec={"signing": {"rotation": rotation, "overlap": overlap}})


def rotated(secret: Secret, asked: WebhookEndpoint, now: datetime, new: int) -> Secret:
    """Return the Secret after the plan's actions."""
    for action in plan_signing_secret(asked, secret, (), now=now, new_secret=lambda: made(new)).actions:
        if isinstance(action, UpdateSecret):
            assert not set(action.removed_fields) & set(action.secret.fields)
            secret = replace(secret, fields=action.secret.fields, annotations=action.secret.annotations)
    return secret


def test_nothing_is_done_while_no_rotation_is_asked_for() -> None:
    """A correct Secret needs no action."""
    assert plan_signing_secret(asking(0), FIRST, (), now=NOW, new_secret=lambda: made(2)).actions == ()


def test_a_rotation_makes_a_new_secret_and_the_old_one_signs_beside_it() -> None:
    """An increase of spec.signing.rotation causes one rotation and one Event."""
    request = asking(1)
    plan = plan_signing_secret(request, FIRST, (), now=NOW, new_secret=lambda: made(2))
    second = rotated(FIRST, request, NOW, 2)
    assert signing_secrets(second, now=NOW) == [made(2), made(1)]
    assert plan.again_at == after(hours=24)
    assert [action.reason for action in plan.actions if isinstance(action, EmitEvent)] == ["SigningSecretRotated"]
    assert plan_signing_secret(request, second, (), now=after(minutes=1), new_secret=lambda: made(9)).actions == ()


def test_the_old_secret_stops_signing_when_its_overlap_ends() -> None:
    """Signing stops exactly at the end of the overlap, and the next plan removes the field."""
    request = asking(1, overlap="1h")
    second = rotated(FIRST, request, NOW, 2)
    assert signing_secrets(second, now=after(minutes=59)) == [made(2), made(1)]
    assert signing_secrets(second, now=after(hours=1)) == [made(2)]
    assert dict(rotated(second, request, after(hours=1), 9).fields) == {"secret": made(2)}


def test_a_second_rotation_does_not_cut_the_first_ones_overlap_short() -> None:
    """After two rotations three secrets sign, and each old one ends at its own time."""
    second = rotated(FIRST, asking(1, overlap="2h"), NOW, 2)
    third = rotated(second, asking(2, overlap="2h"), after(hours=1), 3)
    assert signing_secrets(third, now=after(hours=1)) == [made(3), made(2), made(1)]
    assert signing_secrets(third, now=after(hours=2)) == [made(3), made(2)]
    assert signing_secrets(third, now=after(hours=3)) == [made(3)]


def test_x_service_signature_follows_each_secret_to_its_end() -> None:
    """The header has one value. A receiver gets the next secret before the header changes, also after two rotations."""
    second = rotated(FIRST, asking(1, overlap="2h"), NOW, 2)
    third = rotated(second, asking(2, overlap="2h"), after(hours=1), 3)
    for secret, hours, signer in ((second, 0, 1), (third, 1, 1), (third, 2, 2), (third, 3, 3)):
        headers = signature_headers(signing_secrets(secret, now=after(hours=hours)), "msg_1", 1, b"{}")
        assert headers["X-Service-Signature"] == hex_signature(made(signer), b"{}")


def test_an_overlap_of_nothing_ends_the_secrets_of_earlier_rotations_too() -> None:
    """A leaked secret signs no header, whether it was replaced before or with the change to 0s."""
    second = rotated(FIRST, asking(1, overlap="24h"), NOW, 2)
    for rotation, current in ((1, 2), (2, 3)):
        assert dict(rotated(second, asking(rotation, overlap="0s"), after(hours=1), 3).fields) == {
            "secret": made(current)
        }


def test_no_more_than_three_old_secrets_are_kept() -> None:
    """The oldest secret is dropped, so that headers stay bounded."""
    secret = FIRST
    for number in range(2, 8):
        secret = rotated(secret, asking(number), after(minutes=number), number)
    assert signing_secrets(secret, now=after(minutes=9)) == [made(7), made(6), made(5), made(4)]


def test_an_overlap_of_nothing_ends_the_old_secret_at_once() -> None:
    """An overlap of 0s, as after a leak, ends the old secret immediately."""
    second = rotated(FIRST, asking(1, overlap="0s"), NOW, 2)
    assert dict(second.fields) == {"secret": made(2)}


def test_a_secret_without_the_annotation_is_kept() -> None:
    """A Secret that was restored without annotations counts as created for the present number."""
    old = signing_secret(fields={"secret": made(1)})
    assert plan_signing_secret(asking(3), old, (), now=NOW, new_secret=lambda: made(2)).actions == ()


def test_a_field_that_is_no_secret_never_signs() -> None:
    """A manual value in `previous` signs only if it is a signing secret."""
    secret = replace(FIRST, fields={"secret": made(1), "previous": "oops", "other": made(4)})
    assert signing_secrets(secret, now=NOW + timedelta(days=400)) == [made(1)]


def test_the_delay_until_a_missing_secret_is_looked_for_grows_up_to_a_minute() -> None:
    """Many endpoints whose Secrets do not exist must not make many requests; a new one waits for 10 seconds."""
    scene = EndpointScene(endpoint=endpoint(spec={"signing": {"secretRef": {"name": "vault"}}}))
    assert scene.plan().again_at == after(seconds=10)
    scene = scene.settled()
    delays = [(5, 10), (30, 30), (90, 60), (86_400, 60)]
    for missing_for, expected in delays:
        now = after(seconds=missing_for)
        assert scene.plan(now).again_at == now + timedelta(seconds=expected)


def test_the_newest_secret_of_a_tenant_makes_the_service_signature() -> None:
    """The overlap of the tenant's secrets has no known end; that of the operator's own secrets has one."""
    theirs = Secret("acme", "vault", fields={"secret": made(1), "previous": made(2)})
    scene = EndpointScene(endpoint=endpoint(spec={"signing": {"secretRef": {"name": "vault"}}}), secret=theirs)
    snapshot, scene_after = scene.settled().registered, EndpointScene().settled().registered
    assert snapshot is not None
    assert scene_after is not None
    assert (snapshot.secrets, snapshot.newest_signs, scene_after.newest_signs) == ((made(1), made(2)), True, False)


@pytest.mark.parametrize(
    ("fields", "secrets", "reason"),
    [
        ({"secret": "s3cr3t of old", "previous": "x" * 512}, ("s3cr3t of old", "x" * 512), "Delivering"),
        ({"secret": "x" * 513}, (), "SigningSecretInvalid"),
        ({"secret": "a\tb"}, (), "SigningSecretInvalid"),
        ({}, (), "SigningSecretInvalid"),
    ],
)
def test_the_secret_of_another_sender_signs_as_it_is(
    fields: dict[str, str], secrets: tuple[str, ...], reason: str
) -> None:
    """The condition says which texts are accepted, and which label the Secret needs."""
    reference = {"name": "vault", "encoding": "raw"}
    theirs = Secret("acme", "vault", fields=fields, uid="uid-vault")
    scene = EndpointScene(endpoint=endpoint(spec={"signing": {"secretRef": reference}}), secret=theirs).settled()
    assert scene.registered is not None
    assert scene.registered.secrets == secrets
    ready = find(scene.endpoint.status.conditions, "Ready")
    assert ready is not None
    assert ready.reason == reason
    assert secrets or 'the label hookwright.dev/signing-secret: "true"' in ready.message


@pytest.mark.parametrize(
    ("annotation", "rotation"), [("3", 3), ("0", 0), ("", 0), ("x", 0), ("-1", 0), ("9" * 5000, 0)]
)
def test_the_rotation_of_a_secret_is_that_of_its_annotation(annotation: str, rotation: int) -> None:
    """A caller of a rotation waits for its number; a tenant who edits the annotation breaks only its own rotation."""
    secret = Secret("acme", "orders-signing", fields={}, annotations={"hookwright.dev/rotation": annotation})
    assert rotation_of(secret) == rotation


def test_the_end_of_the_overlaps_is_the_last_one() -> None:
    """A shorter overlap of a later rotation does not hide an earlier one; without a replaced secret there is no end."""
    until = {"hookwright.dev/previous-until": '{"previous": "2030-01-02T00:00:00Z"}'}
    fields = {"secret": "a", "previous": "b"}
    secret = Secret("acme", "orders-signing", fields=fields, annotations=until)
    assert str(previous_until(secret)) == "2030-01-02 00:00:00+00:00"
    longer = {
        "hookwright.dev/previous-until": '{"previous": "2030-01-02T00:00:00Z", "previous-2": "2031-01-01T00:00:00Z"}'
    }
    replicas = replace(secret, fields={**fields, "previous-2": "c"}, annotations=longer)
    assert str(previous_until(replicas)) == "2031-01-01 00:00:00+00:00"
    assert previous_until(Secret("acme", "orders-signing", fields={"secret": "a"}, annotations=until)) is None
