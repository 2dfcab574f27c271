"""Delivery results reach the cluster soon, and at a bounded rate."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from support.clock import Seconds
from support.dispatcher import Plan, open_store, subscriber
from support.polling import until
from support.store_factories import accept_one, settlement

from hookwright_operator.delivery import status_reporter
from hookwright_operator.delivery.status_reporter import StatusReporter
from hookwright_operator.registry import Endpoint, Health, Registry
from hookwright_operator.store.records import Attempt, Counts, Settlement, State
from hookwright_operator.store.store import Store
from hookwright_runtime.errors import StoreUnavailable

INTERVAL = 30.0


@dataclass(slots=True)
class Stage:
    """A publisher over a real store, and its publications."""

    store: Store
    registry: Registry = field(default_factory=Registry)
    clock: Seconds = field(default_factory=Seconds)
    published: list[tuple[str, Health]] = field(default_factory=list)
    publisher: StatusReporter = field(init=False)

    def __post_init__(self) -> None:
        self.publisher = StatusReporter(self.store, self.registry, self.publish, interval=INTERVAL, clock=self.clock)

    def publish(self, endpoint: Endpoint, shown: Health) -> None:
        """Record a publication."""
        self.published.append((endpoint.uid, shown))

    def endpoint(self, uid: str = "orders", *, namespace: str = "acme") -> Endpoint:
        """Register an endpoint."""
        made = replace(subscriber(uid, "https://example.com/"), namespace=namespace)
        self.registry.put(made)
        return made

    async def tick(self, seconds: float) -> None:
        """Advance the clock, and let the publisher check due counts a few times."""
        self.clock.now += seconds
        times = self.clock.asked
        await until(lambda: self.clock.asked >= times + 5)


@pytest.fixture
async def stage(database: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    """Yield a running publisher whose ticks take no time."""
    store = await open_store(database, Plan())
    stage = Stage(store)
    monkeypatch.setattr(status_reporter, "_TICK", 0.002)
    monkeypatch.setattr(status_reporter, "_PER_SECOND", 10 / 0.002)
    running = asyncio.create_task(stage.publisher.run())
    yield stage
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await store.close()


def made(uid: str, state: State, error: str = "") -> Settlement:
    """Return the result of an attempt."""
    return Settlement("dlv_1", uid, Attempt(1, 1_800_000_000_000, 7, 500 if error else 200, error), state)


async def test_a_first_result_is_published_soon_and_the_next_after_the_interval(stage: Stage) -> None:
    """An endpoint's counts are published at most once per interval, however many attempts are made."""
    endpoint = stage.endpoint()
    for _ in range(100):
        stage.publisher.attempted(endpoint, made("orders", State.DELIVERED))
    await stage.tick(0.9)
    assert not stage.published
    await stage.tick(0.2)
    assert len(stage.published) == 1
    stage.publisher.attempted(endpoint, made("orders", State.DELIVERED))
    await stage.tick(INTERVAL - 1)
    assert len(stage.published) == 1
    await stage.tick(1.1)
    assert len(stage.published) == 2


@dataclass(slots=True)
class SlowCounts:
    """Reads of counts that reach the publisher only when the test opens the gate."""

    reading: Callable[..., Awaitable[Counts]]
    read: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    fault: Exception | None = None

    async def __call__(self, query: Callable[..., Counts], uid: str) -> Counts:
        """Return the counts as they were when they were read."""
        counts = await self.reading(query, uid)
        self.read.set()
        await self.gate.wait()
        if self.fault:
            raise self.fault
        return counts


