"""The operator as one running whole: what is made in which order, and what ends in which."""

import asyncio
import signal
import time
from contextlib import suppress
from datetime import timedelta
from importlib.metadata import version
from typing import Final

import structlog
from prometheus_client import REGISTRY

from hookwright_operator import metrics
from hookwright_operator.audit import audit, is_empty
from hookwright_operator.delivery.guard import Guard
from hookwright_operator.delivery.health import HealthPublisher, delivery_counts
from hookwright_operator.delivery.loops import Dispatcher
from hookwright_operator.delivery.seams import Bounds
from hookwright_operator.delivery.sender import Sender
from hookwright_operator.errors import KubeError
from hookwright_operator.handlers import Watch
from hookwright_operator.intake.app import create_app
from hookwright_operator.intake.auth import ReviewAuth
from hookwright_operator.intake.deps import Deps
from hookwright_operator.intake.health import create_health
from hookwright_operator.intake.reviews import Keeping
from hookwright_operator.intake.server import Server
from hookwright_operator.kube import Kube
from hookwright_operator.measuring import measure
from hookwright_operator.ports import Deliveries, EndpointTester, EventAccepter, Recoveries
from hookwright_operator.reconcile.cache import Cache
from hookwright_operator.reconcile.plan import Key
from hookwright_operator.reconcile.queue import WorkQueue
from hookwright_operator.reconcile.world import World
from hookwright_operator.registry import Endpoint, Health, Registry
from hookwright_operator.sessions import Rotation, SessionKeys
from hookwright_operator.settings import Settings
from hookwright_operator.store.store import Store
from hookwright_operator.supervise import Supervisor
from hookwright_operator.watching import until_served, watch_cluster

log = structlog.get_logger(__name__)

_DAY_MS: Final = 86_400_000
_PRUNED_AT_ONCE: Final = 500
_PRUNE_PAUSE: Final = 60.0
_GAUGES_PAUSE: Final = 5.0
_AUDIT_PAUSE: Final = 2.0


