"""The operator process: the order of its start and of its stop."""

import asyncio
import gc
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from typing import Final

import structlog
from prometheus_client import REGISTRY

from hookwright_operator import metrics
from hookwright_operator.delivery.dispatcher import Dispatcher
from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.delivery.http.resolver import SOCKETS
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.delivery.shard_owner import ShardOwner
from hookwright_operator.delivery.shares import Bounds
from hookwright_operator.delivery.status_reporter import StatusReporter
from hookwright_operator.intake.app import IntakeApp
from hookwright_operator.intake.auth import ReviewAuth
from hookwright_operator.intake.review_cache import Keeping
from hookwright_operator.leader import gauges
from hookwright_operator.leader.election import Election, Leadership, LeaseTimes
from hookwright_operator.leader.housekeeping import Housekeeping
from hookwright_operator.leader.leader import Leader
from hookwright_operator.leader.session_keys import SessionKeys
from hookwright_operator.reconcile.applier import Applier
from hookwright_operator.reconcile.observer import ResourceObserver
from hookwright_operator.reconcile.reconciler import Reconciler
from hookwright_operator.reconcile.unpublished_health import UnpublishedHealth
from hookwright_operator.registry import Registry
from hookwright_operator.services import IntakeServices
from hookwright_operator.services.acceptance_log import AcceptanceLog
from hookwright_operator.services.credential_secrets import CredentialSecrets
from hookwright_operator.services.delivery_log import DeliveryLog
from hookwright_operator.services.endpoint_test import EndpointTester
from hookwright_operator.services.events import Events
from hookwright_operator.services.messages import Messages
from hookwright_operator.services.replays import Replays
from hookwright_operator.settings import OperatorSettings
from hookwright_operator.store.key_digests import KeyDigests
from hookwright_operator.store.notifications import REPORTS
from hookwright_operator.store.store import Store
from hookwright_operator.store_probe import StoreProbe
from hookwright_operator.supervisor import Supervisor
from hookwright_operator.tracing import Traces
from hookwright_operator.watch.cache import Cache
from hookwright_operator.watch.changes import Changes
from hookwright_operator.watch.kopf_informer import WatchFreshness, watch_cluster
from hookwright_operator.watch.objects import CREDENTIALS, WATCHED_KINDS, plural
from hookwright_operator.watch.resync import Resync
from hookwright_operator.watch.work_queue import WorkQueue
from hookwright_runtime.bounds import LOOKUPS, TESTS
from hookwright_runtime.connections import ConnectionBounds
from hookwright_runtime.errors import KubeError
from hookwright_runtime.health import create_health
from hookwright_runtime.kubernetes import KubernetesClient
from hookwright_runtime.places import Places
from hookwright_runtime.protocol import MOST_LINGERING
from hookwright_runtime.server import HEALTH_BOUNDS, Server

log = structlog.get_logger(__name__)

_SYNC_PAUSE: Final = 0.1
_HOUR_MS: Final = 3_600_000
_DAY_SECONDS: Final = 86_400
API_SERVER: Final = 50
"""Connections to the API server for reviews, and as many for all other requests."""
_PROCESS: Final = 60
"""Descriptors for watches of the whole cluster, database, traces, logs and event loop."""
_WATCHES: Final = len(WATCHED_KINDS) + 1
"""Watches of a namespace that ``HOOKWRIGHT_WATCH_NAMESPACES`` names, two of Secrets; each has a connection."""
_LEAST_IDLE: Final = 256


