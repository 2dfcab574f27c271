"""Gauges of a store's backlog, and the count of the store's errors."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY
from sqlalchemy import Connection, text

from hookwright_operator.delivery.status_reporter import StatusReporter
from hookwright_operator.leader.gauges import measure
from hookwright_operator.leader.housekeeping import Housekeeping
from hookwright_operator.registry import Endpoint, Registry, TlsIdentity
from hookwright_operator.store.records import NewDelivery, NewEvent
from hookwright_operator.store.sql.statements import driver_of
from hookwright_operator.store.store import Store
from hookwright_operator.watch.cache import Cache
from hookwright_operator.watch.changes import Changes
from hookwright_operator.watch.work_queue import WorkQueue
from hookwright_runtime.errors import StoreError, StoreUnavailable
from hookwright_runtime.kubernetes import KubernetesClient

NOW_MS = 1_800_000_000_000
SECRET = ("whsec_" + "A" * 32,)


class Installation:
    """A real store, and endpoints as reconciling would register them; the clock moves only in `wait`."""

    def __init__(self, store: Store, clock: list[int]) -> None:
        self.store, self.clock = store, clock
        self.registry, self.cache = Registry(), Cache()

    def endpoint(self, name: str, *, reachable: str = "True", tried: int | None = None, **fields: Any) -> None:
        """Register an endpoint whose last attempt was so many minutes ago; its uid is its name."""
        creation = {"uid": name, "namespace": "acme", "name": name, "project": "billing", "url": "https://example.com/"}
        self.registry.put(Endpoint(**creation | {"events": frozenset({"delivered"}), "secrets": SECRET} | fields))
        condition = {
            "type": "Reachable",
            "status": reachable,
            "reason": "R",
            "lastTransitionTime": "2030-01-31T12:00:00Z",
        }
        metadata = {"uid": name, "name": name, "namespace": "acme", "resourceVersion": "1"}
        spec = {"projectRef": {"name": "billing"}, "url": "https://example.com/", "events": ["delivered"]}
        status: dict[str, Any] = {"conditions": [condition]}
        if tried is not None:
            last = datetime.fromtimestamp(NOW_MS / 1000, UTC) - timedelta(minutes=tried)
            status["deliveries"] = {"lastAttemptTime": last.strftime("%Y-%m-%dT%H:%M:%SZ")}
        body = {"metadata": metadata, "spec": spec, "status": status}
        self.cache.see("WebhookEndpoint", body)

    async def accept(self, *endpoints: str) -> None:
        """Write an event with an unclaimed delivery for each endpoint."""
        creation = tuple(NewDelivery(f"dlv_{name}", name, claimed=False) for name in endpoints)
        await self.store.accept([NewEvent("msg_1", "acme", "billing", None, "delivered", b"{}", creation)])

    async def measured(self, name: str, after: float = 0, **labels: str) -> float:
        """Return the value of a gauge so many seconds later."""
        self.clock[0] = NOW_MS + int(after * 1000)
        await measure(self.store, self.registry, self.cache, now_ms=self.clock[0])
        return REGISTRY.get_sample_value(f"hookwright_{name}", labels) or 0.0


@pytest.fixture
async def installation(database: Path) -> AsyncIterator[Installation]:
    """Yield an installation with an empty store."""
    clock = [NOW_MS]
    url = f"sqlite:///{database}?timeout=0.1"
    store = await Store.open(url, instance="test", lease_ms=60_000, clock=lambda: clock[0])
    yield Installation(store, clock)
    await store.close()


async def test_what_waits_for_no_reason_of_its_endpoint_is_late(installation: Installation) -> None:
    """Both ages of a delivery that is due for a minute are a minute."""
    installation.endpoint("good")
    await installation.accept("good")
    assert await installation.measured("deliveries_oldest_pending_age_seconds", after=60) == 60
    assert await installation.measured("deliveries_oldest_late_age_seconds", after=60) == 60
    assert await installation.measured("deliveries_pending") == 1


@pytest.mark.parametrize(
    ("endpoint", "age"),
    [
        ({"suspend": True}, 0),
        ({"block_reason": "ProjectNotFound"}, 0),
        ({"secrets": ()}, 0),
        ({"reachable": "False"}, 60),
        ({"per_minute": 6}, 60),
    ],
    ids=["suspended", "blocked", "without a secret", "failing", "rate limited"],
)
async def test_what_its_endpoint_holds_up_is_not_late(
    installation: Installation, endpoint: dict[str, Any], age: float
) -> None:
    """Such a delivery causes no alert; if attempts are made, the age of the oldest delivery shows it."""
    installation.endpoint("held", **endpoint)
    await installation.accept("held")
    assert await installation.measured("deliveries_oldest_late_age_seconds", after=60) == 0
    assert await installation.measured("deliveries_oldest_pending_age_seconds", after=60) == age


async def test_an_endpoint_never_tried_is_late_like_any_other(installation: Installation) -> None:
    """Before the first attempt, an endpoint counts as reachable."""
    installation.endpoint("new", reachable="Unknown")
    await installation.accept("new")
    assert await installation.measured("deliveries_oldest_late_age_seconds", after=30) == 30


async def test_a_delivery_of_an_endpoint_that_is_gone_is_not_late(installation: Installation) -> None:
    """The delivery will be discarded."""
    await installation.accept("gone")
    assert await installation.measured("deliveries_oldest_pending_age_seconds", after=60) == 0


async def test_client_certificates_that_end_within_a_week_are_counted(installation: Installation) -> None:
    """Also one that has ended, whose endpoint is blocked."""
    now = datetime.fromtimestamp(NOW_MS / 1000, UTC)
    for days in (-1, 6, 8):
        identity = TlsIdentity(f"ends in {days}", ends_at=now + timedelta(days=days))
        installation.endpoint(f"d{days}", tls=identity, block_reason="" if days > 0 else "CredentialsInvalid")
    installation.endpoint("none", tls=TlsIdentity("authorities only"))
    assert await installation.measured("client_certificates_ending") == 2
    assert await installation.measured("client_certificates_ending", after=86_401) == 3


async def test_each_endpoint_is_in_one_state(installation: Installation) -> None:
    """The order of states is blocked, suspended, failing."""
    installation.endpoint("a", reachable="False")
    installation.endpoint("b", reachable="False", suspend=True)
    installation.endpoint("c", reachable="False", suspend=True, block_reason="InsecureUrl")
    installation.endpoint("d")
    for state in ("active", "failing", "suspended", "blocked"):
        assert await installation.measured("endpoints", state=state) == 1
    installation.endpoint("e", block_reason="SuspendedAfterFailures")
    assert await installation.measured("endpoints", state="suspended") == 2
    assert await installation.measured("endpoints_suspended_after_failures") == 1


async def test_only_recent_attempts_of_endpoints_that_may_be_sent_to_are_counted(installation: Installation) -> None:
    """An endpoint that failed days ago and had no event since then says nothing about the installation's egress."""
    installation.endpoint("good", tried=1)
    installation.endpoint("bad", reachable="False", tried=14)
    installation.endpoint("idle and bad", reachable="False", tried=16)
    installation.endpoint("never tried", reachable="Unknown")
    installation.endpoint("suspended", reachable="False", suspend=True, tried=1)
    installation.endpoint("blocked", reachable="False", block_reason="InsecureUrl", tried=1)
    assert await installation.measured("endpoints_attempted", result="delivered") == 1
    assert await installation.measured("endpoints_attempted", result="failed") == 1
    assert await installation.measured("endpoints", state="failing") == 2


