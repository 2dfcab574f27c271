"""Duties of the leader besides reconciling.

The leader removes old rows, repairs missed updates, and keeps the gauges of the store up to date.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

import structlog

from hookwright_operator import metrics
from hookwright_operator.delivery.status_reporter import StatusReporter, delivery_counts
from hookwright_operator.leader import gauges
from hookwright_operator.registry import Registry
from hookwright_operator.store.orphans import plan_orphans
from hookwright_operator.store.records import DELETED_REASON, Counts
from hookwright_operator.store.sql import read
from hookwright_operator.store.store import Store
from hookwright_operator.watch.changes import Changes
from hookwright_operator.watch.objects import Key
from hookwright_operator.watch.resync import uids_of
from hookwright_runtime.kubernetes import KubernetesClient

log = structlog.get_logger(__name__)

_DAY_MS: Final = 86_400_000
_PRUNED_AT_ONCE: Final = 500
_PRUNE_PAUSE: Final = 60.0
# While more rows can be removed, pruning takes at most a fifth of the writer's time.
_PRUNE_REST: Final = 4
_COUNTS_PAUSE: Final = 180.0
_GAUGES_PAUSE: Final = 5.0
_ORPHAN_PAUSE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Housekeeping:
    """The loops and single actions of a leader; each may raise StoreUnavailable, and must then be started again.

    Attributes:
        namespaces: the namespaces to serve; empty: all.
    """

    kube: KubernetesClient
    store: Store
    registry: Registry
    changes: Changes
    reporter: StatusReporter
    clock_ms: Callable[[], int]
    orphan_grace_ms: int
    namespaces: Collection[str] = ()

    async def take_over(self) -> None:
        """Reconcile every object, and repair what the previous leader missed."""
        await self.changes.reconcile_all()
        await self.publish_lost_counts()
        await self.discard_orphans()

    async def repair(self) -> None:
        """Take over from the previous leader, and publish lost counts repeatedly, until cancelled."""
        await self.changes.synced.wait()
        await self.take_over()
        while True:
            await asyncio.sleep(_COUNTS_PAUSE)
            await self.publish_lost_counts()

    async def publish_lost_counts(self) -> None:
        """Publish the counts of the endpoints whose status differs from the store."""
        counts: dict[str, Counts] = {}
        for uids in gauges.groups([endpoint.uid for endpoint in self.registry]):
            counts |= await self.store.read(read.counts, uids)
        for endpoint in self.registry:
            stored_counts = counts.get(endpoint.uid)
            resource = self.changes.cache.resource(Key("WebhookEndpoint", endpoint.namespace, endpoint.name))
            status_counts = getattr(getattr(resource, "status", None), "deliveries", None)
            if stored_counts is not None and delivery_counts(stored_counts) != status_counts:
                self.reporter.changed(endpoint.uid)

    async def discard_orphans(self) -> None:
        """Discard pending deliveries of endpoints that have been missing in the cluster for the whole grace time.

        Endpoints of namespaces that are not served are unknown, but not missing.

        Raises:
            KubeError: the API server does not list the endpoints.
        """
        since, now = await self.store.orphans.since(), self.clock_ms()
        missing = await self._missing()
        plan = plan_orphans(missing, since, now_ms=now, grace_ms=self.orphan_grace_ms)
        if plan.new or plan.expired:
            # Another replica may have seen a new endpoint, and accepted events for it, before this replica's watch
            # shows it.
            missing -= await uids_of(self.kube, "WebhookEndpoint", self.namespaces)
            plan = plan_orphans(missing, since, now_ms=now, grace_ms=self.orphan_grace_ms)
        await self.store.orphans.record(new=plan.new, former=plan.former, now_ms=now)
        for uid in plan.new - plan.expired:
            log.warning("endpoint missing in the cluster, keeping its pending deliveries", endpoint=uid)
        for uid in plan.expired:
            count = await self.store.discard(uid, DELETED_REASON)
            log.warning("endpoint deleted, discarded its pending deliveries", endpoint=uid, deliveries=count)
        await self.store.orphans.record(new=(), former=plan.expired, now_ms=now)
        metrics.ORPHANS.set(
            sum([await self.store.read(read.pending_of, uids) for uids in gauges.groups(missing - plan.expired)])
        )

    async def watch_orphans(self) -> None:
        """Discard orphans when their grace time ends, until cancelled."""
        await self.changes.synced.wait()
        while True:
            await asyncio.sleep(_ORPHAN_PAUSE)
            await self.discard_orphans()

    async def _missing(self) -> set[str]:
        """Return the endpoints that have pending deliveries or a running replay, and that no watch has shown."""
        replaying = {job.endpoint_uid for job in await self.store.running_replays()}
        uids = await self.store.read(read.pending_uids)
        missing = set(uids | replaying) - gauges.existing(self.registry, self.changes.cache)
        if not self.namespaces:
            return missing
        namespaces: dict[str, str | None] = {}
        for group in gauges.groups(missing):
            namespaces |= await self.store.read(read.namespaces_of, group)
        return {uid for uid in missing if namespaces[uid] in self.namespaces}

    async def prune(self, *, retain_delivered: float, retain_failed: float) -> None:
        """Remove deliveries after their retention time in days, and old statistics, repeatedly, until cancelled."""
        while True:
            now, began = self.clock_ms(), time.perf_counter()
            count = await self.store.prune(
                delivered_before_ms=now - int(retain_delivered * _DAY_MS),
                failed_before_ms=now - int(retain_failed * _DAY_MS),
                limit=_PRUNED_AT_ONCE,
            )
            count += await self.store.statistics.prune(limit=_PRUNED_AT_ONCE)
            await asyncio.sleep(_PRUNE_REST * (time.perf_counter() - began) if count else _PRUNE_PAUSE)

    async def measure(self) -> None:
        """Keep the gauges of deliveries and endpoints up to date, until cancelled."""
        while True:
            await gauges.measure(self.store, self.registry, self.changes.cache, now_ms=self.clock_ms())
            await asyncio.sleep(_GAUGES_PAUSE)
