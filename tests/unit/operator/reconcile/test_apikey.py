"""The promises of an ApiKey's plan."""

from dataclasses import replace

import pytest
from support.reconcile_scenes import (
    BILLING,
    KEY,
    NOW,
    SECOND_KEY,
    THIRD_KEY,
    ApiKeyScene,
    after,
    apikey,
    handover_secret,
    in_words,
    owned_by,
    signing_secret,
    status_of,
    steady_apikey,
    with_key_metadata,
    without_key_status,
    writes,
)

from hookwright_crds.base import MADE_BY_API
from hookwright_crds.keys import digest
from hookwright_crds.reading import Unsupported
from hookwright_crds.resources import ApiKey, HandoverState, HandoverStatus, PreviousKey
from hookwright_operator.reconcile.apikey import DIGEST_ANNOTATION, KEY_ID_ANNOTATION, REMOVE_AT_ANNOTATION
from hookwright_operator.reconcile.key_rotation import UNTIL_ANNOTATION
from hookwright_operator.reconcile.plan import ApplyMetadata, CreateSecret, DeleteSecret, RestoreSecret
from hookwright_operator.reconcile.signing_secret import RECHECK

DECLARED_DIGEST = "sha256:" + "ab" * 32
NEW = ApiKeyScene()


def rotated(scene: ApiKeyScene, rotation: int = 1, **spec: object) -> ApiKeyScene:
    """Return the scene with a higher rotation in the spec."""
    change = scene.key.spec.model_copy(update={"rotation": rotation, **spec})
    return replace(scene, key=scene.key.model_copy(update={"spec": change}))


STEADY = steady_apikey()
TTL_OVER = after(hours=1)
REMOVED = STEADY.settled(TTL_OVER)


def declared(**spec: object) -> ApiKeyScene:
    """Return a key whose digest was created elsewhere."""
    return ApiKeyScene(
        key=ApiKey.model_validate(
            {
                "metadata": apikey().metadata,
                "spec": {"projectRef": {"name": "billing"}, "digest": DECLARED_DIGEST, **spec},
            }
        )
    )


def fault(reason: str, second: str = "Stalled") -> tuple[str, str]:
    """Return the actions that report why a key is not ready."""
    return f"status: Ready=False {reason}, {second}=True {reason}", f"Warning Event {reason}"


USABLE = "status: Ready=True Usable"
EXPIRED, CONFLICT, DUPLICATE, UNSUPPORTED = (
    fault("Expired"),
    fault("SecretConflict"),
    fault("DuplicateDigest"),
    fault("UnsupportedSpec"),
)
ORPHAN, REFUSED = fault("ProjectNotFound", "Reconciling"), fault("WriteRefused", "Reconciling")
STRANGE = Unsupported(faults=("spec.handover (must be an object)",))
FORGED = {KEY_ID_ANNOTATION: "k7q", DIGEST_ANNOTATION: DECLARED_DIGEST}
OVER = {REMOVE_AT_ANNOTATION: "2030-01-01T11:00:00Z"}
FOREIGN = handover_secret(foreign=True, fields={})

