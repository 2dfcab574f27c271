"""Reconciles one object: observe, plan, apply.

If several replicas serve one installation, the leader executes whole plans. The other replicas execute only the actions
for their own registry of projects and endpoints. The watch shows them the leader's writes.
"""

import base64
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

from hookwright_crds.keys import mint
from hookwright_crds.resources import ApiKey, EventType, Project, Resource, WebhookEndpoint
from hookwright_operator.delivery.http.signatures import new_secret
from hookwright_operator.delivery.status_reporter import StatusReporter
from hookwright_operator.leader.election import Leadership
from hookwright_operator.reconcile.apikey import plan_apikey
from hookwright_operator.reconcile.applier import Applier
from hookwright_operator.reconcile.endpoint import NO_FAILURES, plan_endpoint
from hookwright_operator.reconcile.event_type import plan_event_type
from hookwright_operator.reconcile.observer import ResourceObserver
from hookwright_operator.reconcile.plan import (
    FINALIZER,
    CreateSecret,
    DiscardDeliveries,
    Plan,
    Register,
    RegistryAction,
    SecretAction,
    UpdateSecret,
)
from hookwright_operator.reconcile.project import plan_project
from hookwright_operator.reconcile.unpublished_health import UnpublishedHealth
from hookwright_operator.registry import Registry
from hookwright_operator.watch.cache import Cache
from hookwright_operator.watch.objects import Key
from hookwright_operator.watch.work_queue import WorkQueue
from hookwright_runtime.errors import KubeError, KubeUnavailable, WriteRefused

_SHOWN_CHARACTERS: Final = 500
_MISSING_RIGHT: Final = re.compile(r"cannot (create|patch|update|delete|get) resource")
_WEBHOOK: Final = "failed calling webhook"
"""In the message of an admission webhook that gives no answer."""


