"""Pure: the plan for an ApiKey.

A key that the operator generates is handed over once, in a Secret that is deleted after its time to live. Only the
digest stays. It is in the status and also in annotations of the ApiKey, because a status can be lost.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, TypeAlias

from hookwright_crds.base import format_timestamp, parse_duration, parse_timestamp
from hookwright_crds.conditions import merge, readiness
from hookwright_crds.keys import MalformedKeyError, MintedKey, digest, is_identity, key_id_of
from hookwright_crds.reading import UNDERSTOOD, Unsupported
from hookwright_crds.resources import ApiKey, ApiKeyStatus, HandoverState, HandoverStatus, PreviousKey
from hookwright_operator.reconcile.key_rotation import (
    ROTATION_ANNOTATION,
    made_for,
    replaced,
    rotation_annotations,
    rotation_of,
    still_valid,
)
from hookwright_operator.reconcile.plan import (
    REFUSED_SENTENCE,
    WRITE_REFUSED,
    Action,
    ApplyMetadata,
    CreateSecret,
    DeleteSecret,
    Plan,
    UpdateSecret,
    event_of,
    owned_secret,
    plan_restoration,
    plan_status,
)
from hookwright_operator.reconcile.signing_secret import RECHECK
from hookwright_operator.watch.objects import Parent, Secret, key_of, project_references

KEY_FIELD: Final = "key"
KEY_ID_ANNOTATION: Final = "hookwright.dev/key-id"
DIGEST_ANNOTATION: Final = "hookwright.dev/digest"
REMOVE_AT_ANNOTATION: Final = "hookwright.dev/remove-at"
_PROJECT_NOT_FOUND: Final = "ProjectNotFound"


Mint: TypeAlias = Callable[[str | None], MintedKey]
"""Returns a new key with a public id, or with a new id for None."""


@dataclass(frozen=True, slots=True)
class ObservedApiKey:
    """An ApiKey and its dependencies.

    Attributes:
        secret: the handover Secret.
        duplicate: the digest belongs to another ApiKey.
        unsupported_parts: the parts of the ApiKey that this version does not understand.
        refused_write: why the API server refuses a write for this ApiKey, empty if no write was refused.
    """

    key: ApiKey
    project: Parent | None
    secret: Secret | None
    duplicate: bool = False
    unsupported_parts: Unsupported = UNDERSTOOD
    refused_write: str = ""


@dataclass(frozen=True, slots=True)
class KeyIdentity:
    """The id and the digest of a key."""

    key_id: str
    digest: str


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The state of the key after the actions.

    Attributes:
        removal: must follow the record of the identity, because only the Secret may have the identity before.
        rotation: the ``spec.rotation`` for which the key was generated.
        previous: the replaced keys.
        note: a sentence about a key that is usable.
    """

    identity: KeyIdentity | None = None
    handover: HandoverStatus | None = None
    fault: tuple[str, str] | None = None
    actions: tuple[Action, ...] = ()
    removal: tuple[Action, ...] = ()
    again_at: datetime | None = None
    rotation: int = 0
    previous: tuple[PreviousKey, ...] = ()
    note: str = ""