CASES: dict[str, tuple[ApiKeyScene, list[str]]] = {
    "a new key is handed over before anything tells of it": (
        NEW,
        ["CreateSecret", "Normal Event KeyHandedOver", "ApplyMetadata", USABLE],
    ),
    "a key that was handed over is left alone": (STEADY, []),
    "a key whose handover is over is left alone": (REMOVED, []),
    "a key without its project says so, and no key is made": (replace(NEW, parent=None), [*ORPHAN]),
    "a key whose project appeared is handed over": (
        replace(replace(NEW, parent=None).settled(), parent=BILLING),
        ["CreateSecret", "Normal Event KeyHandedOver", "ApplyMetadata", USABLE],
    ),
    "a key whose project went is not ready any more": (replace(STEADY, parent=None), [*ORPHAN]),
    "a crash after the Secret was made: that key is taken up, no second one is made": (
        replace(NEW, secret=handover_secret()),
        ["ApplyMetadata", USABLE],
    ),
    "a crash before the status: it is told from the annotations": (
        without_key_status(STEADY),
        [USABLE],
    ),
    "a lost status and lost annotations are told from the Secret": (
        with_key_metadata(without_key_status(STEADY), annotations={}),
        ["ApplyMetadata", USABLE],
    ),
    "lost annotations are restored from the status": (
        with_key_metadata(REMOVED, annotations={}),
        ["ApplyMetadata"],
    ),
    "a status lost after the handover is told from the annotations": (
        without_key_status(REMOVED),
        [USABLE],
    ),
    "a handover Secret that went before its time is reported": (
        replace(STEADY, secret=None),
        ["Warning Event HandoverSecretGone", USABLE],
    ),
    "a handover Secret without labels gets them back": (
        replace(STEADY, secret=handover_secret(labels={}, owner_uid="")),
        ["RestoreSecret"],
    ),
    "a handover Secret without ownerReference gets it back": (
        replace(STEADY, secret=handover_secret(owner_references=())),
        ["RestoreSecret"],
    ),
    "a key that only its Secret tells of is written down before the Secret goes": (
        replace(NEW, secret=handover_secret(annotations=OVER)),
        ["ApplyMetadata", "DeleteSecret", USABLE],
    ),
    "the ownerReference of a key that people declare is removed": (
        with_key_metadata(STEADY, owner_references=owned_by(BILLING)),
        ["ApplyMetadata"],
    ),
    "a key that /v1 created is owned by its project": (
        with_key_metadata(declared().settled(), labels=MADE_BY_API),
        ["ApplyMetadata"],
    ),
    "the handover Secret of a key whose project went is removed at its time": (
        replace(
            STEADY, parent=None, secret=handover_secret(annotations={REMOVE_AT_ANNOTATION: "2030-01-01T11:00:00Z"})
        ),
        ["DeleteSecret", *ORPHAN],
    ),
    "the Secret of a key that nothing else remembers stays while the project is missing": (
        replace(NEW, parent=None, secret=handover_secret(annotations={REMOVE_AT_ANNOTATION: "2030-01-01T11:00:00Z"})),
        [*ORPHAN],
    ),
    "a refused write is reported": (replace(NEW, refused_write="exceeded quota"), [*REFUSED]),
    "a foreign Secret under the name is reported, and no key is made": (
        replace(NEW, secret=FOREIGN),
        [*CONFLICT],
    ),
    "a foreign Secret where the handover is over is nobody's business": (replace(REMOVED, secret=FOREIGN), []),
    "our Secret without a key in it is no handover, and is not overwritten": (
        replace(NEW, secret=handover_secret(fields={"key": "hw_k7q_tampered"})),
        [*CONFLICT],
    ),
    "a tampered Secret does not change what the key is": (
        replace(STEADY, secret=handover_secret(fields={"key": "tampered"})),
        [],
    ),
    "an endpoint's signing Secret is not taken for a handover": (
        replace(NEW, secret=signing_secret(foreign=True)),
        [*CONFLICT],
    ),
    "a key that expired before it was made is never made": (
        ApiKeyScene(key=apikey(expiresAt="2030-01-01T11:59:59Z")),
        [*EXPIRED],
    ),
    "a key that expires later is handed over": (
        ApiKeyScene(key=apikey(expiresAt="2030-01-01T12:00:01Z")),
        ["CreateSecret", "Normal Event KeyHandedOver", "ApplyMetadata", USABLE],
    ),
    "a digest made elsewhere is taken over, and nothing is handed over": (declared(), [USABLE]),
    "a declared key with which all is well is left alone": (declared().settled(), []),
    "a declared key that expired is not ready": (declared(expiresAt="2030-01-01T12:00:00Z"), [*EXPIRED]),
    "a declared digest of another ApiKey opens nothing": (replace(declared(), duplicate=True), [*DUPLICATE]),
    "a confirmed key whose digest turns out to be another's opens nothing any more": (
        replace(declared().settled(), duplicate=True),
        [*DUPLICATE],
    ),
    "annotations that are no identity are replaced": (
        with_key_metadata(NEW, annotations={**FORGED, DIGEST_ANNOTATION: "x" * 4000}),
        ["CreateSecret", "Normal Event KeyHandedOver", "ApplyMetadata", USABLE],
    ),
    "a digest of another ApiKey in annotations opens nothing, and no key is made in its place": (
        replace(with_key_metadata(NEW, annotations=FORGED), duplicate=True),
        [*DUPLICATE],
    ),
    "a duplicate without a project is reported as a duplicate": (
        replace(declared(), parent=None, duplicate=True),
        [*DUPLICATE],
    ),
    "a new key that is not understood is not made": (replace(NEW, unsupported_parts=STRANGE), [*UNSUPPORTED]),
    "a key that is not understood any more opens nothing": (replace(STEADY, unsupported_parts=STRANGE), [*UNSUPPORTED]),
    "a key with an unknown field works, and its condition names the field": (
        replace(declared(), unsupported_parts=Unsupported(fields=("spec.note",))),
        [USABLE],
    ),
    "a higher rotation replaces the key in the handover Secret": (
        rotated(STEADY),
        ["UpdateSecret", "Normal Event KeyRotated", "ApplyMetadata", USABLE],
    ),
    "a higher rotation after the handover creates the Secret again": (
        rotated(REMOVED),
        ["CreateSecret", "Normal Event KeyRotated", "ApplyMetadata", USABLE],
    ),
    "a rotated key is left alone": (rotated(STEADY).settled(), []),
    "a crash after the Secret had the new key: that key is taken up, no third one is made": (
        replace(rotated(STEADY), secret=rotated(STEADY).settled().secret),
        ["ApplyMetadata", USABLE],
    ),
    "a lost status does not rotate again": (without_key_status(rotated(STEADY).settled()), [USABLE]),
    "a new key with a rotation is made once": (
        rotated(NEW, 7),
        ["CreateSecret", "Normal Event KeyHandedOver", "ApplyMetadata", USABLE],
    ),
    "a rotation waits for a name that a foreign Secret uses, and the key stays usable": (
        replace(rotated(REMOVED), secret=FOREIGN),
        [USABLE],
    ),
    "a rotation of a key without its project waits": (replace(rotated(STEADY), parent=None), [*ORPHAN]),
    "a key that is being deleted is left alone": (with_key_metadata(NEW, deletion_timestamp=NOW), []),
}


