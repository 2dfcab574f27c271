"""Pure: the plan for an endpoint's signing Secret: create, repair, rotate.

A replaced secret signs together with the new one until its overlap ends. Each replaced secret has its own end, so that
a second rotation does not shorten the first overlap. An overlap of 0s ends all of them, as after a leak. The oldest
secret that signs makes ``X-Service-Signature``. The Secret's fields are ``secret``, which is current, and
``previous``, ``previous-2``, ``previous-3``, the newest first. Annotations have the rotation value of the current
secret and the end times of the others.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from hookwright_crds.base import format_timestamp, name_of_child, parse_duration, parse_timestamp
from hookwright_crds.conditions import find
from hookwright_crds.resources import WebhookEndpoint
from hookwright_crds.signing_secrets import Encoding, valid_secret
from hookwright_operator.reconcile.plan import (
    Action,
    CreateSecret,
    EmitEvent,
    UpdateSecret,
    event_of,
    owned_secret,
    plan_restoration,
)
from hookwright_operator.watch.objects import Secret

SECRET_FIELD: Final = "secret"  # noqa: S105 - the name of a field
PREVIOUS_FIELDS: Final = ("previous", "previous-2", "previous-3")
ROTATION_ANNOTATION: Final = "hookwright.dev/rotation"
UNTIL_ANNOTATION: Final = "hookwright.dev/previous-until"
RECHECK: Final = timedelta(seconds=30)
"""Delay until a name that a foreign Secret uses is checked again; no event reports when it is free."""

READ_AGAIN: Final = timedelta(seconds=60)
"""Delay until a Secret of the tenant is read again; no watch shows it."""
MISSING_RECHECK: Final = timedelta(seconds=10)
"""Least delay until a missing Secret is looked for again; the delay grows with the time for which it is missing."""
MISSING: Final = "SecretNotFound"
"""The reason of an endpoint whose Secret does not exist."""
ROTATED: Final = "SigningSecretRotated"
"""The reason of the Event about a rotation."""


@dataclass(frozen=True, slots=True)
class SigningPlan:
    """The actions for a signing Secret.

    Attributes:
        secret: the Secret after the actions.
        again_at: latest time of the next check.
    """

    secret: Secret
    actions: tuple[Action, ...] = ()
    again_at: datetime | None = None


def signing_secret_name(endpoint: str) -> str:
    """Return the name of an endpoint's signing Secret."""
    return name_of_child(endpoint, "-signing")


def plan_signing_secret(
    endpoint: WebhookEndpoint,
    secret: Secret | None,
    kept_secrets: Sequence[str],
    *,
    now: datetime,
    new_secret: Callable[[], str],
) -> SigningPlan:
    """Plan a Secret of the operator that matches the endpoint's rotation.

    Args:
        endpoint: whose Secret it is.
        secret: the Secret, None if it does not exist.
        kept_secrets: the secrets with which this replica signs, from which a deleted Secret is restored.
        now: the time.
        new_secret: creates a secret.
    """
    if secret is None:
        return _plan_making(endpoint, kept_secrets, now, new_secret)
    if secret.foreign:
        return SigningPlan(secret, again_at=now + RECHECK)
    secret, actions = plan_restoration(endpoint, secret)
    if not valid_secret(secret.fields.get(SECRET_FIELD, "")):
        return SigningPlan(secret, tuple(actions))
    target, is_rotated = _rotate(secret, endpoint, now=now, new_secret=new_secret)
    if is_rotated or dict(target.fields) != dict(secret.fields):
        actions.append(UpdateSecret(target, tuple(sorted(secret.fields.keys() - target.fields.keys()))))
    if is_rotated:
        message = rotation_message(endpoint, target.name)
        actions.append(event_of(endpoint, "Normal", ROTATED, message, always=True))
    return SigningPlan(target, tuple(actions), min(_until(target).values(), default=None))


def plan_referenced_secret(endpoint: WebhookEndpoint, secret: Secret | None, *, now: datetime) -> SigningPlan:
    """Plan nothing for a Secret that the tenant makes, except to read it again.

    No watch shows the Secret, so many endpoints without one would make many requests if the delay did not grow.
    """
    if secret is not None:
        return SigningPlan(secret, again_at=now + READ_AGAIN)
    reference, ready = endpoint.spec.signing.secret_ref, find(endpoint.status.conditions, "Ready")
    assert reference is not None
    missing = Secret(namespace=endpoint.metadata.namespace, name=reference.name, fields={})
    known_as_missing = ready is not None and ready.reason == MISSING
    missing_for = now - ready.last_transition_time if ready is not None and known_as_missing else timedelta()
    return SigningPlan(missing, again_at=now + min(max(missing_for, MISSING_RECHECK), READ_AGAIN))


