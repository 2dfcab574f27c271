"""Pure: the plan for a WebhookEndpoint."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from hookwright_crds.base import MADE_BY_TOOLS, MANAGED_BY, format_timestamp
from hookwright_crds.conditions import SUSPENDED_AFTER_FAILURES, Condition, condition, find, merge, readiness
from hookwright_crds.events import Operational
from hookwright_crds.reading import UNDERSTOOD, Unsupported
from hookwright_crds.resources import (
    DeliveryCounts,
    SecretKeyRef,
    WebhookEndpoint,
    WebhookEndpointStatus,
)
from hookwright_operator.reconcile.credentials import Credentials, resolve
from hookwright_operator.reconcile.endpoint_verdict import (
    CONFLICT,
    UNSUPPORTED,
    EndpointVerdict,
    report_missing_project,
    report_missing_types,
    report_refused_write,
    report_suspension,
    report_unsupported,
    verdict_of,
)
from hookwright_operator.reconcile.operational_events import FAILING, FAILING_AFTER, RESUMED, plan_reports, report_of
from hookwright_operator.reconcile.plan import (
    FINALIZER,
    WRITE_REFUSED,
    Action,
    ApplyMetadata,
    DeleteEndpoint,
    DiscardDeliveries,
    Plan,
    Register,
    RemoveFinalizer,
    Unregister,
    event_of,
    plan_status,
)
from hookwright_operator.reconcile.signing_secret import (
    SECRET_FIELD,
    plan_referenced_secret,
    plan_signing_secret,
    previous_until,
    rotation_of,
    signing_secret_name,
    signing_secrets,
)
from hookwright_operator.registry import EXPIRED, Endpoint, Health
from hookwright_operator.watch.objects import Parent, Secret, key_of, project_references

PROTECTION_ANNOTATION: Final = "hookwright.dev/deletion-protection"
"""On a WebhookEndpoint: ``true`` keeps its pending deliveries when it expires; the chart's policy keeps the object."""


@dataclass(frozen=True, slots=True)
class FailedDeliveries:
    """Failed deliveries of one endpoint that are not yet reported in an Event.

    Attributes:
        number: how many.
        error: error of the last reported attempt, in plain words.
        since: time of the first report.
    """

    number: int
    error: str
    since: datetime


class DueFailures(NamedTuple):
    """The failed deliveries of an endpoint to report now, in an Event and in an operational event; None: no report."""

    event: FailedDeliveries | None = None
    operational_event: FailedDeliveries | None = None


NO_FAILURES: Final = DueFailures()


@dataclass(frozen=True, slots=True)
class ObservedEndpoint:
    """A WebhookEndpoint and its dependencies.

    Attributes:
        health: None if the status shows the health already.
        max_timeout: the longest timeout of an attempt in this installation, in seconds.
        failures: failed deliveries to report now.
        unsupported_parts: the parts of the endpoint that this version does not understand.
        refused_address: a URL's field, and why no request may connect to its literal address; empty if it may.
        refused_write: why the API server refuses a write for this endpoint, empty if no write was refused.
        kept_secrets: the secrets with which this replica signs, the current one first.
        credentials: the Secrets that its spec names and their tenant offers, by name.
        authorities: the certificates of the ConfigMaps that its spec names and their tenant offers, by name.
        own_types: the names of the EventTypes of its namespace.
    """

    endpoint: WebhookEndpoint
    project: Parent | None
    secret: Secret | None
    health: Health | None
    allow_http: bool
    finalizer_grace: timedelta
    max_timeout: float
    failures: DueFailures = NO_FAILURES
    unsupported_parts: Unsupported = UNDERSTOOD
    refused_address: str = ""
    refused_write: str = ""
    kept_secrets: tuple[str, ...] = field(default=(), repr=False)
    credentials: Mapping[str, Secret] = field(default_factory=dict)
    authorities: Mapping[str, str] = field(default_factory=dict)
    own_types: Collection[str] = ()


def plan_endpoint(observed: ObservedEndpoint, *, now: datetime, new_secret: Callable[[], str]) -> Plan:
    """Plan the finalizer, the owner, the signing Secret, the registration, the status, the expiry and the Events."""
    if observed.endpoint.metadata.deletion_timestamp is not None:
        return _plan_deletion(observed, now)
    plan = _plan_living(observed, now, new_secret)
    return replace(plan, actions=(*plan.actions, *_plan_failures(observed, now)))


