"""Pure: the plan for a WebhookEndpoint."""

import base64
import binascii
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from hookwright_crds.base import parse_duration
from hookwright_crds.conditions import Condition, condition, find, merge
from hookwright_crds.resources import (
    DeliveryCounts,
    SecretKeyRef,
    WebhookEndpoint,
    WebhookEndpointStatus,
)
from hookwright_operator.reconcile.plan import (
    FINALIZER,
    Action,
    Announce,
    ApplyMetadata,
    ApplyStatus,
    CreateSecret,
    DiscardDeliveries,
    Key,
    Parent,
    Plan,
    Register,
    RemoveFinalizer,
    RestoreSecret,
    Secret,
    Unregister,
    ours,
    owner_reference,
)
from hookwright_operator.registry import Endpoint, Health

SECRET_FIELD: Final = "secret"  # noqa: S105 - the name of a field
PREVIOUS_FIELD: Final = "previous"
SECRET_PREFIX: Final = "whsec_"  # noqa: S105
RECHECK: Final = timedelta(seconds=30)
"""How soon a name that a foreign Secret occupies is looked at again; nothing tells when it is free."""

_SUFFIX: Final = "-signing"
_LONGEST_NAME: Final = 253


@dataclass(frozen=True, slots=True)
class ObservedEndpoint:
    """A WebhookEndpoint and what it depends on.

    Attributes:
        health: None where nothing new is to be published since the status was written.
    """

    endpoint: WebhookEndpoint
    project: Parent | None
    secret: Secret | None
    health: Health | None
    allow_http: bool
    finalizer_grace: timedelta


def signing_secret_name(endpoint: str) -> str:
    """Return the name of an endpoint's signing Secret, shortened with a hash where it would be too long."""
    if len(endpoint) + len(_SUFFIX) <= _LONGEST_NAME:
        return endpoint + _SUFFIX
    digest = hashlib.sha256(endpoint.encode()).hexdigest()[:12]
    return f"{endpoint[: _LONGEST_NAME - len(_SUFFIX) - 13].rstrip('-.')}-{digest}{_SUFFIX}"


def valid_secret(text: str) -> bool:
    """Tell whether text is a signing secret: ``whsec_`` and base64 of 24 to 64 bytes (Standard Webhooks)."""
    try:
        return text.startswith(SECRET_PREFIX) and 24 <= len(base64.b64decode(text[6:], validate=True)) <= 64
    except (binascii.Error, ValueError):
        return False


