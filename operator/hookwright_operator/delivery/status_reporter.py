"""Reports of delivery results to the cluster at a low rate, so that an event costs no Kubernetes write.

An endpoint's counts are published soon after a change, and then at most once per interval. A failed delivery is
published soon in any case. All endpoints together write at a bounded rate, and their namespaces take turns.

Only the leader publishes. Other replicas send their results to it at the same rate. If such a report is lost, the
leader corrects the status later, when it compares statuses with the counts in the store.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice, zip_longest
from typing import Annotated, Final

import structlog
from pydantic import Field, TypeAdapter, ValidationError

from hookwright_crds.events import is_operational
from hookwright_crds.resources import DeliveryCounts
from hookwright_operator import metrics
from hookwright_operator.registry import Endpoint, Health, Registry
from hookwright_operator.store.notifications import REPORTS
from hookwright_operator.store.records import Counts, Settlement, State
from hookwright_operator.store.sql import read
from hookwright_operator.store.store import Store

log = structlog.get_logger(__name__)

_SUCCESSES: Final = metrics.ATTEMPTS.labels("delivered")
_FAILURES: Final = metrics.ATTEMPTS.labels("failed")
_SOON: Final = 1.0
_URGENT_INTERVAL: Final = 5.0
"""Seconds between two publications of an endpoint with failed deliveries, or with deliveries that may not be sent."""
_PER_SECOND: Final = 20
"""Statuses that the leader publishes in one second."""
_TICK: Final = 0.5
_REPORTED_CHARACTERS: Final = 500
"""Length limit of an error text, because a notification carries about 8,000 bytes."""


@dataclass(slots=True)
class Report:
    """Results of one endpoint that a replica has seen since its last report to the leader.

    Attributes:
        error: of the last attempt, empty if it delivered; None if no attempt was made.
        succeeded: whether an attempt succeeded.
        failures: how many deliveries failed.
        operational_failures: how many of them were of operational events.
        limited_to: how many attempts at once the endpoint gets while its attempts time out, None otherwise.
        resumed: whether somebody resumed the suspended endpoint by a test or a retry.
    """

    uid: str
    error: str | None = None
    succeeded: bool = False
    failures: Annotated[int, Field(ge=0)] = 0
    operational_failures: Annotated[int, Field(ge=0)] = 0
    limited_to: Annotated[int, Field(ge=1)] | None = None
    resumed: bool = False

    def add(self, later: "Report") -> None:
        """Add the results of a later report of the same endpoint."""
        if later.error is not None:
            self.error, self.limited_to = later.error, later.limited_to
        self.succeeded |= later.succeeded
        self.resumed |= later.resumed
        self.failures += later.failures
        self.operational_failures += later.operational_failures


_REPORT: Final = TypeAdapter(Report)


@dataclass(slots=True)
class _UnpublishedResults:
    """Results of one endpoint since its counts were last published."""

    due_at: float
    report: Report


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
        self._unpublished: dict[str, _UnpublishedResults] = {}
        self._last: dict[str, float] = {}
        self._last_namespace = ""

    def attempted(self, endpoint: Endpoint, settlement: Settlement, *, limited_to: int | None = None) -> None:
        """Record the result of an attempt."""
        attempt = settlement.attempt
        if not endpoint.pulled:
            metrics.ATTEMPT_DURATION.observe(attempt.duration_ms / 1000)
        (_FAILURES if attempt.error else _SUCCESSES).inc()
        has_failed = settlement.state is State.FAILED
        report = Report(
            uid=endpoint.uid,
            error=attempt.error,
            succeeded=not attempt.error,
            failures=int(has_failed),
            operational_failures=int(has_failed and is_operational(settlement.event_type)),
            limited_to=limited_to,
        )
        self._note(report)

    def hindered(self, endpoint: Endpoint, error: str) -> None:
        """Record why no attempt can be made now."""
        self._note(Report(uid=endpoint.uid, error=error), urgent=True)

    def changed(self, uid: str) -> None:
        """Publish an endpoint's counts when they are due: soon if nothing may be sent to it."""
        endpoint = self._registry.get(uid)
        self._note(Report(uid=uid), urgent=endpoint is not None and not endpoint.sendable)

    def resume(self, endpoint: Endpoint) -> None:
        """Resume an endpoint after a successful test or a retry by hand, if the operator has suspended it."""
        if endpoint.suspended_after_failures:
            self._note(Report(uid=endpoint.uid, resumed=True), urgent=True)

    def record_report(self, text: str) -> None:
        """Record a report of another replica; ignored unless this replica is the leader."""
        if not self._leads():
            return
        try:
            report = _REPORT.validate_json(text)
        except ValidationError:
            log.warning("report of another replica is not valid, ignored; the replicas may run different versions")
            return
        # The other replica has already waited for more results.
        self._note(report, soon=0.0)

    def _note(self, report: Report, *, soon: float = _SOON, urgent: bool = False) -> None:
        now, last = self._clock(), self._last.get(report.uid, 0.0)
        results = self._unpublished.get(report.uid)
        if results is None:
            due_at = max(now + soon, last + self._interval)
            results = self._unpublished[report.uid] = _UnpublishedResults(due_at, Report(uid=report.uid))
        results.report.add(report)
        if report.failures or urgent:
            results.due_at = min(results.due_at, max(now + soon, last + _URGENT_INTERVAL))

    async def run(self) -> None:
        """Publish due counts, until cancelled."""
        while True:
            await asyncio.sleep(_TICK)
            now = self._clock()
            due = [uid for uid, results in self._unpublished.items() if results.due_at <= now]
            if self._leads():
                due = self._next_in_turn(due)
            await self._publish_all(due)
            if len(self._last) > len(self._registry):
                self._forget_deleted()

    def _next_in_turn(self, due: Iterable[str]) -> list[str]:
        """Return the endpoints that the leader publishes in this tick."""
        ranks = [(self._namespace(uid), self._unpublished[uid].due_at, uid) for uid in due]
        uids = _in_turns(ranks, int(_PER_SECOND * _TICK), after=self._last_namespace)
        if uids:
            self._last_namespace = self._namespace(uids[-1])
        return uids

    def _namespace(self, uid: str) -> str:
        endpoint = self._registry.get(uid)
        return "" if endpoint is None else endpoint.namespace

    async def flush(self) -> None:
        """Publish or report everything now, before the process ends or stops being the leader."""
        await self._publish_all(list(self._unpublished))

    async def _publish_all(self, uids: list[str]) -> None:
        if not self._leads():
            # The leader passes each text to `record_report`.
            self._store.notifications.send([self._reported(uid) for uid in uids], channel=REPORTS)
            return
        for uid in uids:
            # Results that are stored during the read belong to the next publication, so these results end before it.
            results = self._unpublished.pop(uid, None)
            if results is None:
                # `run` and `flush` overlap: the other one took these results during a read of counts.
                continue
            self._last[uid] = self._clock()
            try:
                counts = await self._store.read(read.counts_of, uid)
            except BaseException:
                self._restore(uid, results)
                raise
            endpoint = self._registry.get(uid)
            if endpoint is None:
                continue
            report = results.report
            health = Health(
                delivery_counts(counts), report.error or "", report.failures, report.operational_failures,
                report.limited_to, report.succeeded, report.resumed,
            )  # fmt: skip
            self._publish(endpoint, health)

    def _restore(self, uid: str, results: _UnpublishedResults) -> None:
        later = self._unpublished.get(uid)
        if later is not None:
            results.due_at = min(later.due_at, results.due_at)
            results.report.add(later.report)
        self._unpublished[uid] = results

    def _forget_deleted(self) -> None:
        for uid in self._last.keys() - {endpoint.uid for endpoint in self._registry}:
            del self._last[uid]

    def _reported(self, uid: str) -> str:
        report = self._unpublished.pop(uid).report
        self._last[uid] = self._clock()
        report.error = report.error[:_REPORTED_CHARACTERS] if report.error else report.error
        return _REPORT.dump_json(report, ensure_ascii=True).decode()


def _in_turns(due: Iterable[tuple[str, float, str]], count: int, *, after: str = "") -> list[str]:
    """Return the uids of at most ``count`` endpoints; namespaces take turns, and each begins with its oldest change.

    Only a namespace whose peers have no more due changes gets more than its equal part.

    Args:
        due: namespace, time at which the change is due, and uid of each endpoint.
        count: how many uids at most.
        after: the namespace that had the last turn. The turns go on with the next name.
    """
    of_namespace: dict[str, list[tuple[float, str]]] = {}
    for namespace, due_at, uid in due:
        of_namespace.setdefault(namespace, []).append((due_at, uid))
    names = sorted(of_namespace, key=lambda name: (name <= after, name))[:count]
    rounds = zip_longest(*(heapq.nsmallest(count, of_namespace[name]) for name in names))
    return [uid for _, uid in islice((change for turn in rounds for change in turn if change), count)]


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
