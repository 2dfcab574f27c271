"""Pure: the plan for an ApiKey.

A key that the operator generates is handed over once, in a Secret that is deleted after its time to live. Only the
digest stays. It is in the status and also in annotations of the ApiKey, because a status can be lost.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from hookwright_crds.base import format_timestamp, parse_duration
from hookwright_crds.conditions import condition, merge
from hookwright_crds.keys import MalformedKeyError, MintedKey, digest, key_id_of
from hookwright_crds.reading import UNDERSTOOD, Unsupported
from hookwright_crds.resources import ApiKey, ApiKeyStatus, HandoverState, HandoverStatus
from hookwright_operator.reconcile.plan import (
    Action,
    ApplyMetadata,
    ApplyStatus,
    CreateSecret,
    DeleteSecret,
    EmitEvent,
    Plan,
    RestoreSecret,
)
from hookwright_operator.reconcile.signing_secret import RECHECK
from hookwright_operator.watch.cache import key_of
from hookwright_operator.watch.objects import Parent, Secret, ours, owner_reference

KEY_FIELD: Final = "key"
KEY_ID_ANNOTATION: Final = "hookwright.dev/key-id"
DIGEST_ANNOTATION: Final = "hookwright.dev/digest"
REMOVE_AT_ANNOTATION: Final = "hookwright.dev/remove-at"


@dataclass(frozen=True, slots=True)
class ObservedApiKey:
    """An ApiKey and its dependencies.

    Attributes:
        secret: the handover Secret.
        duplicate: the digest belongs to another ApiKey.
        unsupported: the parts of the ApiKey that this version does not understand.
    """

    key: ApiKey
    project: Parent | None
    secret: Secret | None
    duplicate: bool = False
    unsupported: Unsupported = UNDERSTOOD


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
    """

    identity: KeyIdentity | None = None
    handover: HandoverStatus | None = None
    fault: tuple[str, str] | None = None
    actions: tuple[Action, ...] = ()
    removal: tuple[Action, ...] = ()
    again_at: datetime | None = None


def plan_apikey(observed: ObservedApiKey, *, now: datetime, mint: Callable[[], MintedKey]) -> Plan:
    """Plan the owner, the handover and the digest in the status; ``mint`` creates a new key."""
    key = observed.key
    if key.metadata.deletion_timestamp is not None:
        return Plan()
    if observed.unsupported.faults:
        fault = ("UnsupportedSpec", f"{observed.unsupported.sentence} The key authenticates no request until then.")
        return Plan(tuple(_plan_status(observed, replace(_as_it_was(key), fault=fault), now)))
    if observed.duplicate:
        return Plan(tuple(_plan_duplicate(observed, now)))
    if observed.project is None:
        name = key.spec.project_ref.name
        sentence = (
            f"Project {name!r} does not exist in namespace {key.metadata.namespace!r}; "
            "create it; then this key becomes ready automatically."
        )
        fault = ("ProjectNotFound", sentence)
        return Plan(tuple(_plan_status(observed, replace(_as_it_was(key), fault=fault), now)))
    outcome = _declared(key) if key.spec.digest else _plan_handover(observed, now, mint)
    outcome = _with_expiry(key, outcome, now)
    kept = _plan_metadata(key, observed.project, outcome)
    return Plan(
        (*outcome.actions, *kept, *outcome.removal, *_plan_status(observed, outcome, now)), again_at=outcome.again_at
    )


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
    kept = _plan_metadata(observed.key, observed.project, outcome) if observed.project is not None else []
    return [*kept, *_plan_status(observed, outcome, now)]


def _as_it_was(key: ApiKey) -> _Outcome:
    return _Outcome(identity=_recorded(key), handover=key.status.handover)


def _declared(key: ApiKey) -> _Outcome:
    assert key.spec.digest is not None
    return _Outcome(identity=KeyIdentity(key.metadata.name, key.spec.digest))


def _recorded(key: ApiKey) -> KeyIdentity | None:
    """Return the identity of the key from the status, or from annotations if the status was lost."""
    if key.status.key_id and key.status.digest:
        return KeyIdentity(key.status.key_id, key.status.digest)
    kept = key.metadata.annotations
    if KEY_ID_ANNOTATION in kept and DIGEST_ANNOTATION in kept:
        return KeyIdentity(kept[KEY_ID_ANNOTATION], kept[DIGEST_ANNOTATION])
    return None


def _handed_over(secret: Secret | None) -> KeyIdentity | None:
    """Return the identity of the key in a handover Secret."""
    if secret is None or secret.foreign:
        return None
    plaintext = secret.fields.get(KEY_FIELD, "")
    try:
        return KeyIdentity(key_id_of(plaintext), digest(plaintext))
    except MalformedKeyError:
        return None


def _plan_handover(observed: ObservedApiKey, now: datetime, mint: Callable[[], MintedKey]) -> _Outcome:
    key, secret = observed.key, observed.secret
    identity = identity_of(key, secret)
    if identity is None:
        return _plan_new(observed, now, mint)
    if secret is None or secret.foreign:
        return _plan_removed(key, identity, now)
    remove_at = _remove_at(key, secret, now)
    if now >= remove_at:
        removal = DeleteSecret(secret.namespace, secret.name, secret.uid)
        status = HandoverStatus(state=HandoverState.REMOVED, remove_at=remove_at)
        return _Outcome(identity, status, removal=(removal,))
    status = HandoverStatus(state=HandoverState.DELIVERED, remove_at=remove_at)
    return _Outcome(identity, status, actions=_plan_restoration(key, secret), again_at=remove_at)


