"""Delivery without Kubernetes: real store, sender and loops, connected as in the operator."""

import asyncio
import random
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from support.attempts import SECRET
from support.polling import PATIENCE, until

from hookwright_dev.receiver import Received, Receiver
from hookwright_operator.delivery.attempt import RetrySchedule
from hookwright_operator.delivery.dispatcher import Dispatcher
from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.delivery.shares import Bounds
from hookwright_operator.delivery.status_reporter import StatusReporter
from hookwright_operator.registry import Endpoint, Registry
from hookwright_operator.services.events import AcceptResult, Events, IncomingEvent
from hookwright_operator.store.records import Counts, DeliveryRecord, Settlement, State
from hookwright_operator.store.shard_sharing import SHARDS
from hookwright_operator.store.sql import read
from hookwright_operator.store.store import Store
from hookwright_operator.supervisor import Supervisor


def now_ms() -> int:
    """Return the time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Jumping:
    """Clock that shows the real time plus an offset, in milliseconds; a test changes the offset."""

    def __init__(self) -> None:
        self.offset = 0

    def __call__(self) -> int:
        """Return the time in milliseconds since the epoch."""
        return now_ms() + self.offset


@dataclass(frozen=True, slots=True)
class Plan:
    """Settings of an engine.

    Attributes:
        schedule: of retries.
        lease_ms: of claims, in milliseconds; it must exceed the endpoints' timeouts.
        window: deliveries of one endpoint kept in memory.
        memory: bytes of bodies kept in memory.
        in_flight: attempts under way at once, of all endpoints.
        clock_ms: the time for store, loops and signatures.
        heartbeats: whether the claim lease is renewed.
        sweep: seconds between two checks of the whole store.
        beat: seconds between two heartbeats; None is a sixth of the claim lease.
        jitter: random part of the longest pause after a timeout.
    """

    schedule: str = "100ms,100ms,100ms"
    lease_ms: int = 60_000
    window: int = 64
    memory: int = 64 * 1024 * 1024
    in_flight: int = 1024
    clock_ms: Callable[[], int] = now_ms
    heartbeats: bool = True
    sweep: float = 10.0
    beat: float | None = None
    jitter: Callable[[], float] = random.random


@dataclass(slots=True)
class Busy:
    """A receiver's behaviour: it keeps every request open until `open` is set, and counts those open at once."""

    open: asyncio.Event = field(default_factory=asyncio.Event)
    now: int = 0
    peak: int = 0

    async def __call__(self, _: Received) -> int:
        """Keep a request open, then answer 200."""
        self.now += 1
        self.peak = max(self.peak, self.now)
        try:
            await self.open.wait()
        finally:
            self.now -= 1
        return 200


@dataclass(slots=True)
class Watcher:
    """Records the results of attempts."""

    settled: list[Settlement] = field(default_factory=list)
    limited_to: dict[str, int | None] = field(default_factory=dict)
    hindrances: list[tuple[str, str]] = field(default_factory=list)

    def attempted(self, endpoint: Endpoint, settlement: Settlement, *, limited_to: int | None = None) -> None:
        """Record a result."""
        assert endpoint.uid == settlement.endpoint_uid
        self.settled.append(settlement)
        self.limited_to[endpoint.uid] = limited_to

    def hindered(self, endpoint: Endpoint, error: str) -> None:
        """Record why an attempt could not be made."""
        self.hindrances.append((endpoint.uid, error))


