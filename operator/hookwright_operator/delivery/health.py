"""Tells the cluster what deliveries have shown of endpoints, rarely: an event costs no Kubernetes write.

An endpoint's counts are published soon after something changed, and then no more often than the interval;
a delivery that was given up is published soon in any case. All endpoints together write at a bounded rate.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

import structlog

from hookwright_crds.resources import DeliveryCounts
from hookwright_operator import metrics
from hookwright_operator.registry import Endpoint, Health, Registry
from hookwright_operator.store.model import Counts, Settlement, State

log = structlog.get_logger(__name__)

_SOON: Final = 1.0
_FAILURE_INTERVAL: Final = 5.0
_PER_TICK: Final = 20
_TICK: Final = 0.5


class CountsStore(Protocol):
    """What publishing needs of the store."""

    async def counts_of(self, endpoint_uid: str) -> Counts | None:
        """Return an endpoint's counters."""


@dataclass(slots=True)
class _Pulse:
    """What happened at one endpoint since its counts were last published."""

    due_at: float
    error: str = ""
    failures: int = 0


class HealthPublisher:
    """Gathers what became of attempts and hands it, at its time, to reconciling.

    Args:
        publish: is given the endpoint and its health; it writes the status.
        interval: seconds between two publications of one endpoint, failures apart.
    """

    def __init__(
        self,
        store: CountsStore,
        registry: Registry,
        publish: Callable[[Endpoint, Health], None],
        *,
        interval: float,
        clock: Callable[[], float],
    ) -> None:
        self._store, self._registry, self._publish = store, registry, publish
        self._interval, self._clock = interval, clock
        self._pulses: dict[str, _Pulse] = {}
        self._last: dict[str, float] = {}

    def attempted(self, endpoint: Endpoint, settlement: Settlement) -> None:
        """Take note of an attempt's result."""
        attempt = settlement.attempt
        metrics.ATTEMPT_DURATION.observe(attempt.duration_ms / 1000)
        metrics.ATTEMPTS.labels("failed" if attempt.error else "delivered").inc()
        pulse = self.changed(endpoint.uid)
        pulse.error = attempt.error
        if settlement.state is State.FAILED:
            log.warning(
                "delivery given up",
                delivery=settlement.delivery_id, namespace=endpoint.namespace, endpoint=endpoint.name,
                attempts=attempt.number, status=attempt.status_code, error=attempt.error,
            )  # fmt: skip
            pulse.failures += 1
            soonest = max(self._clock() + _SOON, self._last.get(endpoint.uid, 0.0) + _FAILURE_INTERVAL)
            pulse.due_at = min(pulse.due_at, soonest)

    def changed(self, uid: str) -> _Pulse:
        """Have an endpoint's counts published when its time comes."""
        pulse = self._pulses.get(uid)
        if pulse is None:
            due_at = max(self._clock() + _SOON, self._last.get(uid, 0.0) + self._interval)
            pulse = self._pulses[uid] = _Pulse(due_at)
        return pulse

    def forget(self, live: Iterable[str]) -> None:
        """Forget endpoints that are gone."""
        for uid in self._last.keys() - set(live):
            del self._last[uid]

    async def run(self) -> None:
        """Publish what is due, until cancelled."""
        while True:
            await asyncio.sleep(_TICK)
            now = self._clock()
            due = [uid for uid, pulse in self._pulses.items() if pulse.due_at <= now]
            await self._publish_all(sorted(due, key=lambda uid: self._pulses[uid].due_at)[: int(_PER_TICK * _TICK)])

    async def flush(self) -> None:
        """Publish everything now; for the end of the process."""
        await self._publish_all(list(self._pulses))

    async def _publish_all(self, uids: list[str]) -> None:
        for uid in uids:
            counts = await self._store.counts_of(uid)
            pulse = self._pulses.pop(uid)
            endpoint = self._registry.get(uid)
            if endpoint is None or counts is None:
                continue
            self._last[uid] = self._clock()
            self._publish(endpoint, Health(delivery_counts(counts), pulse.error, pulse.failures))


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
