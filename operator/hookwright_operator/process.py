"""The operator process: the order of its start and of its stop."""

import asyncio
import gc
import secrets
import time
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from importlib.metadata import version
from typing import Final

import structlog
from prometheus_client import REGISTRY

from hookwright_operator import metrics
from hookwright_operator.delivery import descriptor_budget
from hookwright_operator.delivery.clock_jumps import ClockJumps
from hookwright_operator.delivery.descriptor_budget import DescriptorBudget
from hookwright_operator.delivery.dispatcher import Dispatcher
from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.delivery.shard_owner import ShardOwner
from hookwright_operator.delivery.shares import Bounds
from hookwright_operator.delivery.status_reporter import StatusReporter
from hookwright_operator.intake.app import IntakeApp
from hookwright_operator.intake.auth import ReviewAuth
from hookwright_operator.intake.review_cache import Keeping
from hookwright_operator.leader import gauges
from hookwright_operator.leader.election import Election, Leadership
from hookwright_operator.leader.housekeeping import Housekeeping
from hookwright_operator.leader.leader import Leader
from hookwright_operator.leader.session_keys import Rotation, SessionKeys
from hookwright_operator.reconcile.reconciler import Reconciler
from hookwright_operator.registry import Endpoint, Health, Registry
from hookwright_operator.services import IntakeServices
from hookwright_operator.services.delivery_log import DeliveryLog
from hookwright_operator.services.endpoint_test import EndpointTester
from hookwright_operator.services.events import Events
from hookwright_operator.services.fan_out_writer import FanOutWriter
from hookwright_operator.services.replays import Replays
from hookwright_operator.settings import OperatorSettings
from hookwright_operator.store.key_digests import KeyDigests
from hookwright_operator.store.store import Store
from hookwright_operator.store_probe import StoreProbe
from hookwright_operator.supervisor import Supervisor
from hookwright_operator.tracing import Traces
from hookwright_operator.watch.cache import Cache
from hookwright_operator.watch.changes import Watch
from hookwright_operator.watch.kopf_informer import until_served, watch_cluster
from hookwright_operator.watch.objects import Key
from hookwright_operator.watch.resync import resync, until_shown
from hookwright_operator.watch.work_queue import WorkQueue
from hookwright_runtime.connections import ConnectionBounds
from hookwright_runtime.endpoint_tests import EndpointTests
from hookwright_runtime.errors import KubeError
from hookwright_runtime.health import create_health
from hookwright_runtime.kubernetes import KubernetesClient
from hookwright_runtime.server import HEALTH_BOUNDS, Server

log = structlog.get_logger(__name__)

_AUDIT_PAUSE: Final = 2.0
_SYNC_PAUSE: Final = 0.1
_COMPARE_PAUSE: Final = 180.0
_RESIGN_SECONDS: Final = 1.0
_HOUR_MS: Final = 3_600_000