def plan_apikey(observed: ObservedApiKey, *, now: datetime, mint: Mint) -> Plan:
    """Plan the owner, the handover, the rotation and the digests in the status; ``mint`` creates a new key."""
    key, project = observed.key, observed.project
    if key.metadata.deletion_timestamp is not None:
        return Plan()
    if observed.unsupported_parts.faults:
        message = f"{observed.unsupported_parts.sentence} The key authenticates no request until then."
        fault = ("UnsupportedSpec", message)
        return Plan(tuple(_plan_status(observed, replace(_as_it_was(key, now), fault=fault), now)))
    if observed.duplicate:
        return Plan(tuple(_plan_duplicate(observed, now)))
    if observed.refused_write:
        outcome = replace(_as_it_was(key, now), fault=(WRITE_REFUSED, REFUSED_SENTENCE + observed.refused_write))
        return Plan(tuple(_plan_status(observed, outcome, now)))
    outcome = _declared(key) if key.spec.digest else _plan_handover(observed, now, mint)
    if project is None:
        sentence = (
            f"Project {key.spec.project_ref.name!r} does not exist in namespace {key.metadata.namespace!r}; "
            "create it; then this key becomes ready automatically. It gives access to nothing until then."
        )
        outcome = replace(outcome, fault=(_PROJECT_NOT_FOUND, sentence))
    else:
        outcome = _with_expiry(key, outcome, now)
    metadata = _plan_metadata(key, project, outcome) if project is not None else []
    status = _plan_status(observed, outcome, now)
    return Plan((*outcome.actions, *metadata, *outcome.removal, *status), again_at=outcome.again_at)


def identity_of(key: ApiKey, secret: Secret | None) -> KeyIdentity | None:
    """Return the identity that an ApiKey declares or had before, None if its key must still be created."""
    if key.spec.digest is not None:
        return KeyIdentity(key.metadata.name, key.spec.digest)
    return _recorded(key) or _handed_over(secret)


def _plan_duplicate(observed: ObservedApiKey, now: datetime) -> list[Action]:
    """Report the duplicate without the digest and without naming the owner; without a digest the key opens nothing."""
    sentence = (
        "The digest belongs to another ApiKey, which declared it first; deleting that ApiKey does not change this. "
        "Create a new key."
    )
    outcome = _Outcome(handover=observed.key.status.handover, fault=("DuplicateDigest", sentence))
    metadata = _plan_metadata(observed.key, observed.project, outcome) if observed.project is not None else []
    return [*metadata, *_plan_status(observed, outcome, now)]


def _as_it_was(key: ApiKey, now: datetime) -> _Outcome:
    return _Outcome(
        identity=_recorded(key),
        handover=key.status.handover,
        rotation=rotation_of(key, None),
        previous=still_valid(key, now),
    )


def _declared(key: ApiKey) -> _Outcome:
    assert key.spec.digest is not None
    return _Outcome(identity=KeyIdentity(key.metadata.name, key.spec.digest))


def _recorded(key: ApiKey) -> KeyIdentity | None:
    """Return the identity of the key from the status, or from annotations, in which tenants can write any text."""
    if key.status.key_id and key.status.digest:
        return KeyIdentity(key.status.key_id, key.status.digest)
    annotations = key.metadata.annotations
    identity = KeyIdentity(annotations.get(KEY_ID_ANNOTATION, ""), annotations.get(DIGEST_ANNOTATION, ""))
    return identity if is_identity(identity.key_id, identity.digest) else None


def _handed_over(secret: Secret | None) -> KeyIdentity | None:
    """Return the identity of the key in a handover Secret."""
    if secret is None or secret.foreign:
        return None
    plaintext = secret.fields.get(KEY_FIELD, "")
    try:
        return KeyIdentity(key_id_of(plaintext), digest(plaintext))
    except MalformedKeyError:
        return None


def _plan_handover(observed: ObservedApiKey, now: datetime, mint: Mint) -> _Outcome:
    key, secret, is_orphan = observed.key, observed.secret, observed.project is None
    # Without its project, a key's annotations are not written. So its Secret stays, unless the status has the identity.
    identity = _recorded(key) if is_orphan else identity_of(key, secret)
    if identity is None:
        return _as_it_was(key, now) if is_orphan else _plan_new(observed, now, mint)
    if key.spec.rotation > rotation_of(key, secret) and not _expired(key, now) and not is_orphan:
        return _plan_rotation(observed, identity, now, mint)
    if secret is None or secret.foreign:
        return _plan_removed(key, identity, now)
    return _plan_known(key, identity, secret, now)