def plan_endpoint(observed: ObservedEndpoint, *, now: datetime, new_secret: Callable[[], str]) -> Plan:
    """Plan: a finalizer, an owner, a signing Secret, a place in the registry, and the truth in the status."""
    if observed.endpoint.metadata.deletion_timestamp is not None:
        return _plan_deletion(observed, now)
    if observed.project is None:
        return _plan_orphan(observed, now)
    secret, making = _plan_secret(observed, new_secret)
    verdict = _verdict(observed, secret)
    actions: list[Action] = _plan_metadata(observed, observed.project)
    if making and FINALIZER in observed.endpoint.metadata.finalizers:
        # Known before its Secret is mended, so that no event passes it by if the mending fails.
        actions.append(Register(_snapshot(observed.endpoint, observed.secret, verdict)))
    actions.extend(making)
    actions.append(Register(_snapshot(observed.endpoint, secret, verdict)))
    actions.extend(_plan_status(observed, verdict, now))
    actions.extend(_plan_failures(observed))
    return Plan(tuple(actions), again_at=now + RECHECK if secret is not None and secret.foreign else None)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Whether deliveries can be signed and sent, and why (not)."""

    ready: bool
    reason: str
    message: str


def _key(endpoint: WebhookEndpoint) -> Key:
    return Key("WebhookEndpoint", endpoint.metadata.namespace, endpoint.metadata.name)


def _plan_deletion(observed: ObservedEndpoint, now: datetime) -> Plan:
    meta = observed.endpoint.metadata
    actions: list[Action] = [Unregister(meta.uid)]
    if FINALIZER in meta.finalizers:
        assert meta.deletion_timestamp is not None
        patient = now - meta.deletion_timestamp < observed.finalizer_grace
        actions.append(DiscardDeliveries(_key(observed.endpoint), meta.uid, essential=patient))
        remaining = tuple(name for name in meta.finalizers if name != FINALIZER)
        actions.append(RemoveFinalizer(_key(observed.endpoint), remaining, meta.resource_version))
    return Plan(tuple(actions))


def _plan_orphan(observed: ObservedEndpoint, now: datetime) -> Plan:
    endpoint = observed.endpoint
    name = endpoint.spec.project_ref.name
    verdict = _Verdict(
        ready=False,
        reason="ProjectNotFound",
        message=f"Project {name!r} does not exist in namespace {endpoint.metadata.namespace!r}; "
        "create it and this endpoint becomes ready by itself.",
    )
    return Plan((Register(_snapshot(endpoint, observed.secret, verdict)), *_plan_status(observed, verdict, now)))


def _plan_metadata(observed: ObservedEndpoint, project: Parent) -> list[Action]:
    meta = observed.endpoint.metadata
    owned = any(reference.uid == project.uid for reference in meta.owner_references)
    if owned and FINALIZER in meta.finalizers:
        return []
    return [
        ApplyMetadata(
            _key(observed.endpoint),
            meta.uid,
            owner_references=(owner_reference("Project", project, controller=True),),
            finalizers=(FINALIZER,),
        )
    ]


def _plan_secret(observed: ObservedEndpoint, new_secret: Callable[[], str]) -> tuple[Secret, list[Action]]:
    endpoint, known = observed.endpoint, observed.secret
    meta = endpoint.metadata
    owner = owner_reference("WebhookEndpoint", meta, controller=True)
    if known is None:
        made = Secret(
            namespace=meta.namespace,
            name=signing_secret_name(meta.name),
            fields={SECRET_FIELD: new_secret()},
            owner_uid=meta.uid,
            owner_references=(owner,),
            labels=ours(meta.uid),
        )
        lost = endpoint.status.signing_secret_ref is not None
        return made, [CreateSecret(made), *([_announce_new_secret(endpoint, made.name)] if lost else [])]
    if known.foreign:
        return known, []
    if known.owned_by(meta.uid) and ours(meta.uid).items() <= known.labels.items():
        return known, []
    mended = replace(known, owner_references=(owner,), labels=ours(meta.uid), owner_uid=meta.uid)
    return mended, [RestoreSecret(mended)]


def _announce_new_secret(endpoint: WebhookEndpoint, name: str) -> Announce:
    return Announce(
        _key(endpoint),
        endpoint.metadata.uid,
        "Warning",
        "SigningSecretRecreated",
        f"Secret {name!r} was gone and a new signing secret was made; the receiver must learn of it, "
        "for signatures made from now on do not match the old one.",
    )


def _verdict(observed: ObservedEndpoint, secret: Secret) -> _Verdict:
    spec = observed.endpoint.spec
    if secret.foreign:
        return _Verdict(
            ready=False,
            reason="SecretConflict",
            message=f"Secret {secret.name!r} exists and was not made for this endpoint; rename or delete it.",
        )
    if not valid_secret(secret.fields.get(SECRET_FIELD, "")):
        return _Verdict(
            ready=False,
            reason="SigningSecretInvalid",
            message=f"Secret {secret.name!r}: field 'secret' must be whsec_ and base64 of 24 to 64 bytes; "
            "mend it, or delete the Secret to have a new one made.",
        )
    if spec.url.startswith("http:") and not observed.allow_http:
        return _Verdict(
            ready=False,
            reason="InsecureUrl",
            message="spec.url is plain http, which this installation does not allow; "
            "use https, or set HOOKWRIGHT_ALLOW_HTTP=true for the operator.",
        )
    if spec.suspend:
        return _Verdict(ready=True, reason="Suspended", message="Deliveries are held until spec.suspend is false.")
    return _Verdict(ready=True, reason="Delivering", message="Deliveries are signed and sent.")


def _snapshot(endpoint: WebhookEndpoint, secret: Secret | None, verdict: _Verdict) -> Endpoint:
    spec, meta = endpoint.spec, endpoint.metadata
    usable = secret is not None and not secret.foreign
    kept = [secret.fields.get(name, "") for name in (SECRET_FIELD, PREVIOUS_FIELD)] if secret and usable else []
    return Endpoint(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        project=spec.project_ref.name,
        url=spec.url,
        events=frozenset(spec.events),
        suspend=spec.suspend,
        timeout=parse_duration(spec.timeout).total_seconds(),
        max_in_flight=spec.max_in_flight,
        headers=tuple(spec.headers.items()),
        secrets=tuple(text for text in kept if valid_secret(text)),
        blocked="" if verdict.ready else verdict.reason,
    )


def _plan_status(observed: ObservedEndpoint, verdict: _Verdict, now: datetime) -> list[Action]:
    endpoint = observed.endpoint
    before, meta = endpoint.status, endpoint.metadata
    ready = condition(
        "Ready",
        "True" if verdict.ready else "False",
        verdict.reason,
        verdict.message,
        generation=meta.generation,
        now=now,
    )
    kept = before.signing_secret_ref
    if observed.project is not None:
        kept = SecretKeyRef(name=signing_secret_name(meta.name), key=SECRET_FIELD)
    after = WebhookEndpointStatus(
        observed_generation=meta.generation,
        signing_secret_ref=kept,
        deliveries=observed.health.counts if observed.health else before.deliveries or DeliveryCounts(),
        conditions=tuple(merge(before.conditions, [ready, _reachable(observed, now)])),
    )
    if after == before:
        return []
    return [ApplyStatus(_key(endpoint), meta.uid, after.to_kubernetes())]


def _plan_failures(observed: ObservedEndpoint) -> list[Action]:
    """Announce deliveries that were given up, many at a time, for an event must cost no Kubernetes write."""
    health = observed.health
    if health is None or not health.failures:
        return []
    number = "1 delivery was" if health.failures == 1 else f"{health.failures} deliveries were"
    message = f"{number} given up after the last retry; the last error: {health.error or 'none'}."
    meta = observed.endpoint.metadata
    return [Announce(_key(observed.endpoint), meta.uid, "Warning", "DeliveryFailed", message)]


def _reachable(observed: ObservedEndpoint, now: datetime) -> Condition:
    generation = observed.endpoint.metadata.generation
    if observed.health is None or observed.health.counts.last_attempt_time is None:
        known = find(observed.endpoint.status.conditions, "Reachable")
        if known is not None:
            return known.model_copy(update={"observed_generation": generation})
        return condition(
            "Reachable", "Unknown", "NotTried", "Nothing was sent here yet.", generation=generation, now=now
        )
    if observed.health.error:
        return condition("Reachable", "False", "AttemptFailed", observed.health.error, generation=generation, now=now)
    return condition(
        "Reachable", "True", "Delivered", "The last attempt was answered 2xx.", generation=generation, now=now
    )