def _plan_living(observed: ObservedEndpoint, now: datetime, new_secret: Callable[[], str]) -> Plan:
    endpoint = observed.endpoint
    if observed.unsupported_parts.faults:
        return _plan_held(observed, report_unsupported(observed.unsupported_parts), now)
    expires_at = endpoint.spec.expires_at
    if expires_at is not None and now >= expires_at:
        return _plan_expired(observed, expires_at, now)
    if observed.project is None:
        plan = _plan_held(
            observed, report_missing_project(endpoint.spec.project_ref.name, endpoint.metadata.namespace), now
        )
    elif observed.refused_write:
        plan = _plan_held(observed, report_refused_write(observed.refused_write), now)
    else:
        plan = _plan_served(observed, observed.project, now, new_secret)
    again_at = min((time for time in (plan.again_at, expires_at) if time is not None), default=None)
    return replace(plan, again_at=again_at)


def _plan_held(observed: ObservedEndpoint, verdict: EndpointVerdict, now: datetime) -> Plan:
    """Let events find the endpoint, but send nothing: their deliveries stay pending."""
    metadata: list[Action] = []
    if verdict.reason == UNSUPPORTED and observed.project is not None:
        metadata = _plan_metadata(observed, observed.project)
    register = Register(_snapshot(observed, observed.secret, verdict, _credentials(observed, now), now))
    return Plan((register, *metadata, *_plan_status(observed, verdict, now)))


def _plan_served(observed: ObservedEndpoint, project: Parent, now: datetime, new_secret: Callable[[], str]) -> Plan:
    spec = observed.endpoint.spec
    if spec.signing.secret_ref is not None:
        signing = plan_referenced_secret(observed.endpoint, observed.secret, now=now)
    else:
        signing = plan_signing_secret(
            observed.endpoint, observed.secret, observed.kept_secrets, now=now, new_secret=new_secret
        )
    reachable = _reachable(observed, now)
    credentials = _credentials(observed, now)
    certificate_end = credentials.tls.ends_at if credentials.tls is not None else None
    verdict = verdict_of(
        spec,
        signing.secret,
        unsupported_parts=observed.unsupported_parts,
        allow_http=observed.allow_http,
        max_timeout=observed.max_timeout,
        refused_address=observed.refused_address,
        credential_fault=credentials.fault,
        certificate_end=certificate_end,
        last_error=reachable.message if reachable.status == "False" else "",
    )
    if verdict.ready:
        verdict = report_missing_types(spec, observed.own_types) or verdict
    since = _suspended_since(observed, reachable)
    if since is not None and (verdict.ready or verdict.sends) and not spec.suspend:
        verdict = report_suspension(spec, since, reachable.message)
    actions: list[Action] = [*_plan_metadata(observed, project), *signing.actions]
    if actions and observed.endpoint.status != WebhookEndpointStatus():
        # The endpoint is registered before any repair, so that it gets its events even if the repair fails.
        actions.insert(0, Register(_snapshot(observed, observed.secret, verdict, credentials, now)))
    actions.append(Register(_snapshot(observed, signing.secret, verdict, credentials, now)))
    actions.extend(_plan_status(observed, verdict, now, signing.secret))
    end_ahead = certificate_end if certificate_end is not None and certificate_end > now else None
    again_at = min((time for time in (signing.again_at, end_ahead) if time is not None), default=None)
    return Plan(tuple(actions), again_at=again_at)


def _plan_deletion(observed: ObservedEndpoint, now: datetime) -> Plan:
    meta, key = observed.endpoint.metadata, key_of(observed.endpoint)
    actions: list[Action] = [Unregister(meta.uid)]
    if FINALIZER in meta.finalizers:
        assert meta.deletion_timestamp is not None
        patient = now - meta.deletion_timestamp < observed.finalizer_grace
        actions.append(DiscardDeliveries(key, meta.uid, essential=patient))
        remaining = tuple(name for name in meta.finalizers if name != FINALIZER)
        actions.append(RemoveFinalizer(key, remaining, meta.resource_version))
    return Plan(tuple(actions))