@dataclass(frozen=True, slots=True)
class Reconciler:
    """The parts that observe and change the cluster and this replica's registry."""

    queue: WorkQueue
    cache: Cache
    registry: Registry
    leadership: Leadership
    observer: ResourceObserver
    applier: Applier
    unpublished_health: UnpublishedHealth
    reporter: StatusReporter
    clock: Callable[[], datetime]

    async def run(self) -> None:
        """Reconcile the keys of the work queue until cancelled."""
        await self.queue.run(self.reconcile)

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one object; return the seconds until the next reconcile, or None."""
        resource = self.cache.resource(key)
        uid = resource.metadata.uid if resource is not None else ""
        self._unregister_deleted(key, uid)
        again = None
        if resource is not None:
            again = await (self._lead(resource) if self.leadership.holds else self._follow(resource))
        await self.applier.discard_remaining(key, uid)
        return again

    async def _lead(self, resource: Resource) -> float | None:
        """Execute the whole plan for an object."""
        now, uid = self.clock(), resource.metadata.uid
        health, failures = self.unpublished_health.health(uid), self.unpublished_health.failures(uid, now)
        plan = await self._plan(resource, now, leads=True)
        news, failure = False, None
        try:
            news = await self._apply(plan)
        except KubeError as error:
            # Neither the status nor the log may show a secret that the answer repeats.
            failure = error.explained(without_secrets(error.explanation, plan))
        if failure is not None:
            if not _is_refusal(failure):
                raise failure
            await self._report_refusal(resource, now, shortened(failure.explanation))
            if _is_missing_right(failure):
                raise failure
            raise WriteRefused(str(failure), status=failure.status, reason=failure.reason)
        self.unpublished_health.failures_reported(uid, failures, now)
        if plan.counts_needed or (isinstance(resource, WebhookEndpoint) and _lost_counts(resource)):
            self.reporter.changed(uid)
        self.unpublished_health.health_published(uid, health)
        if news:
            # The watch shows nothing more than the answers, which showed other clients' writes.
            return 0.0
        return _seconds_until(now, plan.again_at, self.unpublished_health.report_due_at(uid))

    async def _report_refusal(self, resource: Resource, now: datetime, reason: str) -> None:
        """Show in the status that the API server refuses a write; events find an endpoint nevertheless."""
        uid = resource.metadata.uid
        failures = self.unpublished_health.failures(uid, now)
        await self._apply(await self._plan(resource, now, leads=True, refused_write=reason or "it gives no reason"))
        # The write is tried again soon, and each try would report the same failures.
        self.unpublished_health.failures_reported(uid, failures, now)

    async def _apply(self, plan: Plan) -> bool:
        """Execute a plan; return whether an answer of the API server showed more than what was written."""
        news = False
        for action in plan.actions:
            news |= await self.applier.apply(action)
            if isinstance(action, DiscardDeliveries) and action.is_expired:
                # The endpoint exists, so its status must show the new counts.
                self.reporter.changed(action.uid)
        return news

    async def _follow(self, resource: Resource) -> float | None:
        """Execute the actions for this replica's registry, up to the first Secret that the leader must write."""
        now, uid = self.clock(), resource.metadata.uid
        plan = await self._plan(resource, now, leads=False)
        # The leader publishes the health of all endpoints.
        self.unpublished_health.health_published(uid, self.unpublished_health.health(uid))
        for number, action in enumerate(plan.actions):
            if isinstance(action, RegistryAction):
                self.applier.register(action)
            elif isinstance(action, SecretAction):
                self._register_without_secret(plan, number)
                break
        return _seconds_until(now, plan.again_at)

    def _register_without_secret(self, plan: Plan, number: int) -> None:
        """Register an endpoint that has no Secret yet; its deliveries stay pending until the Secret exists."""
        later = next((action.endpoint for action in plan.actions[number:] if isinstance(action, Register)), None)
        if later is not None and self.registry.get(later.uid) is None:
            self.registry.put(replace(later, secrets=()))

    async def _plan(self, resource: Resource, now: datetime, *, leads: bool, refused_write: str = "") -> Plan:
        match resource:
            case Project():
                return plan_project(self.observer.project(resource), now=now)
            case EventType():
                return plan_event_type(self.observer.event_type(resource), now=now)
            case ApiKey():
                observed_key = await self.observer.apikey(resource, leads=leads)
                observed_key = replace(observed_key, refused_write=refused_write)
                return plan_apikey(observed_key, now=now, mint=lambda key_id: mint(secrets.choice, key_id=key_id))
            case WebhookEndpoint():
                uid = resource.metadata.uid
                health = self.unpublished_health.health(uid)
                failures = self.unpublished_health.failures(uid, now) if leads else NO_FAILURES
                observed = await self.observer.endpoint(resource, health, failures, leads=leads)
                observed = replace(observed, refused_write=refused_write)
                return plan_endpoint(observed, now=now, new_secret=partial(new_secret, secrets.token_bytes))

    def _unregister_deleted(self, key: Key, uid: str) -> None:
        """Unregister deleted objects of this key, even if their finalizer was removed or their name is in use again."""
        if key.kind == "Project" and not uid:
            self.registry.remove_project(key.namespace, key.name)
        if key.kind == "EventType" and not uid:
            self.registry.remove_event_type(key.namespace, key.name)
        endpoint = self.registry.find(key.namespace, key.name) if key.kind == "WebhookEndpoint" else None
        if endpoint is not None and endpoint.uid != uid:
            self.applier.unregister(endpoint.uid)


def _lost_counts(endpoint: WebhookEndpoint) -> bool:
    """Return whether the status was wiped; a new endpoint has no counts either, but it has no finalizer yet."""
    return endpoint.status.deliveries is None and FINALIZER in endpoint.metadata.finalizers


def _seconds_until(now: datetime, *times: datetime | None) -> float | None:
    soonest = min((time for time in times if time is not None), default=None)
    return (soonest - now).total_seconds() if soonest is not None else None


def _is_refusal(error: KubeError) -> bool:
    """Return whether the API server refused a write, and will refuse it again until somebody changes something.

    A conflict or a missing object ends with the next plan.
    """
    if isinstance(error, KubeUnavailable):
        return _WEBHOOK in error.explanation
    return error.status in (400, 403, 405, 406, 413, 422)


def _is_missing_right(error: KubeError) -> bool:
    """Return whether RBAC refused the write; an administrator of the installation must correct this, not the tenant."""
    return _MISSING_RIGHT.search(error.explanation) is not None


def without_secrets(explanation: str, plan: Plan) -> str:
    """Return the API server's message without the secrets that the plan writes.

    An admission webhook may repeat the object that it refuses.
    """
    for action in plan.actions:
        if isinstance(action, CreateSecret | UpdateSecret):
            for text in filter(None, action.secret.fields.values()):
                for form in (text, base64.b64encode(text.encode()).decode()):
                    explanation = explanation.replace(form, "[secret]")
    return explanation


def shortened(explanation: str) -> str:
    """Return the beginning of a message, as long as a condition shows it."""
    return explanation if len(explanation) <= _SHOWN_CHARACTERS else f"{explanation[:_SHOWN_CHARACTERS]}…"
