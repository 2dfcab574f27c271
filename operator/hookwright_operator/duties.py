"""Duties of the leader besides reconciling.

The leader removes old rows, repairs missed updates, and keeps the gauges of the store up to date.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from hookwright_operator import measuring, metrics
from hookwright_operator.audit import uids_of
from hookwright_operator.delivery.health import HealthPublisher, delivery_counts
from hookwright_operator.kube import Kube
from hookwright_operator.leading import Term
from hookwright_operator.reconcile.cache import Cache
from hookwright_operator.reconcile.plan import Key
from hookwright_operator.registry import Registry
from hookwright_operator.store.orphans import plan_orphans
from hookwright_operator.store.store import Store
from hookwright_operator.supervise import Supervisor

log = structlog.get_logger(__name__)

_DAY_MS: Final = 86_400_000
_PRUNED_AT_ONCE: Final = 500
_PRUNE_PAUSE: Final = 60.0
# While more rows can be removed, pruning takes at most a fifth of the writer's time.
_PRUNE_REST: Final = 4
_GAUGES_PAUSE: Final = 5.0
_ORPHAN_PAUSE: Final = 60.0
_TERM_PAUSE: Final = 0.2


@dataclass(frozen=True, slots=True)
class Duties:
    """The loops and single actions of a leader; each may raise StoreUnavailable, and must then be started again."""

    kube: Kube
    store: Store
    registry: Registry
    cache: Cache
    health: HealthPublisher
    clock_ms: Callable[[], int]
    orphan_grace_ms: int

    async def publish_lost_counts(self) -> None:
        """Publish the counts of the endpoints whose status differs from the store."""
        counts = await self.store.counts()
        for endpoint in self.registry:
            kept = counts.get(endpoint.uid)
            resource = self.cache.resource(Key("WebhookEndpoint", endpoint.namespace, endpoint.name))
            shown = getattr(getattr(resource, "status", None), "deliveries", None)
            if kept is not None and delivery_counts(kept) != shown:
                self.health.changed(endpoint.uid)

    async def discard_orphans(self) -> None:
        """Discard pending deliveries of endpoints that have been missing in the cluster for the whole grace time.

        Call it only if every namespace is served.

        Raises:
            KubeError: the API server does not list the endpoints.
        """
        since, now = await self.store.orphans.since(), self.clock_ms()
        found = await self._missing()
        plan = plan_orphans(found, since, now_ms=now, grace_ms=self.orphan_grace_ms)
        if plan.new or plan.expired:
            # Another replica may have seen a new endpoint, and accepted events for it, before this replica's watch
            # shows it.
            found -= await uids_of(self.kube, "WebhookEndpoint", ())
            plan = plan_orphans(found, since, now_ms=now, grace_ms=self.orphan_grace_ms)
        await self.store.orphans.record(new=plan.new, ended=plan.ended, now_ms=now)
        for uid in plan.new - plan.expired:
            log.warning("endpoint missing in the cluster, keeping its pending deliveries", endpoint=uid)
        for uid in plan.expired:
            discarded = await self.store.discard(uid, "endpoint deleted")
            metrics.DELIVERIES.labels("discarded").inc(discarded)
            log.warning("endpoint deleted, discarded its pending deliveries", endpoint=uid, deliveries=discarded)
        await self.store.orphans.record(new=(), ended=plan.expired, now_ms=now)
        orphaned = found - plan.expired
        counts = await self.store.counts() if orphaned else {}
        metrics.ORPHANED.set(sum(counts[uid].pending for uid in orphaned if uid in counts))

    async def watch_orphans(self) -> None:
        """Discard orphans when their grace time ends, until cancelled."""
        while True:
            await asyncio.sleep(_ORPHAN_PAUSE)
            await self.discard_orphans()

    async def _missing(self) -> set[str]:
        """Return the endpoints that have pending deliveries or a running replay, and that no watch has shown."""
        recovering = {job.endpoint_uid for job in await self.store.running_recoveries()}
        live = {endpoint.uid for endpoint in self.registry} | {uid for _, uid in self.cache.names("WebhookEndpoint")}
        return set(await self.store.pending_uids() | recovering) - live

    async def prune(self, *, retain_delivered: float, retain_failed: float) -> None:
        """Remove deliveries after their retention time in days, repeatedly, until cancelled."""
        while True:
            now, began = self.clock_ms(), time.perf_counter()
            removed = await self.store.prune(
                delivered_before_ms=now - int(retain_delivered * _DAY_MS),
                failed_before_ms=now - int(retain_failed * _DAY_MS),
                limit=_PRUNED_AT_ONCE,
            )
            await asyncio.sleep(_PRUNE_REST * (time.perf_counter() - began) if removed else _PRUNE_PAUSE)

    async def measure(self) -> None:
        """Keep the gauges of deliveries and endpoints up to date, until cancelled."""
        while True:
            await measuring.measure(self.store, self.registry, self.cache, now_ms=self.clock_ms())
            await asyncio.sleep(_GAUGES_PAUSE)


class Lead:
    """Starter of a leader's loops: starts them when this replica becomes leader and stops them when it is not leader.

    Args:
        term: leadership of this replica.
        loops: runs the loops.
        leading: the loops of a leader, by name.
    """

    def __init__(self, term: Term, loops: Supervisor, leading: Mapping[str, Callable[[], Awaitable[None]]]) -> None:
        self._term, self._loops, self._leading = term, loops, leading
        self._led = 0

    async def run(self) -> None:
        """Check the leadership repeatedly, until cancelled; in addition, every write checks it."""
        while True:
            number = self._term.number if self._term.holds else 0
            if self._led not in {0, number}:
                log.warning("leadership lost, this replica stops writing to the cluster")
                await self._end()
            if number and not self._led:
                log.info("leadership acquired, this replica writes to the cluster", term=number)
                self._begin(number)
            await asyncio.sleep(_TERM_PAUSE)

    async def stop(self) -> None:
        """Stop the loops finally."""
        await self._loops.stop("lead")
        if self._led:
            log.info("leadership ended, this replica shuts down")
            await self._end()

    def _begin(self, number: int) -> None:
        self._led = number
        measuring.show()
        for name, run in self._leading.items():
            self._loops.start(name, run)

    async def _end(self) -> None:
        measuring.hide()
        await self._loops.stop(*self._leading)
        self._led = 0