def _plan_expired(observed: ObservedEndpoint, expired_at: datetime, now: datetime) -> Plan:
    """Let an expired endpoint get nothing more, discard its pending deliveries, and delete it if a tool made it.

    A declared endpoint stays, because GitOps would create it again. While the API server refuses the deletion, for
    example by the deletion protection, the endpoint stays too. A protected endpoint keeps its pending deliveries. It is
    deleted only after counts that were read after it had expired, because the status may show older ones.
    """
    endpoint, meta = observed.endpoint, observed.endpoint.metadata
    ready = find(endpoint.status.conditions, "Ready")
    was_expired = ready is not None and ready.reason == EXPIRED
    pending = _counts(observed).pending
    is_protected = meta.annotations.get(PROTECTION_ANNOTATION) == "true"
    key, message = key_of(endpoint), f"The endpoint expired at {format_timestamp(expired_at)}."
    is_made_by_tool = meta.labels.get(MANAGED_BY) in MADE_BY_TOOLS
    is_empty = was_expired and observed.health is not None and not pending
    temporary = is_made_by_tool and (is_empty or not is_protected)
    if observed.refused_write:
        message += f" The API server refuses its deletion, which is tried again: {observed.refused_write}"
    elif is_protected and not temporary:
        message += (
            f" It gets no events. The annotation {PROTECTION_ANNOTATION} keeps its pending deliveries. Set a later "
            "spec.expiresAt to send them, or remove the annotation to discard them."
        )
    elif not temporary:
        message += (
            " It gets no events, and its pending deliveries are discarded. Set a later spec.expiresAt, or delete it."
        )
    verdict = EndpointVerdict(ready=False, reason=EXPIRED, message=message)
    register = Register(_snapshot(observed, observed.secret, verdict, _credentials(observed, now), now))
    if temporary and not observed.refused_write:
        event = event_of(endpoint, "Normal", EXPIRED, message)
        return Plan((register, DeleteEndpoint(key, meta.uid, meta.resource_version), event))
    discard: list[Action] = []
    if not is_protected and (not was_expired or pending):
        discard = [DiscardDeliveries(key, meta.uid, essential=True, is_expired=True)]
    actions = (register, *discard, *_plan_status(observed, verdict, now))
    return Plan(actions, counts_needed=is_made_by_tool and is_protected and not pending)


def _plan_metadata(observed: ObservedEndpoint, project: Parent) -> list[Action]:
    """Plan the owner, and the finalizer with the first counts: a deletion without deliveries has nothing to discard."""
    meta = observed.endpoint.metadata
    references = project_references(meta, project)
    is_held = FINALIZER in meta.finalizers
    finalizers = (FINALIZER,) if is_held or _counts(observed) != DeliveryCounts() else ()
    if references is None and is_held == bool(finalizers):
        return []
    owners = references if references is not None else meta.owner_references
    return [ApplyMetadata(key_of(observed.endpoint), meta.uid, owner_references=owners, finalizers=finalizers)]


def _counts(observed: ObservedEndpoint) -> DeliveryCounts:
    """Return the counts that the status shows after the plan."""
    return observed.health.counts if observed.health else observed.endpoint.status.deliveries or DeliveryCounts()


def _credentials(observed: ObservedEndpoint, now: datetime) -> Credentials:
    return resolve(observed.endpoint.spec, observed.credentials, observed.authorities, now)


def _snapshot(
    observed: ObservedEndpoint, secret: Secret | None, verdict: EndpointVerdict, credentials: Credentials, now: datetime
) -> Endpoint:
    encoding = observed.endpoint.spec.signing.encoding
    return Endpoint.of(
        observed.endpoint,
        max_timeout=observed.max_timeout,
        secrets=tuple(signing_secrets(secret, now=now, encoding=encoding)) if secret and not secret.foreign else (),
        secret_headers=credentials.secret_headers,
        oauth2=credentials.oauth2,
        tls=credentials.tls,
        block_reason="" if verdict.ready or verdict.sends else verdict.reason,
        rotation=rotation_of(secret) if secret is not None else 0,
        previous_until=previous_until(secret) if secret is not None else None,
    )


def _plan_status(
    observed: ObservedEndpoint, verdict: EndpointVerdict, now: datetime, secret: Secret | None = None
) -> list[Action]:
    """Plan the status, with the secret that signs after this plan, None if the plan does not change it."""
    endpoint = observed.endpoint
    before, meta = endpoint.status, endpoint.metadata
    ready = readiness(
        ready=verdict.ready,
        reason=verdict.reason,
        message=verdict.message,
        stalled=verdict.stalled,
        generation=meta.generation,
        now=now,
    )
    secret_ref, reference = before.signing_secret_ref, endpoint.spec.signing.secret_ref
    if reference is not None:
        secret_ref, secret = SecretKeyRef(name=reference.name, key=reference.key), None
    elif observed.project is not None and verdict.reason not in (CONFLICT, EXPIRED, WRITE_REFUSED):
        secret_ref = SecretKeyRef(name=signing_secret_name(meta.name), key=SECRET_FIELD)
    rotation = before.rotation if secret is None or secret.foreign else rotation_of(secret)
    after = WebhookEndpointStatus(
        observed_generation=meta.generation,
        signing_secret_ref=secret_ref,
        deliveries=_counts(observed),
        rotation=rotation,
        conditions=(*merge(before.conditions, ready), _reachable(observed, now)),
    )
    return [*plan_reports(endpoint, after, now), *plan_status(endpoint, after, ("Ready", "Reachable"))]


