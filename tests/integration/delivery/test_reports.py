"""Results of attempts reach the leader from every replica."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Self

import pytest
from integration.delivery.test_status_reporter import INTERVAL, made
from sqlalchemy import text
from structlog.testing import capture_logs
from support.clock import Seconds
from support.dispatcher import subscriber
from support.polling import until

from hookwright_operator.delivery.status_reporter import StatusReporter
from hookwright_operator.registry import Endpoint, Health, Registry
from hookwright_operator.store.notifications import REPORTS
from hookwright_operator.store.records import State
from hookwright_operator.store.store import Store


@dataclass(slots=True)
class Process:
    """A publisher of one replica over its own store on the common database, and its publications."""

    store: Store
    leads: bool
    registry: Registry = field(default_factory=Registry)
    clock: Seconds = field(default_factory=Seconds)
    published: list[Health] = field(default_factory=list)
    publisher: StatusReporter = field(init=False)
    endpoint: Endpoint = field(init=False)

    @classmethod
    async def start(cls, url: str, *, leads: bool) -> Self:
        """Open a store, and register one endpoint."""
        process = cls(await Store.open(url, instance="test", lease_ms=60_000, clock=lambda: 1_800_000_000_000), leads)
        process.publisher = StatusReporter(
            process.store,
            process.registry,
            lambda _, health: process.published.append(health),
            interval=INTERVAL,
            clock=process.clock,
            leads=lambda: process.leads,
        )
        process.store.notifications.listen(process.publisher.record_report, channel=REPORTS)
        process.endpoint = subscriber("orders", "https://example.com/")
        process.registry.put(process.endpoint)
        return process

    def attempt(self, state: State, error: str = "", *, limited_to: int | None = None) -> None:
        """Record an attempt with this result."""
        self.publisher.attempted(self.endpoint, made("orders", state, error), limited_to=limited_to)


@pytest.fixture
def url(postgres_url: str) -> str:
    """Use PostgreSQL, because replicas share it."""
    return postgres_url


@pytest.fixture
async def pair(url: str) -> AsyncIterator[tuple[Process, Process]]:
    """Yield a leader and another replica; each receives the other's reports."""
    processes = [await Process.start(url, leads=leads) for leads in (True, False)]
    await until(lambda: all_hear(processes[0].store))
    yield processes[0], processes[1]
    for process in processes:
        await process.store.close()


async def all_hear(store: Store) -> bool:
    """Return whether two connections listen for reports."""
    hearing = "query LIKE 'LISTEN%reports%' AND datname = current_database()"
    number = await store.transactions.read(
        "test",
        lambda connection: connection.scalar(text(f"SELECT count(*) FROM pg_stat_activity WHERE {hearing}")),  # noqa: S608
    )
    return bool(number == 2)


async def reported(teller: Process, hearer: Process) -> None:
    """Send the pending reports, and return when they were received."""
    hearer.publisher._unpublished.clear()
    await teller.publisher.flush()
    await until(lambda: "orders" in hearer.publisher._unpublished)


async def test_the_leader_publishes_what_another_process_has_seen(pair: tuple[Process, Process]) -> None:
    """The leader publishes the last error, the number of failures and the limit; the other replica nothing."""
    leader, second = pair
    second.attempt(State.FAILED, "HTTP 500")
    second.attempt(State.FAILED, "connection refused: línea 1\nlínea 2", limited_to=2)
    await reported(second, leader)
    await leader.publisher.flush()
    [health] = leader.published
    assert (health.error, health.failures) == ("connection refused: línea 1\nlínea 2", 2)
    assert health.limited_to == 2
    assert second.published == []
    assert not second.publisher._unpublished


async def test_a_report_without_an_attempt_leaves_the_last_ones_words(pair: tuple[Process, Process]) -> None:
    """A replica without attempts reports counts and no errors."""
    leader, second = pair
    leader.attempt(State.PENDING, "HTTP 500")
    second.publisher.changed("orders")
    await second.publisher.flush()
    second.attempt(State.FAILED, "HTTP 503")
    second.publisher.changed("orders")
    await second.publisher.flush()
    await until(lambda: leader.publisher._unpublished["orders"].report.failures == 1)
    second.publisher.changed("orders")
    second.publisher.changed("marker")
    await second.publisher.flush()
    await until(lambda: "marker" in leader.publisher._unpublished)
    await leader.publisher.flush()
    assert [health.error for health in leader.published] == ["HTTP 503"]


async def test_a_delivery_that_was_given_up_elsewhere_is_published_soon(pair: tuple[Process, Process]) -> None:
    """The failure is published after the interval for failures, and before the interval for counts."""
    leader, second = pair
    leader.attempt(State.DELIVERED)
    await leader.publisher.flush()
    second.attempt(State.FAILED, "HTTP 500")
    await reported(second, leader)
    due_in = leader.publisher._unpublished["orders"].due_at - leader.clock.now
    assert due_in == 5.0


async def test_reports_follow_the_lead(pair: tuple[Process, Process]) -> None:
    """The old leader reports its unpublished results to the new one."""
    leader, second = pair
    leader.attempt(State.FAILED, "HTTP 500")
    leader.leads, second.leads = False, True
    await reported(leader, second)
    await second.publisher.flush()
    assert [(health.error, health.failures) for health in second.published] == [("HTTP 500", 1)]
    assert leader.published == []


async def test_a_report_that_cannot_be_read_hurts_nobody(pair: tuple[Process, Process]) -> None:
    """A report that is not valid is logged, and the next one is recorded."""
    leader, second = pair
    with capture_logs() as logs:
        second.store.notifications.send(["not a report", '{"uid": "orders", "failures": -1}'], channel=REPORTS)
        second.attempt(State.FAILED, "x" * 100_000)
        await reported(second, leader)
    assert sum("report of another replica is not valid" in entry["event"] for entry in logs) == 2
    assert leader.publisher._unpublished["orders"].report.error == "x" * 500