@pytest.mark.parametrize(("scene", "expected"), CASES.values(), ids=CASES.keys())
def test_the_plan_of_a_key(scene: ApiKeyScene, expected: list[str]) -> None:
    """The name of each case is its promise."""
    assert in_words(scene.plan()) == expected


@pytest.mark.parametrize("scene", [case[0] for case in CASES.values()], ids=CASES.keys())
def test_a_key_plan_carried_out_leaves_nothing_to_do(scene: ApiKeyScene) -> None:
    """The second plan writes nothing, also after each time at which the plan asked for another look."""
    assert writes(scene.settled().plan()) == []
    much_later = scene.settled().settled(after(days=400))
    assert writes(much_later.plan(after(days=400))) == []


def test_the_handover_secret_holds_the_key_that_the_status_tells_of() -> None:
    """The Secret has the plaintext, the status the digest, and both have the key's public id."""
    result_scene = NEW.settled()
    assert result_scene.secret is not None
    assert result_scene.secret.fields == {"key": KEY.plaintext}
    assert result_scene.key.status.key_id == KEY.key_id
    assert result_scene.key.status.digest == digest(KEY.plaintext)
    assert result_scene.key.status.handover == HandoverStatus(state=HandoverState.DELIVERED, remove_at=TTL_OVER)
    assert result_scene.secret.annotations == {REMOVE_AT_ANNOTATION: "2030-01-01T13:00:00Z"}
    assert result_scene.key.metadata.annotations == {KEY_ID_ANNOTATION: KEY.key_id, DIGEST_ANNOTATION: KEY.digest}


def test_the_handover_secret_goes_with_its_key() -> None:
    """The Secret is labelled and owned by the ApiKey; an ApiKey that people declare has no owner."""
    result_scene = NEW.settled()
    assert result_scene.secret is not None
    assert result_scene.secret.owned_by("uid-ci")
    assert result_scene.secret.labels["hookwright.dev/owner-uid"] == "uid-ci"
    assert result_scene.key.metadata.owner_references == ()


def test_the_handover_secret_goes_when_its_time_is_over() -> None:
    """The Secret is deleted exactly at its time. The plan asks for a look at that time, and the key stays usable."""
    assert STEADY.plan().again_at == TTL_OVER
    assert in_words(STEADY.plan(after(minutes=59, seconds=59))) == []
    over = STEADY.plan(TTL_OVER)
    assert in_words(over) == ["DeleteSecret", USABLE]
    assert status_of(over)["handover"] == {"state": "Removed", "removeAt": "2030-01-01T13:00:00Z"}
    assert over.again_at is None


def test_a_secret_that_went_on_time_is_no_news() -> None:
    """A crash between its removal and the status must not cause a warning."""
    crashed_scene = replace(STEADY, secret=None)
    assert in_words(crashed_scene.plan(TTL_OVER)) == [USABLE]
    assert crashed_scene.settled(TTL_OVER).emitted == STEADY.emitted