async def test_a_namespace_counts_once_by_most_of_its_endpoints(installation: Installation) -> None:
    """Ten dead endpoints of one tenant are one namespace; they say nothing about the installation's egress."""
    for number in range(10):
        installation.endpoint(f"bad-{number}", reachable="False", tried=1)
    installation.endpoint("good", tried=1)
    assert await installation.measured("endpoints_attempted", result="failed") == 10
    assert await installation.measured("namespaces_attempted", result="failed") == 1
    assert await installation.measured("namespaces_attempted", result="delivered") == 0


async def test_a_store_that_cannot_be_used_is_counted_for_each_try(installation: Installation, database: Path) -> None:
    """If another connection locks the file, the operation fails as unavailable, and the count rises by one."""
    before = _errors("unavailable")
    second = sqlite3.connect(database, isolation_level=None)
    second.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(StoreUnavailable):
            await installation.store.ping()
    finally:
        second.close()
    assert _errors("unavailable") == before + 1
    await installation.store.ping()
    assert _errors("unavailable") == before + 1


async def test_a_statement_that_is_wrong_is_counted_as_refused(installation: Installation) -> None:
    """The statement inserts an id that exists already."""
    installation.endpoint("good")
    before = _errors("refused")
    await installation.accept("good")
    with pytest.raises(StoreError):
        await installation.accept("good")
    assert _errors("refused") == before + 1


class Nowhere(KubernetesClient):
    """A client that sends no request."""

    def __init__(self) -> None:
        """Log in nowhere."""


@pytest.mark.parametrize("duty", ["gauges", "lost counts"])
async def test_deleted_endpoints_cost_the_leader_nothing(installation: Installation, duty: str) -> None:
    """SQLite takes as many steps with the counters of 5,000 deleted endpoints as without them."""
    store, registry = installation.store, installation.registry
    reporter = StatusReporter(store, registry, lambda *_: None, interval=30, clock=lambda: 0.0)
    changes = Changes(installation.cache, WorkQueue())
    leader = Housekeeping(Nowhere(), store, registry, changes, reporter, lambda: NOW_MS, orphan_grace_ms=0)

    async def work() -> None:
        if duty == "gauges":
            await measure(store, registry, installation.cache, now_ms=NOW_MS)
        else:
            await leader.publish_lost_counts()

    installation.endpoint("good")
    await installation.accept("good")
    await work()
    before = await steps_of(store, work)
    await store.transactions.write("test", lambda connection: connection.execute(text(DELETED)))
    await work()
    assert 0 < await steps_of(store, work) < 2 * before


DELETED = """
WITH RECURSIVE made(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM made WHERE number < 5000)
INSERT INTO counters (endpoint_uid, slot, accepted, delivered, failed, discarded)
SELECT 'deleted-' || number, 1, 1, 0, 0, 1 FROM made
"""


async def steps_of(store: Store, work: Callable[[], Awaitable[None]]) -> int:
    """Return how many tens of instructions SQLite's virtual machine needs for the reads of a function."""
    steps = 0
    read = store.transactions.read

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    async def counted(name: str, query: Callable[[Connection], Any], **options: Any) -> Any:
        def run(connection: Connection) -> Any:
            driver_of(connection).set_progress_handler(count, 10)
            try:
                return query(connection)
            finally:
                driver_of(connection).set_progress_handler(None, 10)

        return await read(name, run, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.transactions, "read", counted)
        await work()
    return steps


def _errors(reason: str) -> float:
    return REGISTRY.get_sample_value("hookwright_store_errors_total", {"reason": reason}) or 0.0