def now_ms() -> int:
    """Return milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Operator:
    """All parts of one operator process, by its roles; call `start` and then `stop`, once."""

    def __init__(self, settings: OperatorSettings, kube: KubernetesClient, store: Store) -> None:
        self._settings, self._kube, self._store = settings, kube, store
        self._stopping = ""
        # On SQLite this is the only replica, so it leads without an election.
        self._term = Leadership.without_end() if store.exclusive else Leadership()
        self._election = None if store.exclusive else _election(settings, kube, self._term)
        self._synced = asyncio.Event()
        writing = kube if store.exclusive else kube.within(self._term)
        self._loops = Supervisor()
        self._registry = Registry()
        self._traces = Traces.start(settings.traces) if settings.traces else None
        self._budget = descriptor_budget.budget(namespaces=len(settings.watch_namespaces))
        self._sender = _sender(settings, self._traces, self._budget)
        self._store_probe = StoreProbe(store.ping)
        self._status_reporter = StatusReporter(
            store,
            self._registry,
            self._publish,
            interval=settings.status_interval,
            clock=time.monotonic,
            leads=lambda: self._term.holds,
            report=store.reports.report,
        )
        self._dispatcher = Dispatcher(
            store,
            self._sender,
            settings.retry_schedule,
            Bounds(settings.window, settings.memory_limit, settings.max_in_flight),
            clock_ms=now_ms,
            observer=self._status_reporter,
            shared=not store.exclusive,
        )
        self._fan_outs = FanOutWriter(store, self._dispatcher, self._status_reporter.changed)
        self._shard_owner = ShardOwner(store.sharing, self._dispatcher)
        if "deliver" in settings.roles:
            self._registry.listen(self._dispatcher)
        self._reconciler = Reconciler(
            kube=writing,
            cache=Cache(),
            registry=self._registry,
            store=store,
            digests=KeyDigests(store.sharing.read, store.sharing.write, now_ms),
            allow_http=settings.allow_http,
            finalizer_grace=timedelta(seconds=settings.finalizer_grace),
            counts_lost=self._status_reporter.changed,
            leads=lambda: self._term.holds,
            check_resource_version=not store.exclusive,
        )
        self._queue = WorkQueue(self._reconciler.reconcile)
        self._watch = Watch(self._reconciler.cache, self._queue)
        self._housekeeping = Housekeeping(
            kube,
            store,
            self._registry,
            self._reconciler.cache,
            self._status_reporter,
            now_ms,
            int(settings.orphan_grace * _HOUR_MS),
        )
        self._session_keys = _session_keys(settings, writing, self._reconciler.cache)
        leading = {
            "takeover": self._take_over,
            "sessions": self._keep_session_keys,
            "retention": self._prune,
            "gauges": self._housekeeping.measure,
            "orphans": self._watch_orphans,
        }
        self._leader = Leader(self._term, self._loops, leading)
        self._servers: list[Server] = []

    @property
    def intake_port(self) -> int | None:
        """The port of the intake, None if this replica has no intake."""
        return self._servers[1].port if len(self._servers) > 1 else None

    @property
    def health_port(self) -> int:
        """The port of health and metrics."""
        return self._servers[0].port

    async def start(self) -> None:
        """Start everything; the replica is ready when the watches have shown every object."""
        settings = self._settings
        health = create_health(live=self._loops.dying, ready=self._not_ready, registry=REGISTRY)
        self._servers.append(
            await Server.start(health, host=settings.health_host, port=settings.health_port, bounds=HEALTH_BOUNDS)
        )
        metrics.LEADER.set_function(lambda: float(self._term.holds))
        gauges.hide()
        await self._sender.start()
        self._dispatcher.lease_renewed(await self._store.heartbeat())
        if "deliver" in settings.roles:
            self._store.listen(self._dispatcher.waiting, self._shard_owner.look_soon)
            await self._dispatcher.reload_due_times()
        replays = Replays(self._registry, self._dispatcher, self._store, now_ms)
        for name, run in (
            ("heartbeat", self._heartbeat),
            ("clock", ClockJumps(self._store, self._dispatcher, now_ms).run),
            ("store", self._store_probe.run),
            ("fan-out", self._fan_outs.run),
            ("reconcile", self._queue.run),
            ("watch", self._run_kopf),
            ("sync", self._sync),
            ("audit", self._audit),
            ("health", self._status_reporter.run),
        ):
            self._loops.start(name, run)
        if "deliver" in settings.roles:
            for name, run in self._dispatcher.loops.items():
                self._loops.start(name, run)
            if not self._store.exclusive:
                self._loops.start("shards", self._shard_owner.run)
            self._loops.start("replays", replays.run)
        if "reconcile" in settings.roles:
            self._store.reports.hear_reports(self._status_reporter.heard)
            self._loops.start("lead", self._leader.run)
            if self._election is not None:
                self._loops.start("election", self._stand)
        if "intake" in settings.roles:
            await self._start_intake(replays)
        log.info("listening", roles=settings.roles, intake_port=self.intake_port, health_port=self.health_port)

    async def _start_intake(self, replays: Replays) -> None:
        settings = self._settings
        registry, dispatcher, store = self._registry, self._dispatcher, self._store
        services = IntakeServices(
            registry,
            Events(registry, dispatcher, store, self._status_reporter.changed, self._fan_outs),
            DeliveryLog(store, dispatcher),
            replays,
            EndpointTester(self._sender, time.time, EndpointTests(self._budget.tests)),
        )
        auth = ReviewAuth(self._kube, keeping=Keeping(granted=settings.review_cache))
        intake = IntakeApp(services, auth, ready=self._unready, traces=self._traces)
        total = descriptor_budget.intake_connections(settings.intake_connections, self._budget)
        bounds = ConnectionBounds(total, per_address=min(settings.intake_connections_per_address, total // 2))
        self._servers.append(
            await Server.start(intake, host=settings.intake_host, port=settings.intake_port, bounds=bounds)
        )

    async def stop(self) -> None:
        """Stop without loss: close the intake, finish attempts, store results, release claims."""
        self._stopping = "stopping"
        log.info("stopping", attempts_under_way=self._dispatcher.in_flight)
        await asyncio.gather(self._resign(), *(server.stop() for server in self._servers[1:]))
        await self._loops.stop("claim", "sweep", "shards", "replays", "health", "audit", "sync", "clock")
        await self._leader.stop()
        await self._shard_owner.drain(self._settings.shutdown_grace)
        with suppress(Exception):
            async with asyncio.timeout(3):
                await self._status_reporter.flush()
                await self._queue.settled()
        await self._loops.stop()
        await self._sender.close()
        if self._traces is not None:
            await self._traces.stop()
        for server in self._servers[:1]:
            await server.stop()
        log.info("stopped")

    # ---- readiness

    def _unready(self) -> str | None:
        if self._stopping:
            return self._stopping
        return None if self._watch.synced else "the watches have not yet shown every object"

    def _not_ready(self) -> str | None:
        """Return the reason of /readyz; the intake itself still tries the store, and reports each failure."""
        return self._unready() or self._store_probe.away()

    async def _sync(self) -> None:
        """Set the replica ready when every object is known and has been reconciled once."""
        while not self._watch.synced:
            with suppress(KubeError):
                if self._watch.pulse.complete:
                    await until_shown(self._kube, self._reconciler.cache, self._settings.watch_namespaces)
                    self._watch.complete = True
                    await self._pass()
                    # Free the memory of the lists. The objects made from them stay, and later collections need not
                    # visit them.
                    gc.collect()
                    gc.freeze()
                    self._watch.synced = True
                    self._synced.set()
                    log.info("ready", endpoints=len(self._registry))
            await asyncio.sleep(_SYNC_PAUSE)
        await asyncio.Event().wait()

    async def _pass(self) -> None:
        """Reconcile everything once, because an event gets no delivery for an endpoint that is not yet known."""
        for key in self._reconciler.cache:
            self._queue.add(key)
        await self._queue.settled()
        if self._term.holds:
            await self._housekeeping.publish_lost_counts()
            if not self._settings.watch_namespaces:
                await self._housekeeping.discard_orphans()

    # ---- leading

    async def _stand(self) -> None:
        """Take part in the election, as soon as this replica has synchronized and can lead without delay."""
        assert self._election is not None
        await self._synced.wait()
        await self._election.run()

    async def _resign(self) -> None:
        """Publish due statuses and release the leadership at once; attempts in progress may finish after that."""
        if self._election is None:
            return
        await self._loops.stop("election")
        with suppress(Exception):
            async with asyncio.timeout(_RESIGN_SECONDS):
                await self._status_reporter.flush()
                await self._queue.settled()
        try:
            await self._election.resign()
        except (KubeError, TimeoutError) as error:
            log.warning("leadership not released, another replica acquires it in some seconds", error=str(error))
        await self._leader.stop()

    # ---- loops

    async def _run_kopf(self) -> None:
        await until_served(self._kube)
        served = self._settings.watch_namespaces
        await watch_cluster(self._watch, {*served, self._settings.namespace} if served else ())

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(self._settings.lease / 6)
            self._dispatcher.lease_renewed(await self._store.heartbeat())

    async def _audit(self) -> None:
        while True:
            await asyncio.sleep(_AUDIT_PAUSE)
            missed = await resync(self._kube, self._watch, self._settings.watch_namespaces)
            if missed:
                log.info("watch missed deletions, applying them now", objects=missed)
            self._status_reporter.forget(endpoint.uid for endpoint in self._registry)

    async def _take_over(self) -> None:
        """Reconcile everything when this replica becomes leader, and repeatedly publish lost counts."""
        await self._synced.wait()
        if self._election is not None:
            await self._pass()
            while True:
                await asyncio.sleep(_COMPARE_PAUSE)
                await self._housekeeping.publish_lost_counts()
        await asyncio.Event().wait()

    async def _watch_orphans(self) -> None:
        await self._synced.wait()
        if self._settings.watch_namespaces:
            # Endpoints of other namespaces are unknown here. They are not missing.
            await asyncio.Event().wait()
        await self._housekeeping.watch_orphans()

    async def _keep_session_keys(self) -> None:
        await self._synced.wait()
        await self._session_keys.run()

    async def _prune(self) -> None:
        days = self._settings
        await self._housekeeping.prune(retain_delivered=days.retain_delivered, retain_failed=days.retain_failed)

    def _publish(self, endpoint: Endpoint, health: Health) -> None:
        before = self._reconciler.health.get(endpoint.uid)
        if before is not None:
            health = replace(health, failures=before.failures + health.failures)
        self._reconciler.health[endpoint.uid] = health
        self._queue.add(Key("WebhookEndpoint", endpoint.namespace, endpoint.name))


def _sender(settings: OperatorSettings, traces: Traces | None, available: DescriptorBudget) -> Sender:
    return Sender(
        Guard(
            allowed=settings.allowed_networks,
            denied=settings.denied_networks,
            allowed_hosts=settings.allowed_hosts,
            denied_hosts=settings.denied_hosts,
        ),
        user_agent=f"Hookwright/{version('hookwright')}",
        allow_http=settings.allow_http,
        traces=traces,
        traces_to_receivers=settings.traces_to_receivers,
        idle=descriptor_budget.idle_connections(settings.max_in_flight, available),
        lookups=available.lookups,
    )


def _session_keys(settings: OperatorSettings, kube: KubernetesClient, cache: Cache) -> SessionKeys:
    rotation = Rotation(settings.session_key_rotation * 86_400, settings.session_key_overlap * 86_400)
    return SessionKeys(kube, cache, namespace=settings.namespace, rotation=rotation, clock=time.time)


def _election(settings: OperatorSettings, kube: KubernetesClient, term: Leadership) -> Election | None:
    if "reconcile" not in settings.roles:
        return None
    identity = f"{settings.instance or 'operator'}/{secrets.token_hex(8)}"
    return Election(kube, term, namespace=settings.namespace, identity=identity, name=settings.instance)
