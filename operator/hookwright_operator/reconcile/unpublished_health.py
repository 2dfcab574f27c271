"""Delivery health that no status shows yet, and failed deliveries that no Event has reported yet.

A failing endpoint gets one Event in ten minutes, with the number of its failed deliveries.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from hookwright_operator.reconcile.endpoint import FailedDeliveries
from hookwright_operator.registry import Endpoint, Health
from hookwright_operator.watch.objects import Key
from hookwright_operator.watch.work_queue import WorkQueue

_EVENT_INTERVAL: Final = timedelta(minutes=10)


@dataclass(slots=True)
class UnpublishedHealth:
    """The health to publish and the failures to report, by endpoint uid."""

    queue: WorkQueue
    clock: Callable[[], datetime]
    _health: dict[str, Health] = field(default_factory=dict)
    _failures: dict[str, FailedDeliveries] = field(default_factory=dict)
    _reported_at: dict[str, datetime] = field(default_factory=dict)

    def publish(self, endpoint: Endpoint, health: Health) -> None:
        """Store an endpoint's health until a status shows it, and enqueue the endpoint."""
        if health.failures:
            failures = self._failures.get(endpoint.uid, FailedDeliveries(0, "", self.clock()))
            number, error = failures.number + health.failures, health.error or failures.error
            self._failures[endpoint.uid] = FailedDeliveries(number, error, failures.since)
        self._health[endpoint.uid] = health
        self.queue.add(Key("WebhookEndpoint", endpoint.namespace, endpoint.name))

    def health(self, uid: str) -> Health | None:
        """Return the health that no status shows yet."""
        return self._health.get(uid)

    def failures(self, uid: str, now: datetime) -> FailedDeliveries | None:
        """Return the failures to report now, None if there are none or if it is too early."""
        due_at = self.event_due_at(uid)
        return self._failures[uid] if due_at is not None and due_at <= now else None

    def event_due_at(self, uid: str) -> datetime | None:
        """Return the time of the next report, None if there is nothing to report."""
        failures, reported_at = self._failures.get(uid), self._reported_at.get(uid)
        if failures is None:
            return None
        return max(failures.since, reported_at + _EVENT_INTERVAL) if reported_at is not None else failures.since

    def health_published(self, uid: str, health: Health | None) -> None:
        """Forget this health, because a status shows it; a newer one stays."""
        if health is not None and self._health.get(uid) is health:
            del self._health[uid]

    def failures_reported(self, uid: str, failures: FailedDeliveries, now: datetime) -> None:
        """Record that an Event has reported these failures; later ones stay."""
        total = self._failures.pop(uid, None)
        if total is None:
            return
        self._reported_at[uid] = now
        if total.number > failures.number:
            self._failures[uid] = FailedDeliveries(total.number - failures.number, total.error, now)

    def forget(self, uid: str) -> None:
        """Forget a deleted endpoint."""
        self._health.pop(uid, None)
        self._failures.pop(uid, None)
        self._reported_at.pop(uid, None)
