"""A reconciler with an API server and a store that the test controls, and real owners of digests on SQLite."""

import asyncio
import json
import weakref
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, create_engine
from unit.operator.watch.test_cache import ORDERS, endpoint, project, secret

from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.delivery.status_reporter import StatusReporter
from hookwright_operator.leader.election import Leadership
from hookwright_operator.reconcile.applier import Applier
from hookwright_operator.reconcile.observer import ResourceObserver
from hookwright_operator.reconcile.plan import FINALIZER
from hookwright_operator.reconcile.reconciler import Reconciler
from hookwright_operator.reconcile.unpublished_health import UnpublishedHealth
from hookwright_operator.registry import Registry
from hookwright_operator.services.events import Events, IncomingEvent
from hookwright_operator.store.key_digests import KeyDigests
from hookwright_operator.store.records import Counts
from hookwright_operator.store.schema import metadata
from hookwright_operator.store.sql.read import counts_of
from hookwright_operator.store.store import Store
from hookwright_operator.store.transactions import Transactions
from hookwright_operator.watch.cache import Cache
from hookwright_operator.watch.work_queue import WorkQueue
from hookwright_runtime.errors import KubeError, StoreUnavailable
from hookwright_runtime.kubernetes import KubernetesClient, Object

T = TypeVar("T")

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
DELETED_AT = "2030-01-01T12:00:00Z"


class ApiServer(KubernetesClient):
    """An API server that keeps the requests, and answers with their content and a new resourceVersion."""

    def __init__(self) -> None:
        self._manager = "tests"
        self.asked: list[tuple[str, str, Object]] = []
        self.refuse: Callable[[str, str], KubeError | None] = lambda _method, _path: None
        self.stored: Object = {}
        self.endpoint: Object = endpoint()
        self.keys: dict[str, Object] = {}
        self._version = 1000

    async def _request(self, method: str, path: str, *, body: Object | None = None, **_: Any) -> Object:
        self.asked.append((method, path, body or {}))
        refusal = self.refuse(method, path)
        if refusal is not None:
            raise refusal
        if method == "GET":
            if not self.stored:
                raise KubeError("not found", status=404)
            return self.stored
        self._version += 1
        content = dict(body or {})
        metadata = {"uid": "uid-made", **content.get("metadata", {}), "resourceVersion": str(self._version)}
        if "apikeys" in path:
            records = self.keys[metadata["namespace"]]
            return {**records, **content, "metadata": {**records["metadata"], **metadata}}
        if "webhookendpoints" not in path:
            texts = content.pop("stringData", {})
            data = {name: b64encode(text.encode()).decode() for name, text in texts.items()}
            return {**content, "data": data, "metadata": metadata}
        self.endpoint |= {name: content[name] for name in ("status",) if name in content}
        self.endpoint["metadata"] = {**self.endpoint["metadata"], **metadata}
        return dict(self.endpoint)

    def events(self) -> list[str]:
        """Return the reasons of the Events written."""
        return [body["reason"] for _, path, body in self.asked if path.endswith("/events")]

    def failure_events(self) -> list[tuple[int, str]]:
        """Return the counts and texts of the Events about failed deliveries."""
        bodies = [body for _, path, body in self.asked if path.endswith("/events")]
        return [(body["count"], body["message"]) for body in bodies if body["reason"] == "DeliveryFailed"]

    def finalizers_written(self) -> list[list[str]]:
        """Return the lists of finalizers that were written to permit a deletion."""
        patches = [body for method, path, body in self.asked if method == "PATCH" and path.endswith("/orders")]
        return [body["metadata"]["finalizers"] for body in patches if "resourceVersion" in body["metadata"]]