@dataclass(slots=True)
class Engine:
    """A running engine; created by `start`, ended by `stop`."""

    plan: Plan
    store: Store
    sender: Sender
    registry: Registry
    dispatcher: Dispatcher
    events: Events
    watcher: Watcher
    loops: Supervisor = field(default_factory=Supervisor)
    _own_sender: Sender | None = None

    @classmethod
    async def start(cls, database: Path | Store, plan: Plan | None = None, *, sender: Sender | None = None) -> Self:
        """Open the store, or use an open one, and start the loops."""
        plan = plan or Plan()
        store = database if isinstance(database, Store) else await open_store(database, plan)
        new_sender = None
        if sender is None:
            sender = new_sender = Sender(Guard(["127.0.0.0/8"]), user_agent="Hookwright/test", allow_http=True)
            await new_sender.start()
        registry, watcher = Registry(), Watcher()
        dispatcher = Dispatcher(
            store,
            sender,
            RetrySchedule.parse(plan.schedule),
            Bounds(plan.window, plan.memory, plan.in_flight),
            clock_ms=plan.clock_ms,
            observer=watcher,
            sweep=plan.sweep,
            jitter=plan.jitter,
        )
        registry.listen(dispatcher)
        store.listen(dispatcher.waiting)
        registry.put_project("acme", "billing")
        reporter = StatusReporter(store, registry, lambda *_: None, interval=30, clock=time.monotonic)
        events = Events(registry, dispatcher, store, reporter)
        engine = cls(plan, store, sender, registry, dispatcher, events, watcher, _own_sender=new_sender)
        await dispatcher.renew_lease()
        await dispatcher.reload_due_times()
        for name, run in dispatcher.loops.items():
            engine.loops.start(name, run)
        if plan.heartbeats:
            lease = plan.lease_ms / 1000 if plan.beat is None else 6 * plan.beat
            engine.loops.start("heartbeat", partial(dispatcher.keep_lease, lease))
        return engine

    async def stop(self, grace: float = 10.0) -> None:
        """Stop as the operator does at SIGTERM; the store is closed as well."""
        await self.loops.stop("claim", "sweep")
        await self.dispatcher.drain(grace)
        await self.loops.stop()
        if self._own_sender is not None:
            await self._own_sender.close()
        await self.store.close()

    @property
    def at_rest(self) -> bool:
        """Whether no attempt, no storing of a result and no release of claims is under way."""
        return not any(self.dispatcher.owned_shards.under_way(shard) for shard in range(SHARDS))

    async def post(
        self, type_: str = "delivered", *, event_id: str | None = None, body: bytes = b"{}", project: str = "billing"
    ) -> AcceptResult:
        """Accept one event."""
        return await self.events.accept("acme", project, [IncomingEvent(event_id, type_, event_id or "m-1", body)])

    async def post_many(self, count: int, *, type_: str = "delivered", project: str = "billing") -> None:
        """Accept events whose bodies are their numbers, in order and without a pause."""
        for number in range(count):
            await self.post(type_, body=str(number).encode(), project=project)

    async def counts(self, uid: str) -> Counts:
        """Return the counters of an endpoint."""
        return await self.store.read(read.counts_of, uid)

    async def log(self, uid: str) -> list[DeliveryRecord]:
        """Return the newest deliveries of an endpoint."""
        records, _ = await self.store.read_log(read.log, uid, limit=1000)
        return records

    async def ended(self, uid: str, count: int, *, within: float = PATIENCE) -> None:
        """Wait until that many deliveries of an endpoint have ended."""

        async def enough() -> bool:
            counted = await self.counts(uid)
            return counted.delivered + counted.failed + counted.discarded >= count

        await until(enough, within=within)


async def open_store(path: Path, plan: Plan, *, patience: float = 5.0) -> Store:
    """Open a store for an engine; ``patience`` is how many seconds it waits for a foreign lock."""
    return await Store.open(
        f"sqlite:///{path}?timeout={patience}", instance="test", lease_ms=plan.lease_ms, clock=plan.clock_ms
    )


@asynccontextmanager
async def locked(database: Path) -> AsyncIterator[None]:
    """Lock the database with another connection while the block runs."""
    with closing(sqlite3.connect(database, isolation_level=None)) as foreign:
        foreign.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            foreign.execute("ROLLBACK")


def subscriber(
    uid: str,
    url: str,
    *,
    events: frozenset[str] = frozenset({"delivered"}),
    project: str = "billing",
    timeout: float = 20.0,
    max_in_flight: int = 8,
    per_minute: int | None = None,
    suspend: bool = False,
) -> Endpoint:
    """Return an endpoint that is ready for attempts; ``timeout`` in seconds."""
    return Endpoint(
        uid=uid,
        namespace="acme",
        name=uid,
        project=project,
        url=url,
        events=events,
        timeout=timeout,
        max_in_flight=max_in_flight,
        per_minute=per_minute,
        suspend=suspend,
        secrets=(SECRET,),
    )


def tally(records: list[DeliveryRecord]) -> Mapping[State, int]:
    """Return how many deliveries are in each state."""
    return {state: sum(record.state is state for record in records) for state in {one.state for one in records}}


def bodies(receiver: Receiver) -> list[int]:
    """Return the numbers of the events in the order of arrival."""
    return [int(request.body) for request in receiver.received]