def now_ms() -> int:
    """Return milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def utc_now() -> datetime:
    """Return the time with its time zone."""
    return datetime.now(UTC)


def open_files(settings: OperatorSettings) -> int:
    """Return how many files a replica of these roles has open if each use of file descriptors is at its bound."""
    itself = _PROCESS + 2 * API_SERVER + _WATCHES * len(settings.watch_namespaces)
    accepts, delivers = "intake" in settings.roles, "deliver" in settings.roles
    listeners = HEALTH_BOUNDS.total + MOST_LINGERING + accepts * (settings.intake_connections + MOST_LINGERING)
    attempts = delivers * settings.max_in_flight + accepts * TESTS.total
    sending = LOOKUPS.at_once + SOCKETS * attempts + _idle_connections(settings)
    return itself + listeners + (accepts or delivers) * sending


def _idle_connections(settings: OperatorSettings) -> int:
    """Return how many connections to receivers are kept for later attempts."""
    return max(_LEAST_IDLE, settings.max_in_flight)


class Operator:
    """All parts of one operator process, by its roles; call `start` and then `stop`, once."""

    def __init__(self, settings: OperatorSettings, kube: KubernetesClient, store: Store) -> None:
        self._settings, self._kube, self._store = settings, kube, store
        self._stopping = ""
        self._servers: list[Server] = []
        self._intake: IntakeApp | None = None
        self._reviews: KubernetesClient | None = None
        self._loops, self._registry, self._queue = Supervisor(), Registry(), WorkQueue()
        self._guard = Guard(
            allowed=settings.allowed_networks,
            denied=settings.denied_networks,
            allowed_hosts=settings.allowed_hosts,
            denied_hosts=settings.denied_hosts,
        )
        # On SQLite this is the only replica, so it leads without an election.
        self._leadership = (
            Leadership(LeaseTimes(settings.leader_lease)) if store.is_shared else Leadership.without_end()
        )
        self._writing = kube.within(self._leadership) if store.is_shared else kube
        self._create_watch()
        self._create_delivery()
        self._create_reconciler()
        self._create_leader()

    # ---- wiring

    def _create_watch(self) -> None:
        self._changes = Changes(Cache(), self._queue)
        self._freshness = WatchFreshness([*map(plural, WATCHED_KINDS), CREDENTIALS])
        self._resync = Resync(self._kube, self._changes, self._settings.watch_namespaces)

    def _create_delivery(self) -> None:
        settings, store = self._settings, self._store
        store.statistics.registry = self._registry
        self._traces = Traces.start(settings.traces) if settings.traces else None
        self._sender = Sender(
            self._guard,
            user_agent=f"Hookwright/{version('hookwright')}",
            allow_http=settings.allow_http,
            traces=self._traces,
            traces_to_receivers=settings.traces_to_receivers,
            idle=_idle_connections(settings),
            proxy=settings.proxy_url,
            proxy_exceptions=settings.proxy_exceptions,
        )
        self._store_probe = StoreProbe(store.ping)
        self._unpublished_health = UnpublishedHealth(self._queue, utc_now)
        self._status_reporter = StatusReporter(
            store,
            self._registry,
            self._unpublished_health.publish,
            interval=settings.status_interval,
            clock=time.monotonic,
            leads=lambda: self._leadership.holds,
        )
        self._dispatcher = Dispatcher(
            store,
            self._sender,
            settings.retry_schedule,
            Bounds(settings.window, settings.memory_limit, settings.max_in_flight),
            clock_ms=now_ms,
            observer=self._status_reporter,
            shared=store.is_shared,
        )
        self._acceptance_log = AcceptanceLog()
        self._events = Events(self._registry, self._dispatcher, store, self._status_reporter, self._acceptance_log)
        self._shard_owner = ShardOwner(store.sharing, self._dispatcher)
        self._replays = Replays(self._registry, self._dispatcher, store, now_ms)
        self._messages = Messages(
            self._registry, store, self._dispatcher.pull_waiters, settings.retry_schedule, now_ms, self._status_reporter
        )
        self._registry.listen(self._dispatcher.pull_waiters)
        if "deliver" in settings.roles:
            self._registry.listen(self._dispatcher)

    def _create_reconciler(self) -> None:
        settings, store, cache = self._settings, self._store, self._changes.cache
        observer = ResourceObserver(
            self._writing,
            cache,
            KeyDigests(store.transactions),
            self._registry,
            self._guard,
            settings.allow_http,
            timedelta(seconds=settings.finalizer_grace),
            settings.max_timeout,
        )
        applier = Applier(
            self._writing,
            cache,
            self._registry,
            store,
            self._unpublished_health,
            utc_now,
            self._events,
            check_resource_version=store.is_shared,
        )
        self._reconciler = Reconciler(
            self._queue, cache, self._registry, self._leadership, observer, applier,
            self._unpublished_health, self._status_reporter, utc_now,
        )  # fmt: skip

    def _create_leader(self) -> None:
        settings = self._settings
        self._housekeeping = Housekeeping(
            self._kube, self._store, self._registry, self._changes, self._status_reporter, now_ms,
            int(settings.orphan_grace * _HOUR_MS), settings.watch_namespaces,
        )  # fmt: skip
        session_keys = SessionKeys(
            self._writing, self._changes, settings.users_namespace,
            settings.session_key_rotation * _DAY_SECONDS, settings.session_key_overlap * _DAY_SECONDS, time.time,
        )  # fmt: skip
        prune = partial(
            self._housekeeping.prune, retain_delivered=settings.retain_delivered, retain_failed=settings.retain_failed
        )
        loops: dict[str, Callable[[], Awaitable[None]]] = {
            "sessions": session_keys.run,
            "retention": prune,
            "gauges": self._housekeeping.measure,
            "orphans": self._housekeeping.watch_orphans,
        }
        if self._store.is_shared:
            loops["takeover"] = self._housekeeping.repair
        election = None
        if self._store.is_shared and "reconcile" in settings.roles:
            identity = f"{settings.instance or 'operator'}/{secrets.token_hex(8)}"
            election = Election(
                self._kube,
                self._leadership,
                namespace=settings.namespace,
                identity=identity,
                name=settings.instance,
            )
        self._leader = Leader(self._leadership, election, self._loops, loops, self._changes, self._status_reporter)

    # ---- start and stop

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
        metrics.LEADER.set_function(lambda: float(self._leadership.holds))
        gauges.hide()
        await self._sender.start()
        await self._dispatcher.renew_lease()
        if "deliver" in settings.roles:
            self._store.listen(self._dispatcher.waiting, self._shard_owner.look_soon)
            await self._dispatcher.reload_due_times()
        elif "intake" in settings.roles:
            self._store.listen(self._dispatcher.pull_waiters.wake)
        namespaces = settings.watch_namespaces
        # Only the reconciler needs the session keys.
        key_namespaces = [settings.users_namespace] if "reconcile" in settings.roles else []
        watched_namespaces = {*namespaces, *key_namespaces} if namespaces else set()
        for name, run in (
            ("heartbeat", partial(self._dispatcher.keep_lease, settings.lease)),
            ("store", self._store_probe.run),
            ("statistics", self._store.statistics.run),
            ("reconcile", self._reconciler.run),
            ("watch", partial(watch_cluster, self._kube, self._changes, self._freshness, watched_namespaces)),
            ("sync", self._sync),
            ("resync", self._resync.run),
            ("health", self._status_reporter.run),
        ):
            self._loops.start(name, run)
        if "deliver" in settings.roles:
            for name, run in self._dispatcher.loops.items():
                self._loops.start(name, run)
            if self._store.is_shared:
                self._loops.start("shards", self._shard_owner.run)
            self._loops.start("replays", self._replays.run)
            self._loops.start("leases", self._messages.run)
        if "reconcile" in settings.roles:
            self._store.notifications.listen(self._status_reporter.record_report, channel=REPORTS)
            self._leader.start()
        if "intake" in settings.roles:
            await self._start_intake()
        log.info("listening", roles=settings.roles, intake_port=self.intake_port, health_port=self.health_port)

    async def _start_intake(self) -> None:
        settings = self._settings
        registry, dispatcher, store = self._registry, self._dispatcher, self._store
        services = IntakeServices(
            registry,
            store,
            self._events,
            DeliveryLog(store, dispatcher, self._sender),
            self._replays,
            EndpointTester(self._sender, store, time.time, Places(TESTS)),
            self._messages,
            CredentialSecrets(self._kube) if "reconcile" in settings.roles else None,
        )
        # Callers without a credential cause reviews. They must not use up the connections of the Lease and of writes.
        self._reviews = await KubernetesClient.connect("hookwright-operator", connections=API_SERVER)
        auth = ReviewAuth(self._reviews, keeping=Keeping(granted=settings.review_cache))
        self._intake = intake = IntakeApp(services, auth, ready=self._unready, traces=self._traces)
        total = settings.intake_connections
        bounds = ConnectionBounds(total, per_address=min(settings.intake_connections_per_address, total // 2))
        self._servers.append(
            await Server.start(intake, host=settings.intake_host, port=settings.intake_port, bounds=bounds)
        )

    async def _sync(self) -> None:
        """Set the replica ready when every object is known and has been reconciled once."""
        while not self._changes.synced.is_set():
            with suppress(KubeError):
                if self._freshness.complete:
                    await self._resync.until_shown()
                    self._changes.complete = True
                    await (self._housekeeping.take_over if self._leadership.holds else self._changes.reconcile_all)()
                    # Free the memory of the lists. The objects made from them stay, and later collections need not
                    # visit them.
                    gc.collect()
                    gc.freeze()
                    self._changes.synced.set()
                    log.info("ready", endpoints=len(self._registry))
            await asyncio.sleep(_SYNC_PAUSE)
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """Stop without loss: close the intake, finish attempts, store results, release claims."""
        self._stopping = "stopping"
        log.info("stopping", attempts_under_way=self._dispatcher.in_flight)
        if self._intake is not None:
            self._intake.ending.set()
        await asyncio.gather(self._leader.release(), *(server.stop() for server in self._servers[1:]))
        self._acceptance_log.flush()
        await self._loops.stop("claim", "sweep", "shards", "replays", "leases", "health", "resync", "sync")
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
        if self._reviews is not None:
            await self._reviews.close()
        log.info("stopped")

    # ---- readiness

    def _unready(self) -> str | None:
        if self._stopping:
            return self._stopping
        return None if self._changes.synced.is_set() else "the watches have not yet shown every object"

    def _not_ready(self) -> str | None:
        """Return the reason of /readyz; the intake itself still tries the store, and reports each failure."""
        return self._unready() or self._store_probe.away()
