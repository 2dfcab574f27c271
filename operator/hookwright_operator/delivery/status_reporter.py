"""Reports of delivery results to the cluster at a low rate, so that an event costs no Kubernetes write.

An endpoint's counts are published soon after a change, and then at most once per interval. A failed delivery is
published soon in any case. All endpoints together write at a bounded rate.

Only the leader publishes. Other replicas send their results to it at the same rate. If such a report is lost, the
leader corrects the status later, when it compares statuses with the counts in the store.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import structlog
from pydantic import BaseModel, Field, ValidationError

from hookwright_crds.resources import DeliveryCounts
from hookwright_operator import metrics
from hookwright_operator.registry import Endpoint, Health, Registry
from hookwright_operator.store.records import Counts, Settlement, State
from hookwright_operator.store.store import Store

log = structlog.get_logger(__name__)

_DELIVERED: Final = metrics.ATTEMPTS.labels("delivered")
_FAILED: Final = metrics.ATTEMPTS.labels("failed")
_SOON: Final = 1.0
_URGENT_INTERVAL: Final = 5.0
"""Seconds between two publications of an endpoint with failed deliveries, or with deliveries that may not be sent."""
_PER_TICK: Final = 20
_TICK: Final = 0.5
_REPORTED_CHARACTERS: Final = 500
"""Length limit of an error text, because a notification carries about 8,000 bytes."""


class Report(BaseModel):
    """Results of one endpoint that a replica has seen since its last report to the leader.

    Attributes:
        error: of the last attempt, empty if it delivered; None if no attempt was made.
        failures: how many deliveries failed.
        limited_to: how many attempts at once the endpoint gets while its attempts time out, None otherwise.
    """

    uid: str
    error: str | None = None
    failures: int = Field(default=0, ge=0)
    limited_to: int | None = Field(default=None, ge=1)


@dataclass(slots=True)
class _Pulse:
    """Results of one endpoint since its counts were last published."""

    due_at: float
    error: str | None = None
    failures: int = 0
    limited_to: int | None = None


class StatusReporter:
    """Collects the results of attempts and passes them to reconciling when they are due.

    Args:
        publish: called with the endpoint and its health; writes the status.
        interval: seconds between two publications of one endpoint; failed deliveries are published earlier.
        leads: returns whether this replica is the leader.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        publish: Callable[[Endpoint, Health], None],
        *,
        interval: float,
        clock: Callable[[], float],
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self._store, self._registry, self._publish = store, registry, publish
        self._interval, self._clock = interval, clock
        self._leads = leads
        self._pulses: dict[str, _Pulse] = {}
        self._last: dict[str, float] = {}

    def attempted(self, endpoint: Endpoint, settlement: Settlement, *, limited_to: int | None = None) -> None:
        """Record the result of an attempt."""
        attempt = settlement.attempt
        if not endpoint.pulled:
            metrics.ATTEMPT_DURATION.observe(attempt.duration_ms / 1000)
        (_FAILED if attempt.error else _DELIVERED).inc()
        failures = int(settlement.state is State.FAILED)
        self._note(endpoint.uid, attempt.error, failures=failures, limited_to=limited_to)

    def changed(self, uid: str) -> None:
        """Publish an endpoint's counts when they are due: soon if nothing may be sent to it."""
        endpoint = self._registry.get(uid)
        self._note(uid, None, urgent=endpoint is not None and not endpoint.sendable)

    def heard(self, word: str) -> None:
        """Record a report of another replica; ignored unless this replica is the leader."""
        if not self._leads():
            return
        try:
            report = Report.model_validate_json(word)
        except ValidationError:
            log.warning("report of another replica is not valid, ignored; the replicas may run different versions")
            return
        # The other replica has already waited for more results.
        self._note(report.uid, report.error, failures=report.failures, limited_to=report.limited_to, soon=0.0)

    def _note(
        self,
        uid: str,
        error: str | None,
        *,
        failures: int = 0,
        limited_to: int | None = None,
        soon: float = _SOON,
        urgent: bool = False,
    ) -> None:
        now, last = self._clock(), self._last.get(uid, 0.0)
        pulse = self._pulses.get(uid)
        if pulse is None:
            pulse = self._pulses[uid] = _Pulse(max(now + soon, last + self._interval))
        if error is not None:
            pulse.error, pulse.limited_to = error, limited_to
        pulse.failures += failures
        if failures or urgent:
            pulse.due_at = min(pulse.due_at, max(now + soon, last + _URGENT_INTERVAL))

    async def run(self) -> None:
        """Publish due counts, until cancelled."""
        while True:
            await asyncio.sleep(_TICK)
            now = self._clock()
            due = [uid for uid, pulse in self._pulses.items() if pulse.due_at <= now]
            if self._leads():
                due = sorted(due, key=lambda uid: self._pulses[uid].due_at)[: int(_PER_TICK * _TICK)]
            await self._publish_all(due)
            if len(self._last) > len(self._registry):
                self._forget_deleted()

    async def flush(self) -> None:
        """Publish or report everything now, before the process ends or stops being the leader."""
        await self._publish_all(list(self._pulses))

    async def _publish_all(self, uids: list[str]) -> None:
        if not self._leads():
            # The leader passes each text to `heard`.
            self._store.reports.report([self._reported(uid) for uid in uids])
            return
        for uid in uids:
            # Results that are stored during the read belong to the next publication, so the pulse ends before it.
            pulse = self._pulses.pop(uid, None)
            if pulse is None:
                # `run` and `flush` overlap: the other one took this pulse during a read of counts.
                continue
            self._last[uid] = self._clock()
            try:
                counts = await self._store.counts_of(uid)
            except BaseException:
                self._restore(uid, pulse)
                raise
            endpoint = self._registry.get(uid)
            if endpoint is None:
                continue
            health = Health(delivery_counts(counts), pulse.error or "", pulse.failures, pulse.limited_to)
            self._publish(endpoint, health)

    def _restore(self, uid: str, pulse: _Pulse) -> None:
        later = self._pulses.setdefault(uid, pulse)
        if later is not pulse:
            later.due_at = min(later.due_at, pulse.due_at)
            later.failures += pulse.failures
            if later.error is None:
                later.error, later.limited_to = pulse.error, pulse.limited_to

    def _forget_deleted(self) -> None:
        for uid in self._last.keys() - {endpoint.uid for endpoint in self._registry}:
            del self._last[uid]

    def _reported(self, uid: str) -> str:
        pulse = self._pulses.pop(uid)
        self._last[uid] = self._clock()
        error = pulse.error[:_REPORTED_CHARACTERS] if pulse.error else pulse.error
        report = Report(uid=uid, error=error, failures=pulse.failures, limited_to=pulse.limited_to)
        return report.model_dump_json(ensure_ascii=True)


def delivery_counts(counts: Counts) -> DeliveryCounts:
    """Return the store's counters as a status shows them."""
    last = counts.last_attempt_ms
    return DeliveryCounts(
        pending=counts.pending,
        delivered=counts.delivered,
        failed=counts.failed,
        discarded=counts.discarded,
        last_attempt_time=datetime.fromtimestamp(last / 1000, tz=UTC) if last is not None else None,
        last_status_code=counts.last_status_code,
    )