def _plan_new(observed: ObservedApiKey, now: datetime, mint: Callable[[], MintedKey]) -> _Outcome:
    key, secret = observed.key, observed.secret
    handover = key.spec.handover
    assert handover is not None, "the schema lets exactly one of handover and digest be set"
    pending = HandoverStatus(state=HandoverState.PENDING)
    if secret is not None:
        sentence = (
            f"Secret {handover.secret_name!r} exists, but the operator did not create it for this key; "
            "rename or delete it, or choose another spec.handover.secretName."
        )
        fault = ("SecretConflict", sentence)
        return _Outcome(handover=pending, fault=fault, again_at=now + RECHECK)
    if key.spec.expires_at is not None and now >= key.spec.expires_at:
        return _Outcome(handover=pending)
    remove_at = now + parse_duration(handover.ttl)
    minted = mint()
    made = Secret(
        namespace=key.metadata.namespace,
        name=handover.secret_name,
        fields={KEY_FIELD: minted.plaintext},
        owner_uid=key.metadata.uid,
        owner_references=(owner_reference("ApiKey", key.metadata, controller=True),),
        labels=ours(key.metadata.uid),
        annotations={REMOVE_AT_ANNOTATION: format_timestamp(remove_at)},
    )
    event = EmitEvent(
        key_of("ApiKey", key.metadata),
        key.metadata.uid,
        "Normal",
        "KeyHandedOver",
        f"The key is in Secret {made.name!r}, field 'key', until {format_timestamp(remove_at)}.",
    )
    return _Outcome(
        KeyIdentity(minted.key_id, minted.digest),
        HandoverStatus(state=HandoverState.DELIVERED, remove_at=remove_at),
        actions=(CreateSecret(made), event),
        again_at=remove_at,
    )


def _plan_removed(key: ApiKey, identity: KeyIdentity, now: datetime) -> _Outcome:
    """Report a deleted handover Secret, and emit an Event if it was deleted before its time."""
    before = key.status.handover
    remove_at = before.remove_at if before else None
    early = before is not None and before.state is HandoverState.DELIVERED and (remove_at is None or now < remove_at)
    event = EmitEvent(
        key_of("ApiKey", key.metadata),
        key.metadata.uid,
        "Warning",
        "HandoverSecretGone",
        "The handover Secret was deleted before its time. The key stays valid, but it cannot be handed over again: "
        "if no client has the key, delete this ApiKey and create it again.",
    )
    status = HandoverStatus(state=HandoverState.REMOVED, remove_at=remove_at)
    return _Outcome(identity, status, actions=(event,) if early else ())


def _remove_at(key: ApiKey, secret: Secret, now: datetime) -> datetime:
    written = secret.annotations.get(REMOVE_AT_ANNOTATION, "")
    try:
        return datetime.strptime(written, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        known = key.status.handover.remove_at if key.status.handover else None
        ttl = key.spec.handover.ttl if key.spec.handover else "1h"
        return known or (key.metadata.creation_timestamp or now) + parse_duration(ttl)


def _plan_restoration(key: ApiKey, secret: Secret) -> tuple[Action, ...]:
    meta = key.metadata
    if secret.owned_by(meta.uid) and ours(meta.uid).items() <= secret.labels.items():
        return ()
    owner = owner_reference("ApiKey", meta, controller=True)
    return (RestoreSecret(replace(secret, owner_references=(owner,), labels=ours(meta.uid), owner_uid=meta.uid)),)


def _with_expiry(key: ApiKey, outcome: _Outcome, now: datetime) -> _Outcome:
    expires_at = key.spec.expires_at
    if expires_at is None:
        return outcome
    if now >= expires_at:
        return replace(outcome, fault=("Expired", f"The key expired at {format_timestamp(expires_at)}."))
    soonest = min(expires_at, outcome.again_at) if outcome.again_at else expires_at
    return replace(outcome, again_at=soonest)


def _plan_metadata(key: ApiKey, project: Parent, outcome: _Outcome) -> list[Action]:
    meta = key.metadata
    kept = {}
    if outcome.identity is not None and key.spec.digest is None:
        kept = {KEY_ID_ANNOTATION: outcome.identity.key_id, DIGEST_ANNOTATION: outcome.identity.digest}
    owned = any(reference.uid == project.uid for reference in meta.owner_references)
    if owned and kept.items() <= meta.annotations.items():
        return []
    reference = owner_reference("Project", project, controller=True)
    return [ApplyMetadata(key_of("ApiKey", key.metadata), meta.uid, owner_references=(reference,), annotations=kept)]


def _plan_status(observed: ObservedApiKey, outcome: _Outcome, now: datetime) -> list[Action]:
    key = observed.key
    meta, before = key.metadata, key.status
    usable = f"The key opens its project. {observed.unsupported.ignored}".rstrip()
    reason, message = outcome.fault or ("Usable", usable)
    ready = condition(
        "Ready", "False" if outcome.fault else "True", reason, message, generation=meta.generation, now=now
    )
    after = ApiKeyStatus(
        observed_generation=meta.generation,
        key_id=outcome.identity.key_id if outcome.identity else None,
        digest=outcome.identity.digest if outcome.identity else None,
        handover=outcome.handover,
        conditions=tuple(merge(before.conditions, [ready])),
    )
    # The API writes the time of the last use. An apply without that field does not change it.
    if after == before.model_copy(update={"last_used_at": None}):
        return []
    return [ApplyStatus(key_of("ApiKey", key.metadata), meta.uid, after.to_kubernetes())]