def _plan_rotation(observed: ObservedApiKey, identity: KeyIdentity, now: datetime, mint: Mint) -> _Outcome:
    """Hand a new key over in the Secret of the first one, and keep the old key for its overlap."""
    key, secret = observed.key, observed.secret
    if secret is not None and secret.foreign:
        note = f"The rotation waits, because {_conflict(key)}"
        return replace(_as_it_was(key, now), identity=identity, note=note, again_at=now + RECHECK)
    handed_over = _handed_over(secret)
    if secret is not None and handed_over is not None and made_for(key, secret):
        outcome = replace(_plan_known(key, handed_over, secret, now), rotation=key.spec.rotation)
        return replace(outcome, previous=replaced(key, identity.digest, secret, now))
    new_key = mint(identity.key_id)
    new_secret = _handover_secret(key, new_key, now)
    if secret is not None:
        annotations = {**secret.annotations, **new_secret.annotations}
        new_secret = replace(secret, fields={**secret.fields, **new_secret.fields}, annotations=annotations)
    remove_at = _remove_at(key, new_secret, now)
    message = (
        f"A new key is in Secret {new_secret.name!r}, field 'key', until {format_timestamp(remove_at)}; the previous "
        f"one also opens the project for {key.spec.overlap}."
    )
    event = event_of(key, "Normal", "KeyRotated", message, always=True)
    return _Outcome(
        KeyIdentity(new_key.key_id, new_key.digest),
        HandoverStatus(state=HandoverState.DELIVERED, remove_at=remove_at),
        actions=(CreateSecret(new_secret) if secret is None else UpdateSecret(new_secret), event),
        again_at=remove_at,
        rotation=key.spec.rotation,
        previous=replaced(key, identity.digest, new_secret, now),
    )


def _plan_known(key: ApiKey, identity: KeyIdentity, secret: Secret, now: datetime) -> _Outcome:
    """Plan the removal of a handover Secret at its time."""
    remove_at = _remove_at(key, secret, now)
    if now >= remove_at:
        removal = DeleteSecret(secret.namespace, secret.name, secret.uid)
        status = HandoverStatus(state=HandoverState.REMOVED, remove_at=remove_at)
        outcome = _Outcome(identity, status, removal=(removal,))
    else:
        status = HandoverStatus(state=HandoverState.DELIVERED, remove_at=remove_at)
        outcome = _Outcome(identity, status, actions=tuple(plan_restoration(key, secret)[1]), again_at=remove_at)
    return replace(outcome, rotation=rotation_of(key, secret), previous=still_valid(key, now))


def _plan_new(observed: ObservedApiKey, now: datetime, mint: Mint) -> _Outcome:
    key, secret = observed.key, observed.secret
    pending = HandoverStatus(state=HandoverState.PENDING)
    if secret is not None:
        fault = ("SecretConflict", _conflict(key))
        return _Outcome(handover=pending, fault=fault, again_at=now + RECHECK)
    if _expired(key, now):
        return _Outcome(handover=pending)
    new_key = mint(None)
    new_secret = _handover_secret(key, new_key, now)
    remove_at = _remove_at(key, new_secret, now)
    message = f"The key is in Secret {new_secret.name!r}, field 'key', until {format_timestamp(remove_at)}."
    event = event_of(key, "Normal", "KeyHandedOver", message)
    return _Outcome(
        KeyIdentity(new_key.key_id, new_key.digest),
        HandoverStatus(state=HandoverState.DELIVERED, remove_at=remove_at),
        actions=(CreateSecret(new_secret), event),
        again_at=remove_at,
        rotation=key.spec.rotation,
    )


def _conflict(key: ApiKey) -> str:
    assert key.spec.handover is not None
    return (
        f"Secret {key.spec.handover.secret_name!r} exists, but the operator did not create it for this key; "
        "rename or delete it, or choose another spec.handover.secretName."
    )