def _plan_making(
    endpoint: WebhookEndpoint, kept_secrets: Sequence[str], now: datetime, new_secret: Callable[[], str]
) -> SigningPlan:
    fields = dict(zip((SECRET_FIELD, *PREVIOUS_FIELDS), kept_secrets or [new_secret()], strict=False))
    # The ends of earlier overlaps were in the deleted Secret.
    ends = dict.fromkeys(fields.keys() - {SECRET_FIELD}, now + parse_duration(endpoint.spec.signing.overlap))
    annotations = {ROTATION_ANNOTATION: str(endpoint.spec.signing.rotation), UNTIL_ANNOTATION: _written(ends)}
    secret = owned_secret(endpoint, signing_secret_name(endpoint.metadata.name), fields, annotations)
    actions: list[Action] = [CreateSecret(secret)]
    if endpoint.status.signing_secret_ref is not None:
        actions.append(_announce_making(endpoint, secret, is_restored=bool(kept_secrets)))
    return SigningPlan(secret, tuple(actions), min(ends.values(), default=None))


def _announce_making(endpoint: WebhookEndpoint, secret: Secret, *, is_restored: bool) -> EmitEvent:
    if is_restored:
        message = (
            f"Secret {secret.name!r} was missing, so it was created again with the same signing secret. "
            "To replace the signing secret, increase spec.signing.rotation."
        )
        return event_of(endpoint, "Warning", "SigningSecretRestored", message, always=True)
    message = (
        f"Secret {secret.name!r} was missing, so a new signing secret was created; give it to the receiver, "
        "because signatures from now on do not match the old one."
    )
    return event_of(endpoint, "Warning", "SigningSecretRecreated", message, always=True)


def rotation_message(endpoint: WebhookEndpoint, secret: str) -> str:
    """Return what the owner of a receiver needs to know after a rotation, without the secret itself."""
    overlap = endpoint.spec.signing.overlap
    previous = (
        f"the previous one also signs webhook-signature for {overlap}, and X-Service-Signature changes after that time"
        if parse_duration(overlap)
        else "no previous one signs any more"
    )
    return f"Secret {secret!r} has a new signing secret; {previous}. Give the new one to the receiver."


def _rotate(
    secret: Secret, endpoint: WebhookEndpoint, *, now: datetime, new_secret: Callable[[], str]
) -> tuple[Secret, bool]:
    """Rotate the secret if requested, and remove replaced secrets whose overlap has ended.

    An overlap of 0s ends every replaced secret, because a leaked one must sign no header.

    Returns:
        The wanted Secret, and whether it has a new secret.
    """
    overlap = parse_duration(endpoint.spec.signing.overlap)
    number = str(endpoint.spec.signing.rotation)
    until = _until(secret)
    fields = {name: text for name, text in secret.fields.items() if name not in until or until[name] > now}
    is_rotated = secret.annotations.get(ROTATION_ANNOTATION, number) != number
    if is_rotated:
        fields, until = _shifted(fields, until)
        until["previous"] = now + overlap
        fields[SECRET_FIELD] = new_secret()
    if not overlap:
        fields = {name: text for name, text in fields.items() if name not in PREVIOUS_FIELDS}
    until = {name: moment for name, moment in until.items() if name in fields}
    annotations = {**secret.annotations, ROTATION_ANNOTATION: number, UNTIL_ANNOTATION: _written(until)}
    return replace(secret, fields=fields, annotations=annotations), is_rotated


def signing_secrets(secret: Secret, *, now: datetime, encoding: Encoding = "whsec") -> list[str]:
    """Return the secrets that sign now, the current one first."""
    until = _until(secret)
    names = [SECRET_FIELD, *(name for name in PREVIOUS_FIELDS if name not in until or until[name] > now)]
    return [secret.fields[name] for name in names if valid_secret(secret.fields.get(name, ""), encoding)]


def rotation_of(secret: Secret) -> int:
    """Return the value of ``spec.signing.rotation`` for which the current secret was made, 0 if it is unknown."""
    number = secret.annotations.get(ROTATION_ANNOTATION, "")
    return int(number) if re.fullmatch("[0-9]{1,7}", number) else 0


def previous_until(secret: Secret) -> datetime | None:
    """Return when the last overlap of a replaced secret ends, None if there is none."""
    return max((moment for name, moment in _until(secret).items() if name in secret.fields), default=None)


def _shifted(fields: Mapping[str, str], until: Mapping[str, datetime]) -> tuple[dict[str, str], dict[str, datetime]]:
    """Move each secret one place down; the oldest is dropped."""
    moves = dict(zip((SECRET_FIELD, *PREVIOUS_FIELDS), PREVIOUS_FIELDS, strict=False))
    other_fields = {name: text for name, text in fields.items() if name not in (SECRET_FIELD, *PREVIOUS_FIELDS)}
    moved_fields = {target: fields[name] for name, target in moves.items() if name in fields}
    return {**other_fields, **moved_fields}, {target: until[name] for name, target in moves.items() if name in until}


def _until(secret: Secret) -> dict[str, datetime]:
    try:
        texts = json.loads(secret.annotations.get(UNTIL_ANNOTATION) or "{}")
        return {str(name): parse_timestamp(str(text)) for name, text in texts.items()}
    except (ValueError, AttributeError):
        return {}


def _written(until: Mapping[str, datetime]) -> str:
    return json.dumps({name: format_timestamp(moment) for name, moment in sorted(until.items())})