@pytest.fixture
def slow(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> SlowCounts:
    """Make the reads of the stage's store slow."""
    slow = SlowCounts(stage.store.read)
    monkeypatch.setattr(stage.store, "read", slow)
    return slow


async def test_a_result_during_the_read_of_counts_is_published_too(stage: Stage, slow: SlowCounts) -> None:
    """The counts that are being read may lack the result, so another publication follows."""
    endpoint, publisher = stage.endpoint(), stage.publisher
    publisher.attempted(endpoint, made("orders", State.DELIVERED))
    flushing = asyncio.create_task(publisher.flush())
    await slow.read.wait()
    publisher.attempted(endpoint, made("orders", State.FAILED, "HTTP 500"))
    slow.gate.set()
    await flushing
    await publisher.flush()
    assert [health.failures for _, health in stage.published] == [0, 1]


async def test_results_outlive_a_read_of_counts_that_fails(stage: Stage, slow: SlowCounts) -> None:
    """Failures from before the read and from during it are published together later."""
    endpoint, publisher = stage.endpoint(), stage.publisher
    slow.fault = StoreUnavailable("disk full")
    publisher.attempted(endpoint, made("orders", State.FAILED, "HTTP 500"))
    flushing = asyncio.create_task(publisher.flush())
    await slow.read.wait()
    publisher.attempted(endpoint, made("orders", State.FAILED, "HTTP 501"))
    slow.gate.set()
    with pytest.raises(StoreUnavailable):
        await flushing
    slow.fault = None
    await publisher.flush()
    assert [(health.failures, health.error) for _, health in stage.published] == [(2, "HTTP 501")]


async def test_a_flush_skips_what_the_loop_publishes_meanwhile(stage: Stage, slow: SlowCounts) -> None:
    """A flush that fails would leave other statuses unpublished when a leader is released."""
    for uid in ("billing", "orders"):
        stage.publisher.attempted(stage.endpoint(uid), made(uid, State.DELIVERED))
    flushing = asyncio.create_task(stage.publisher.flush())
    await slow.read.wait()
    stage.clock.now += 2
    await until(lambda: not stage.publisher._unpublished)
    slow.gate.set()
    await flushing
    await until(lambda: len(stage.published) == 2)
    assert {uid for uid, _ in stage.published} == {"billing", "orders"}


async def test_the_loop_goes_on_after_a_flush_that_overtook_it(stage: Stage, slow: SlowCounts) -> None:
    """The flush publishes the endpoint that the loop would have published next."""
    endpoints = [stage.endpoint(uid) for uid in ("billing", "orders")]
    for endpoint in endpoints:
        stage.publisher.attempted(endpoint, made(endpoint.uid, State.DELIVERED))
    stage.clock.now += 2
    await slow.read.wait()
    flushing = asyncio.create_task(stage.publisher.flush())
    await until(lambda: not stage.publisher._unpublished)
    slow.gate.set()
    await flushing
    stage.publisher.attempted(endpoints[0], made("billing", State.DELIVERED))
    await stage.tick(INTERVAL + 1)
    await until(lambda: len(stage.published) == 3)
    assert sorted(uid for uid, _ in stage.published) == ["billing", "billing", "orders"]


async def test_nothing_is_published_where_nothing_happened(stage: Stage) -> None:
    """The status of an endpoint without attempts is not written."""
    stage.endpoint()
    await stage.tick(10 * INTERVAL)
    assert not stage.published


async def test_what_is_published_are_the_stores_counts_and_the_last_attempts_words(stage: Stage) -> None:
    """The counts are those in the store at publication; the error is that of the latest attempt."""
    endpoint = stage.endpoint()
    delivery = await accept_one(stage.store, claimed=True)
    await accept_one(stage.store)
    await stage.store.settle([settlement(delivery, State.DELIVERED)])
    stage.publisher.attempted(endpoint, made("orders", State.PENDING, "HTTP 500"))
    stage.publisher.attempted(endpoint, made("orders", State.PENDING, "connection refused"))
    await stage.tick(1.1)
    [(uid, health)] = stage.published
    assert (uid, health.error, health.failures) == ("orders", "connection refused", 0)
    assert (health.counts.pending, health.counts.delivered, health.counts.last_status_code) == (1, 1, 200)


async def test_a_delivery_that_was_given_up_is_published_without_waiting_for_the_interval(stage: Stage) -> None:
    """Failed deliveries since the last publication are counted, and each is counted once."""
    endpoint = stage.endpoint()
    stage.publisher.attempted(endpoint, made("orders", State.DELIVERED))
    await stage.tick(1.1)
    for _ in range(3):
        stage.publisher.attempted(endpoint, made("orders", State.FAILED, "HTTP 500"))
    await stage.tick(5.1)
    assert [health.failures for _, health in stage.published] == [0, 3]
    stage.publisher.attempted(endpoint, made("orders", State.DELIVERED))
    await stage.tick(INTERVAL)
    assert [health.failures for _, health in stage.published] == [0, 3, 0]


async def test_the_limit_of_an_endpoint_whose_attempts_time_out_is_published(stage: Stage) -> None:
    """The publication shows the limit after the latest attempt; a change of counts without an attempt keeps it."""
    endpoint = stage.endpoint()
    stage.publisher.attempted(endpoint, made("orders", State.PENDING, "timed out"), limited_to=2)
    stage.publisher.changed("orders")
    await stage.tick(1.1)
    stage.publisher.attempted(endpoint, made("orders", State.PENDING, "timed out"), limited_to=2)
    stage.publisher.attempted(endpoint, made("orders", State.DELIVERED))
    await stage.tick(INTERVAL)
    assert [(health.error, health.limited_to) for _, health in stage.published] == [("timed out", 2), ("", None)]


async def test_an_endpoint_that_is_gone_is_not_published(stage: Stage) -> None:
    """The publisher also forgets the endpoint."""
    endpoint = stage.endpoint()
    stage.publisher.attempted(endpoint, made("orders", State.DELIVERED))
    await stage.tick(1.1)
    stage.publisher.attempted(endpoint, made("orders", State.DELIVERED))
    stage.registry.remove("orders")
    await stage.tick(INTERVAL)
    assert len(stage.published) == 1
    assert not stage.publisher._last
    assert not stage.publisher._unpublished


async def test_many_endpoints_are_written_at_a_bounded_rate(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes of a thousand endpoints are not written all at once; the oldest changes are written first."""
    for number in range(50):
        uid = f"endpoint-{number:02}"
        stage.publisher.attempted(stage.endpoint(uid), made(uid, State.DELIVERED))
        stage.clock.now += 0.001
    rounds: list[int] = []
    publish_all = stage.publisher._publish_all

    async def counted(uids: list[str]) -> None:
        rounds.append(len(uids))
        await publish_all(uids)

    monkeypatch.setattr(stage.publisher, "_publish_all", counted)
    stage.clock.now += 5
    await until(lambda: len(stage.published) == 50)
    assert max(rounds) == 10
    assert [uid for uid, _ in stage.published] == [f"endpoint-{number:02}" for number in range(50)]


async def test_a_tenant_with_many_due_statuses_does_not_delay_those_of_another(stage: Stage) -> None:
    """A tick publishes 10 statuses: the two of the small tenant are among the first, although they are the latest."""
    uids = {"acme": [f"acme-{number:02}" for number in range(50)], "globex": ["globex-0", "globex-1"]}
    for namespace, of_namespace in uids.items():
        for uid in of_namespace:
            stage.publisher.attempted(stage.endpoint(uid, namespace=namespace), made(uid, State.DELIVERED))
        stage.clock.now += 0.1
    stage.clock.now += 5
    await until(lambda: len(stage.published) == 52)
    order = [uid for uid, _ in stage.published]
    assert order[:4] == ["acme-00", "globex-0", "acme-01", "globex-1"]
    assert order[4:] == uids["acme"][2:]


def test_no_namespace_has_more_than_half_while_another_has_due_statuses() -> None:
    """Each gets as many as the other; a part that one does not use goes to the other."""
    large = [("large", float(number), f"large-{number:05}") for number in range(10_000)]
    small = [("small", 20_000.0 + number, f"small-{number}") for number in range(7)]
    due = [*reversed(large), *small]
    turns = status_reporter._in_turns(due, 10)
    assert [uid for uid in turns if uid.startswith("large")] == [f"large-{number:05}" for number in range(5)]
    assert [uid for uid in turns if uid.startswith("small")] == [f"small-{number}" for number in range(5)]
    turns = status_reporter._in_turns([*large, *small[:1]], 10)
    assert turns == ["large-00000", "small-0", *(f"large-{number:05}" for number in range(1, 9))]


def test_the_turns_go_on_after_the_namespace_of_the_last_one() -> None:
    """Endpoints that are not registered count as one namespace without a name."""
    due = [(namespace, 1.0, f"{namespace}-1") for namespace in ("", "a", "b", "c")]
    assert status_reporter._in_turns(due, 2, after="b") == ["c-1", "-1"]
    assert status_reporter._in_turns(due, 2, after="c") == ["-1", "a-1"]
    assert status_reporter._in_turns(due, 9, after="missing") == ["-1", "a-1", "b-1", "c-1"]
    assert status_reporter._in_turns([], 9) == []