def _handover_secret(key: ApiKey, new_key: MintedKey, now: datetime) -> Secret:
    handover = key.spec.handover
    assert handover is not None, "the schema lets exactly one of handover and digest be set"
    remove_at = now + parse_duration(handover.ttl)
    annotations = {REMOVE_AT_ANNOTATION: format_timestamp(remove_at), **rotation_annotations(key, now)}
    return owned_secret(key, handover.secret_name, {KEY_FIELD: new_key.plaintext}, annotations)


def _plan_removed(key: ApiKey, identity: KeyIdentity, now: datetime) -> _Outcome:
    """Report a deleted handover Secret, and emit an Event if it was deleted before its time."""
    before = key.status.handover
    remove_at = before.remove_at if before else None
    early = before is not None and before.state is HandoverState.DELIVERED and (remove_at is None or now < remove_at)
    message = (
        "The handover Secret was deleted before its time. The key stays valid, but it cannot be handed over again: "
        "if no client has the key, raise spec.rotation."
    )
    event = event_of(key, "Warning", "HandoverSecretGone", message)
    status = HandoverStatus(state=HandoverState.REMOVED, remove_at=remove_at)
    actions = (event,) if early else ()
    return replace(_as_it_was(key, now), identity=identity, handover=status, actions=actions)


def _remove_at(key: ApiKey, secret: Secret, now: datetime) -> datetime:
    text = secret.annotations.get(REMOVE_AT_ANNOTATION, "")
    try:
        return parse_timestamp(text)
    except ValueError:
        remove_at = key.status.handover.remove_at if key.status.handover else None
        ttl = key.spec.handover.ttl if key.spec.handover else "1h"
        return remove_at or (key.metadata.creation_timestamp or now) + parse_duration(ttl)


def _expired(key: ApiKey, now: datetime) -> bool:
    return key.spec.expires_at is not None and now >= key.spec.expires_at


def _with_expiry(key: ApiKey, outcome: _Outcome, now: datetime) -> _Outcome:
    """Report an expired key, and look again when the key, a replaced key or the handover ends."""
    expires_at = key.spec.expires_at
    ends = [outcome.again_at, *(predecessor.until for predecessor in outcome.previous)]
    if expires_at is not None and now >= expires_at:
        outcome = replace(outcome, fault=("Expired", f"The key expired at {format_timestamp(expires_at)}."))
    else:
        ends.append(expires_at)
    return replace(outcome, again_at=min((end for end in ends if end is not None), default=None))


def _plan_metadata(key: ApiKey, project: Parent, outcome: _Outcome) -> list[Action]:
    meta = key.metadata
    annotations = {}
    if outcome.identity is not None and key.spec.digest is None:
        annotations = {KEY_ID_ANNOTATION: outcome.identity.key_id, DIGEST_ANNOTATION: outcome.identity.digest}
        if outcome.rotation:
            annotations[ROTATION_ANNOTATION] = str(outcome.rotation)
    references = project_references(meta, project)
    if references is None and annotations.items() <= meta.annotations.items():
        return []
    references = references if references is not None else meta.owner_references
    return [ApplyMetadata(key_of(key), meta.uid, owner_references=references, annotations=annotations)]


def _plan_status(observed: ObservedApiKey, outcome: _Outcome, now: datetime) -> list[Action]:
    key, generation = observed.key, observed.key.metadata.generation
    usable = " ".join(filter(None, ("The key opens its project.", outcome.note, observed.unsupported_parts.ignored)))
    reason, message = outcome.fault or ("Usable", usable)
    ready = readiness(
        ready=outcome.fault is None,
        reason=reason,
        message=message,
        stalled=reason not in (_PROJECT_NOT_FOUND, WRITE_REFUSED),
        generation=generation,
        now=now,
    )
    after = ApiKeyStatus(
        observed_generation=generation,
        key_id=outcome.identity.key_id if outcome.identity else None,
        digest=outcome.identity.digest if outcome.identity else None,
        rotation=outcome.rotation,
        previous=outcome.previous,
        handover=outcome.handover,
        conditions=tuple(merge(key.status.conditions, ready)),
    )
    return plan_status(key, after)