class Deliveries(Store):
    """A store that can be unavailable; every endpoint has three pending deliveries."""

    def __init__(self) -> None:
        self.away = False
        self.discarded: list[str] = []
        self.counted: list[str] = []

    async def discard(self, endpoint_uid: str, reason: str, *, is_deleted: bool = True) -> int:
        """Discard three deliveries."""
        assert reason == ("endpoint deleted" if is_deleted else "endpoint expired")
        if self.away:
            raise StoreUnavailable("the database is locked")
        self.discarded.append(endpoint_uid)
        return 3

    async def read(self, query: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Return counters of an endpoint without deliveries, and record the call."""
        assert query is counts_of
        self.counted.append(*args, **kwargs)
        return cast("T", Counts())


class TransactionsInMemory(Transactions):
    """Transactions of an empty database in memory."""

    def __init__(self) -> None:
        self.clock = lambda: 0
        self._engine = create_engine("sqlite://")
        weakref.finalize(self, self._engine.dispose)
        metadata.create_all(self._engine)

    def write(
        self, _name: str, work: Callable[[Connection], T], *, weight: int = 1, tenant: str = ""
    ) -> "asyncio.Future[T]":
        """Run a function at once."""
        assert (weight, tenant) == (1, "acme")
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._engine.begin() as connection:
            result.set_result(work(connection))
        return result

    async def read(self, _name: str, work: Callable[[Connection], T], *, of_log: bool = False) -> T:
        """Run a function at once."""
        assert not of_log
        with self._engine.begin() as connection:
            return work(connection)


@dataclass(slots=True)
class Reports:
    """The operational events that reconciling accepted.

    Attributes:
        fault: raised in place of the acceptance, if it is set.
    """

    bodies: list[Object] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    fault: StoreUnavailable | None = None

    async def accept_operational(self, namespace: str, project: str, event: IncomingEvent, *, about: str) -> None:
        """Keep an event of the endpoint."""
        assert (namespace, project, about) == ("acme", "billing", "uid-orders")
        if self.fault is not None:
            raise self.fault
        self.bodies.append(json.loads(event.body))
        self.ids.append(event.event_id or "")


class Stage:
    """A reconciler and its parts.

    Args:
        leadership: of this replica; by default it leads.
        check_resource_version: whether another replica may lead too.
    """

    def __init__(self, leadership: Leadership | None = None, *, check_resource_version: bool = False) -> None:
        self.now = NOW
        self.server, self.store, self.cache, self.registry = ApiServer(), Deliveries(), Cache(), Registry()
        self.digests, self.queue, self.reports = KeyDigests(TransactionsInMemory()), WorkQueue(), Reports()
        self.unpublished_health = UnpublishedHealth(self.queue, self.clock)
        self.reporter = StatusReporter(
            self.store, self.registry, self.unpublished_health.publish, interval=30, clock=lambda: 0.0
        )
        observer = ResourceObserver(
            self.server,
            self.cache,
            self.digests,
            self.registry,
            Guard(),
            allow_http=False,
            finalizer_grace=timedelta(seconds=30),
            max_timeout=30,
        )
        applier = Applier(
            self.server,
            self.cache,
            self.registry,
            self.store,
            self.unpublished_health,
            self.clock,
            cast("Events", self.reports),
            check_resource_version=check_resource_version,
        )
        self.reconciler = Reconciler(
            self.queue,
            self.cache,
            self.registry,
            leadership or Leadership.without_end(),
            observer,
            applier,
            self.unpublished_health,
            self.reporter,
            self.clock,
        )
        self.cache.see("Project", project())

    def clock(self) -> datetime:
        """Return the time that the test has set."""
        return self.now

    def sees(self, version: int, *, expires_at: str = "", **more: Any) -> None:
        """Show the endpoint at a version, with its finalizer."""
        body = endpoint(version, **{"finalizers": [FINALIZER], **more})
        if expires_at:
            body["spec"]["expiresAt"] = expires_at
        self.cache.see("WebhookEndpoint", body)
        self.server.endpoint = body

    async def ready(self) -> None:
        """Make an endpoint known to delivery."""
        self.sees(1)
        self.cache.see_secret(secret())
        await self.reconciler.reconcile(ORDERS)
        assert self.registry.get("uid-orders") is not None
        self.server.asked.clear()

    async def counted(self) -> list[str]:
        """Return the endpoints whose counts were read to publish them."""
        await self.reporter.flush()
        return self.store.counted