def test_a_crash_after_the_secret_was_made_keeps_the_ttl_it_was_made_with() -> None:
    """The time to live counts from the handover, not from the restart."""
    crashed_scene = replace(NEW, secret=handover_secret())
    restart = crashed_scene.plan(after(minutes=30))
    assert restart.again_at == TTL_OVER
    assert in_words(crashed_scene.plan(after(hours=2))) == ["ApplyMetadata", "DeleteSecret", USABLE]


@pytest.mark.parametrize("written", [{}, {REMOVE_AT_ANNOTATION: "soon"}])
def test_a_handover_secret_without_its_date_goes_by_the_status_or_the_age(written: dict[str, str]) -> None:
    """Without the annotation, the plaintext is still deleted at a bounded time."""
    secret = handover_secret(annotations=written)
    assert replace(STEADY, secret=secret).plan().again_at == TTL_OVER
    assert replace(NEW, secret=secret).plan(after(minutes=10)).again_at == TTL_OVER


def test_an_earlier_date_on_the_secret_is_obeyed() -> None:
    """An earlier time in the annotation deletes the plaintext earlier."""
    hurried_scene = replace(STEADY, secret=handover_secret(annotations={REMOVE_AT_ANNOTATION: "2029-12-31T00:00:00Z"}))
    (deleted_scene, _) = hurried_scene.plan().actions
    assert deleted_scene == DeleteSecret("acme", "ci-key", "uid-handover")


def test_a_key_expires_at_its_time_and_is_looked_at_then() -> None:
    """The plan asks for another look at the end of the handover or of the key, whichever comes first."""
    soon = ApiKeyScene(key=apikey(expiresAt="2030-01-01T12:30:00Z")).settled()
    assert soon.plan().again_at == after(minutes=30)
    late = ApiKeyScene(key=apikey(expiresAt="2030-01-01T15:00:00Z")).settled()
    assert late.plan().again_at == TTL_OVER
    assert late.settled(TTL_OVER).plan(TTL_OVER).again_at == after(hours=3)
    assert in_words(soon.plan(after(minutes=30))) == [*EXPIRED]


def test_an_expired_key_s_handover_secret_still_goes_on_time() -> None:
    """The Secret of an expired key is deleted at its time as well."""
    expired_scene = ApiKeyScene(key=apikey(expiresAt="2030-01-01T12:30:00Z")).settled().settled(after(minutes=30))
    assert expired_scene.plan(after(minutes=30)).again_at == TTL_OVER
    assert "DeleteSecret" in in_words(expired_scene.plan(TTL_OVER))


def test_a_longer_expiry_makes_a_key_usable_again() -> None:
    """Conditions follow the spec."""
    expired_scene = declared(expiresAt="2030-01-01T12:00:00Z").settled()
    extended_scene = declared().key.model_copy(update={"status": expired_scene.key.status})
    assert in_words(replace(expired_scene, key=extended_scene).plan()) == [USABLE]


def test_a_foreign_secret_is_looked_at_again() -> None:
    """No event reports a free name, so the plan looks again and then creates the key."""
    conflict = replace(NEW, secret=FOREIGN)
    assert conflict.plan().again_at == NOW + RECHECK
    healed_scene = replace(conflict.settled(), secret=None)
    assert in_words(healed_scene.plan()) == ["CreateSecret", "Normal Event KeyHandedOver", "ApplyMetadata", USABLE]


def test_a_declared_key_has_its_name_for_id() -> None:
    """The plaintext was created elsewhere: only name and digest are known, and no annotation repeats them."""
    status = status_of(declared().plan())
    assert (status["keyId"], status["digest"]) == ("ci", DECLARED_DIGEST)
    assert "handover" not in status
    assert declared().settled().key.metadata.annotations == {}


def test_when_a_key_was_last_used_is_not_ours_to_write() -> None:
    """The API writes this field; a status that differs only in it is unchanged, and an apply omits it."""
    uses = STEADY.key.status.model_copy(update={"last_used_at": after(minutes=1)})
    scene = replace(STEADY, key=STEADY.key.model_copy(update={"status": uses}))
    assert writes(scene.plan()) == []
    assert "lastUsedAt" not in status_of(replace(scene, parent=None).plan())
    assert replace(scene, parent=None).settled().key.status.last_used_at == after(minutes=1)


def test_an_orphan_s_status_keeps_what_the_key_is() -> None:
    """The project may return; the handed over key then becomes valid again."""
    status = status_of(replace(STEADY, parent=None).plan())
    assert (status["keyId"], status["digest"]) == (KEY.key_id, KEY.digest)
    assert status["handover"]["state"] == "Delivered"