def _plan_failures(observed: ObservedEndpoint, now: datetime) -> list[Action]:
    """Report many failed deliveries together, because not every failure may cost a Kubernetes write or an event."""
    endpoint, reason, actions = observed.endpoint, "DeliveryFailed", list[Action]()
    if (failures := observed.failures.operational_event) is not None:
        kind, message = Operational.DELIVERY_FAILED, _failure_message(failures)
        since = failures.since.isoformat()
        actions.append(report_of(endpoint, kind, since, reason, message, now=now, count=failures.number))
    if (failures := observed.failures.event) is not None:
        details: dict[str, Any] = {"always": True, "count": failures.number, "since": failures.since}
        actions.append(event_of(endpoint, "Warning", reason, _failure_message(failures), **details))
    return actions


def _failure_message(failures: FailedDeliveries) -> str:
    number = "1 delivery" if failures.number == 1 else f"{failures.number} deliveries"
    return f"{number} failed after the last retry; last error: {failures.error or 'none'}."


def _reachable(observed: ObservedEndpoint, now: datetime) -> Condition:
    """Return the condition Reachable; its transition time is that of the first failure since the last success."""
    generation = observed.endpoint.metadata.generation
    previous = find(observed.endpoint.status.conditions, "Reachable")
    health = observed.health
    ready = find(observed.endpoint.status.conditions, "Ready")
    if ready is not None and ready.reason == SUSPENDED_AFTER_FAILURES:
        is_edited = observed.endpoint.status.observed_generation != generation
        if is_edited or (health is not None and health.resumed):
            message = "No attempt was made since the endpoint was resumed."
            return condition("Reachable", "Unknown", RESUMED, message, generation=generation, now=now)
    last_attempt = health.counts.last_attempt_time if health is not None else None
    if health is None or (last_attempt is None and not health.error) or _is_unchanged(observed, previous, health):
        if previous is not None:
            return previous.model_copy(update={"observed_generation": generation})
        message = "No message was taken yet." if observed.endpoint.spec.pull else "No attempt was made yet."
        return condition("Reachable", "Unknown", "NotTried", message, generation=generation, now=now)
    code, pull = health.counts.last_status_code or 0, observed.endpoint.spec.pull
    has_failed = bool(health.error) or not 200 <= code < 300
    since = now
    if previous is not None and previous.status == ("False" if has_failed else "True"):
        # A success and a failure since the last status begin a new time of failures.
        since = now if has_failed and health.succeeded else previous.last_transition_time
    if not has_failed:
        message = "The last message was acknowledged." if pull else "The last attempt was answered 2xx."
        return condition("Reachable", "True", "Delivered", message, generation=generation, now=since)
    # Without an attempt since the last update there is no new error, and the earlier message stays.
    old_message = previous.message if previous is not None and previous.status == "False" else ""
    answer = f"The last attempt was answered {code}." if code else "The last attempt had no HTTP answer."
    if pull:
        answer = "The last message was not acknowledged."
    message = _limited(health.error, health.limited_to) if health.error else old_message or answer
    # An attempt that got no access token is not recorded, so the last attempt is older.
    latest = now if health.error else last_attempt
    is_failing = latest is not None and latest - since > FAILING_AFTER
    reason = FAILING if is_failing else "AttemptFailed"
    return condition("Reachable", "False", reason, message, generation=generation, now=since)


def _is_unchanged(observed: ObservedEndpoint, previous: Condition | None, health: Health) -> bool:
    """Return whether no attempt was made since the last status, so that a failure or a resumption stays as it is."""
    if previous is None or previous.status == "True" or health.error or observed.endpoint.status.deliveries is None:
        return False
    has_recovered = previous.status == "False" and health.succeeded
    return (
        not has_recovered and observed.endpoint.status.deliveries.last_attempt_time == health.counts.last_attempt_time
    )


def _suspended_since(observed: ObservedEndpoint, reachable: Condition) -> datetime | None:
    """Return the first failure if a later one suspends the endpoint by ``spec.suspendAfter``, None otherwise."""
    spec = observed.endpoint.spec
    last_attempt = _counts(observed).last_attempt_time
    if spec.suspend_after is None or reachable.status != "False" or last_attempt is None:
        return None
    since = reachable.last_transition_time
    has_ended = last_attempt - since >= timedelta(days=int(spec.suspend_after.removesuffix("d")))
    return since if has_ended else None


def _limited(error: str, limited_to: int | None) -> str:
    if limited_to is None:
        return error
    attempts = "1 attempt" if limited_to == 1 else f"{limited_to} attempts"
    return f"{error}; limited to {attempts} at a time until one succeeds"