def now_ms() -> int:
    """Return milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Operator:
    """Everything that one operator process runs; `start` and then `stop`, once."""

    def __init__(self, settings: Settings, kube: Kube, store: Store) -> None:
        self._settings, self._kube, self._store = settings, kube, store
        self._stopping = ""
        self._loops = Supervisor()
        self._registry = Registry()
        self._sender = Sender(
            Guard(allowed=settings.allowed_networks, denied=settings.denied_networks),
            user_agent=f"Hookwright/{version('hookwright')}",
            allow_http=settings.allow_http,
        )
        self._health = HealthPublisher(
            store, self._registry, self._publish, interval=settings.status_interval, clock=time.monotonic
        )
        self._dispatcher = Dispatcher(
            store,
            self._sender,
            settings.retry_schedule,
            Bounds(settings.window, settings.memory_limit),
            clock_ms=now_ms,
            observer=self._health,
        )
        self._registry.listen(self._dispatcher)
        self._world = World(
            kube=kube,
            cache=Cache(),
            registry=self._registry,
            store=store,
            allow_http=settings.allow_http,
            finalizer_grace=timedelta(seconds=settings.finalizer_grace),
            counts_lost=self._health.changed,
        )
        self._queue = WorkQueue(self._world.reconcile)
        self._watch = Watch(self._world.cache, self._queue)
        self._sessions = SessionKeys(
            kube,
            self._world.cache,
            namespace=settings.namespace,
            rotation=Rotation(settings.session_key_rotation * 86_400, settings.session_key_overlap * 86_400),
            clock=time.time,
        )
        self._servers: list[Server] = []

    @property
    def intake_port(self) -> int:
        """The port that the intake listens on."""
        return self._servers[1].port

    @property
    def health_port(self) -> int:
        """The port that health and metrics listen on."""
        return self._servers[0].port

    async def start(self) -> None:
        """Start everything; readiness comes when the watches have shown what there is."""
        settings = self._settings
        health = create_health(live=self._loops.dying, ready=self._unready, registry=REGISTRY)
        self._servers.append(await Server.start(health, host=settings.health_host, port=settings.health_port))
        await self._sender.start()
        self._dispatcher.renewed(await self._store.heartbeat())
        self._store.listen(self._dispatcher.waiting)
        await self._dispatcher.recover()
        recoveries = Recoveries(self._registry, self._dispatcher, self._store, now_ms)
        for name, run in (
            ("heartbeat", self._heartbeat),
            ("claim", self._dispatcher.run),
            ("reconcile", self._queue.run),
            ("watch", self._run_kopf),
            ("sync", self._sync),
            ("audit", self._audit),
            ("health", self._health.run),
            ("recovery", recoveries.drive),
            ("retention", self._prune),
            ("gauges", self._measure),
        ):
            self._loops.start(name, run)
        intake = create_app(
            Deps(
                registry=self._registry,
                accepter=EventAccepter(self._registry, self._dispatcher, self._store, self._health.changed),
                auth=ReviewAuth(self._kube, keeping=Keeping(granted=settings.review_cache)),
                deliveries=Deliveries(self._store, self._dispatcher),
                recoveries=recoveries,
                tester=EndpointTester(self._sender, time.time),
                ready=self._unready,
            )
        )
        self._servers.append(await Server.start(intake, host=settings.intake_host, port=settings.intake_port))
        log.info("listening", intake_port=self.intake_port, health_port=self.health_port)

    async def stop(self) -> None:
        """End in an order that loses nothing: take nothing in, finish attempts, store results, let go."""
        self._stopping = "stopping"
        log.info("stopping", attempts_under_way=self._dispatcher.in_flight)
        for server in self._servers[1:]:
            await server.stop()
        await self._loops.stop("claim", "recovery", "health", "retention", "gauges", "audit", "sync")
        await self._dispatcher.drain(self._settings.shutdown_grace)
        with suppress(Exception):
            async with asyncio.timeout(3):
                await self._health.flush()
                await self._queue.settled()
        await self._loops.stop()
        await self._sender.close()
        for server in self._servers[:1]:
            await server.stop()
        log.info("stopped")

    # ---- readiness

    def _unready(self) -> str | None:
        if self._stopping:
            return self._stopping
        return None if self._watch.synced else "the watches have not shown yet what there is"

    async def _sync(self) -> None:
        """Be ready once what exists is known and has been reconciled once."""
        while not self._watch.synced:
            with suppress(KubeError):
                watched = self._watch.pulse.complete
                if watched and (self._watch.listed or await is_empty(self._kube, self._settings.watch_namespaces)):
                    await self._first_pass()
                    self._watch.synced = True
                    log.info("ready", endpoints=len(self._registry))
            await asyncio.sleep(0.1)
        await self._sessions.run()

    async def _first_pass(self) -> None:
        """Reconcile everything once: an event that came before an endpoint is known would pass it by."""
        for key in self._world.cache:
            self._queue.add(key)
        await self._queue.settled()
        counts = await self._store.counts()
        for endpoint in self._registry:
            kept = counts.get(endpoint.uid)
            resource = self._world.cache.resource(Key("WebhookEndpoint", endpoint.namespace, endpoint.name))
            shown = getattr(getattr(resource, "status", None), "deliveries", None)
            if kept is not None and delivery_counts(kept) != shown:
                self._health.changed(endpoint.uid)
        if not self._settings.watch_namespaces:
            await self._discard_orphans()

    async def _discard_orphans(self) -> None:
        """Discard what waits for endpoints that went while nobody watched."""
        live = {endpoint.uid for endpoint in self._registry}
        live.update(uid for _, uid in self._world.cache.names("WebhookEndpoint"))
        recovering = {job.endpoint_uid for job in await self._store.running_recoveries()}
        for uid in await self._store.pending_uids() | recovering:
            if uid not in live:
                discarded = await self._store.discard(uid, "endpoint deleted")
                metrics.DELIVERIES.labels("discarded").inc(discarded)
                log.warning("deliveries of a deleted endpoint were discarded", endpoint=uid, deliveries=discarded)

    # ---- loops

    async def _run_kopf(self) -> None:
        await until_served(self._kube)
        served = self._settings.watch_namespaces
        await watch_cluster(self._watch, {*served, self._settings.namespace} if served else ())

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(self._settings.lease / 6)
            self._dispatcher.renewed(await self._store.heartbeat())

    async def _audit(self) -> None:
        while True:
            await asyncio.sleep(_AUDIT_PAUSE)
            missed = await audit(self._kube, self._watch, self._settings.watch_namespaces)
            if missed:
                log.info("deletions were missed by a watch and are made good", objects=missed)
            self._health.forget(endpoint.uid for endpoint in self._registry)

    async def _prune(self) -> None:
        while True:
            now = now_ms()
            removed = await self._store.prune(
                delivered_before_ms=now - int(self._settings.retain_delivered * _DAY_MS),
                failed_before_ms=now - int(self._settings.retain_failed * _DAY_MS),
                limit=_PRUNED_AT_ONCE,
            )
            await asyncio.sleep(0.2 if removed else _PRUNE_PAUSE)

    async def _measure(self) -> None:
        while True:
            await measure(self._store, self._registry, self._world.cache, now_ms=now_ms())
            await asyncio.sleep(_GAUGES_PAUSE)

    def _publish(self, endpoint: Endpoint, health: Health) -> None:
        self._world.health[endpoint.uid] = health
        self._queue.add(Key("WebhookEndpoint", endpoint.namespace, endpoint.name))


async def run(settings: Settings) -> None:
    """Run an operator until SIGTERM or SIGINT.

    Raises:
        StoreError: the database cannot be opened.
        KubeError: there are no credentials of a cluster.
    """
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    kube = await Kube.connect()
    try:
        store = await Store.open(
            settings.database_url,
            instance="operator",
            lease_ms=int(settings.lease * 1000),
            clock=now_ms,
            observe=lambda operation, seconds: metrics.STORE_DURATION.labels(operation).observe(seconds),
        )
        try:
            operator = Operator(settings, kube, store)
            await operator.start()
            await ended.wait()
            await operator.stop()
        finally:
            await store.close()
    finally:
        await kube.close()