@pytest.mark.parametrize("scene", [case[0] for case in CASES.values()], ids=CASES.keys())
def test_the_plaintext_goes_into_the_secret_and_nowhere_else(scene: ApiKeyScene) -> None:
    """No status, annotation, Event, log or traceback of a plan contains the plaintext."""
    plan = scene.plan()
    assert KEY.plaintext not in repr(plan)
    for action in plan.actions:
        if isinstance(action, CreateSecret | RestoreSecret):
            assert set(action.secret.fields) == {"key"}
        elif isinstance(action, ApplyMetadata):
            assert KEY.plaintext not in str(action.annotations)


def test_the_status_of_a_duplicate_has_no_digest_and_names_no_other_tenant() -> None:
    """The API finds no digest in it that could match a presented key."""
    for scene in (declared(), declared().settled(), with_key_metadata(NEW, annotations=FORGED)):
        status = status_of(replace(scene, duplicate=True).plan())
        assert not {"digest", "keyId"} & status.keys()
        assert "acme" not in str(status)


def test_a_replaced_key_is_valid_until_its_overlap_ends() -> None:
    """The status lists it with its end, and the plan looks again then. The rotated key keeps its id."""
    scene = rotated(STEADY, overlap="30m").settled()
    status = scene.key.status
    assert (status.key_id, status.digest, status.rotation) == (KEY.key_id, SECOND_KEY.digest, 1)
    assert status.previous == (PreviousKey(digest=KEY.digest, until=after(minutes=30)),)
    assert scene.secret is not None
    assert scene.secret.fields == {"key": SECOND_KEY.plaintext}
    assert scene.plan().again_at == after(minutes=30)
    outcome = scene.settled(after(minutes=30)).key.status
    assert (outcome.digest, outcome.previous) == (SECOND_KEY.digest, ())


def test_a_second_rotation_does_not_shorten_the_first_overlap() -> None:
    """Each replaced key has its own end; the newest is first."""
    once = rotated(STEADY).settled()
    twice = rotated(once, 2, overlap="1h").settled(after(hours=2))
    assert twice.key.status.previous == (
        PreviousKey(digest=SECOND_KEY.digest, until=after(hours=3)),
        PreviousKey(digest=KEY.digest, until=after(hours=24)),
    )
    assert twice.key.status.digest == THIRD_KEY.digest


def test_an_overlap_of_0s_ends_every_replaced_key_at_once() -> None:
    """After a leak, neither the replaced key nor an earlier one is valid."""
    assert rotated(STEADY, overlap="0s").settled().key.status.previous == ()
    assert rotated(rotated(STEADY).settled(), 1, overlap="0s").settled().key.status.previous == ()


def test_a_crash_does_not_extend_an_overlap() -> None:
    """The overlap counts from the rotation, not from the restart; a time in the Secret can only shorten it."""
    scene_after = replace(rotated(STEADY), secret=rotated(STEADY).settled().secret)
    assert scene_after.settled(after(hours=1)).key.status.previous[0].until == after(hours=24)
    assert scene_after.secret is not None
    for value, until in (("2099-01-01T00:00:00Z", 24), ("soon", 24), ("2030-01-01T13:00:00Z", 1)):
        secret = replace(scene_after.secret, annotations={**scene_after.secret.annotations, UNTIL_ANNOTATION: value})
        assert replace(scene_after, secret=secret).settled().key.status.previous[0].until == after(hours=until)


def test_replaced_keys_are_not_restored_from_annotations() -> None:
    """A tenant can write annotations, and a digest there could be that of another tenant's key."""
    scene = rotated(STEADY).settled()
    scene_after = without_key_status(scene).settled().key.status
    assert (scene_after.digest, scene_after.rotation, scene_after.previous) == (SECOND_KEY.digest, 1, ())


def test_an_expired_key_is_not_rotated_before_its_expiry_is_extended() -> None:
    """No key is handed over that opens nothing."""
    expired_scene = ApiKeyScene(key=apikey(expiresAt="2030-01-01T12:30:00Z")).settled().settled(TTL_OVER)
    assert in_words(rotated(expired_scene).plan(TTL_OVER)) == []
    extended_scene = rotated(expired_scene, expires_at=after(days=1))
    assert "CreateSecret" in in_words(extended_scene.plan(TTL_OVER))


def test_a_duplicate_has_no_replaced_keys() -> None:
    """A key whose digest is another's opens nothing, nor does a key that it replaced."""
    scene = replace(rotated(STEADY).settled(), duplicate=True)
    assert "previous" not in {name for name, value in status_of(scene.plan()).items() if value}
