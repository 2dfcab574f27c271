"""Delivery health that no status shows yet, and failed deliveries that nothing has reported yet.

A failing endpoint gets one Event in ten minutes, and one operational event in a minute, each with the number of its
failed deliveries.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from hookwright_operator.reconcile.endpoint import DueFailures, FailedDeliveries
from hookwright_operator.registry import Endpoint, Health
from hookwright_operator.watch.objects import Key
from hookwright_operator.watch.work_queue import WorkQueue

_EVENT_INTERVAL: Final = timedelta(minutes=10)
_OPERATIONAL_INTERVAL: Final = timedelta(minutes=1)


@dataclass(slots=True)
class UnreportedFailures:
    """Failed deliveries of each endpoint, by its uid, which are reported once in an interval."""

    interval: timedelta
    _failures: dict[str, FailedDeliveries] = field(default_factory=dict)
    _reported_at: dict[str, datetime] = field(default_factory=dict)

    def add(self, uid: str, number: int, error: str, now: datetime) -> None:
        """Add failed deliveries, if the number is not 0."""
        if number:
            earlier = self._failures.get(uid, FailedDeliveries(0, "", now))
            self._failures[uid] = replace(earlier, number=earlier.number + number, error=error or earlier.error)

    def due(self, uid: str, now: datetime) -> FailedDeliveries | None:
        """Return the failures to report now, None if there are none or if it is too early."""
        due_at = self.due_at(uid)
        return self._failures[uid] if due_at is not None and due_at <= now else None

    def due_at(self, uid: str) -> datetime | None:
        """Return the time of the next report, None if there is nothing to report."""
        failures, reported_at = self._failures.get(uid), self._reported_at.get(uid)
        if failures is None:
            return None
        return max(failures.since, reported_at + self.interval) if reported_at is not None else failures.since

    def reported(self, uid: str, failures: FailedDeliveries | None, now: datetime) -> None:
        """Record that these failures are reported; later ones stay."""
        total = self._failures.pop(uid, None) if failures is not None else None
        if total is None or failures is None:
            return
        self._reported_at[uid] = now
        if total.number > failures.number:
            self._failures[uid] = FailedDeliveries(total.number - failures.number, total.error, now)

    def forget(self, uid: str) -> None:
        """Forget a deleted endpoint."""
        self._failures.pop(uid, None)
        self._reported_at.pop(uid, None)


@dataclass(slots=True)
class UnpublishedHealth:
    """The health to publish and the failures to report, by endpoint uid."""

    queue: WorkQueue
    clock: Callable[[], datetime]
    _health: dict[str, Health] = field(default_factory=dict)
    _for_events: UnreportedFailures = field(default_factory=lambda: UnreportedFailures(_EVENT_INTERVAL))
    _for_operational_events: UnreportedFailures = field(
        default_factory=lambda: UnreportedFailures(_OPERATIONAL_INTERVAL)
    )

    def publish(self, endpoint: Endpoint, health: Health) -> None:
        """Store an endpoint's health until a status shows it, and enqueue the endpoint."""
        uid, now = endpoint.uid, self.clock()
        self._for_events.add(uid, health.failures, health.error, now)
        # A failed operational event causes no further one, because two failing endpoints would never end.
        self._for_operational_events.add(uid, health.failures - health.operational_failures, health.error, now)
        earlier = self._health.get(uid)
        if earlier is not None:
            succeeded, resumed = health.succeeded or earlier.succeeded, health.resumed or earlier.resumed
            health = replace(health, succeeded=succeeded, resumed=resumed)
        self._health[uid] = health
        self.queue.add(Key("WebhookEndpoint", endpoint.namespace, endpoint.name))

    def health(self, uid: str) -> Health | None:
        """Return the health that no status shows yet."""
        return self._health.get(uid)

    def failures(self, uid: str, now: datetime) -> DueFailures:
        """Return the failures to report now."""
        return DueFailures(self._for_events.due(uid, now), self._for_operational_events.due(uid, now))

    def report_due_at(self, uid: str) -> datetime | None:
        """Return the time of the next report, None if there is nothing to report."""
        times = (self._for_events.due_at(uid), self._for_operational_events.due_at(uid))
        return min((time for time in times if time is not None), default=None)

    def health_published(self, uid: str, health: Health | None) -> None:
        """Forget this health, because a status shows it; a newer one stays."""
        if health is not None and self._health.get(uid) is health:
            del self._health[uid]

    def failures_reported(self, uid: str, failures: DueFailures, now: datetime) -> None:
        """Record that these failures are reported; later ones stay."""
        self._for_events.reported(uid, failures.event, now)
        self._for_operational_events.reported(uid, failures.operational_event, now)

    def forget(self, uid: str) -> None:
        """Forget a deleted endpoint."""
        self._health.pop(uid, None)
        self._for_events.forget(uid)
        self._for_operational_events.forget(uid)
