"""Two whole operators on one PostgreSQL database: each endpoint belongs to one, and to the other when that one ends."""

import asyncio
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import httpx
import pytest
from support.cluster_actions import Organization, delivered, endpoint, manifest, receiving, sample
from support.operator_replicas import delete_lease, exposition, replica
from support.polling import eventually

from hookwright_dev.cluster.installation import OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.cluster.postgres import PostgresServer
from hookwright_dev.receiver import Received
from hookwright_operator.store.shard_sharing import SHARDS

pytestmark = pytest.mark.slow

ENDPOINTS = 20
MAX_IN_FLIGHT = 2
SHORT_LEASE = 4.0
"""Seconds; longer than any attempt."""
LEASE = 300.0
"""Seconds; longer than the deadline of any test, so that a test fails if it waits for the end of a lease."""
ROLES = "reconcile,deliver,intake"


@dataclass(slots=True)
class Arrivals:
    """The requests for each endpoint, by its path, and the maximum of concurrent ones."""

    came: "Counter[tuple[str, int]]" = field(default_factory=Counter)
    now: "Counter[str]" = field(default_factory=Counter)
    most: int = 0

    async def __call__(self, received: Received) -> int:
        """Answer a request slowly."""
        self.came[received.target, int(json.loads(received.body)["messageId"])] += 1
        self.now[received.target] += 1
        self.most = max(self.most, self.now[received.target])
        try:
            await asyncio.sleep(0.02)
        finally:
            self.now[received.target] -= 1
        return 200

    @property
    def repeated(self) -> int:
        """The number of requests after the first one of a delivery."""
        return sum(self.came.values()) - len(self.came)


@dataclass(slots=True)
class Site:
    """Two operators that serve an organization with many endpoints."""

    org: Organization
    operators: tuple[OperatorProcess, OperatorProcess]
    arrivals: Arrivals
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    accepted: list[int] = field(default_factory=list)

    def post(self, operator: OperatorProcess) -> None:
        """Post an event for every endpoint to one of the operators, which may have ended."""
        self.org.operator = operator
        number = next(self.numbers)
        with suppress(httpx.TransportError):
            answer = self.org.post(json.dumps(delivered(number)))
            if answer.status_code == 202:
                assert answer.json()["deliveries"] == ENDPOINTS
                self.accepted.append(number)
            else:
                assert answer.status_code == 503, answer.text

    @contextmanager
    def load(self, *operators: OperatorProcess) -> Iterator[None]:
        """Post inside the context, to each of the operators in turn."""
        ending = threading.Event()

        def produce() -> None:
            for operator in itertools.cycle(operators):
                self.post(operator)
                if ending.wait(0.05):
                    return

        producer = threading.Thread(target=produce)
        producer.start()
        try:
            yield
        finally:
            ending.set()
            producer.join(30)

    def all_arrived(self) -> None:
        """Wait until every endpoint has received every accepted event."""
        expected = {(f"/endpoint-{index}", number) for index in range(ENDPOINTS) for number in self.accepted}
        eventually(lambda: expected <= self.arrivals.came.keys(), "everything has arrived")

    def share(self) -> None:
        """Wait until the running operators have equal shares of the shards."""
        running = [operator for operator in self.operators if operator.process is not None and operator.process.running]
        expected = SHARDS // len(running)
        eventually(lambda: all(owned(operator) == expected for operator in running), f"each has {expected} shards")


def owned(operator: OperatorProcess) -> int:
    """Return how many shards an operator owns by its own metric."""
    return int(sample(exposition(operator), "hookwright_shards_owned"))


@pytest.fixture(scope="module")
def site(control_plane: Cluster, postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield two operators, each with a name, and endpoints that both know."""
    namespace = "test-replicas"
    control_plane.objects.create("Namespace", namespace)
    with receiving() as receiver:
        url = postgres.new_database("replicas")
        first, second = (
            replica(
                control_plane,
                tmp_path_factory.mktemp(name),
                url,
                ROLES,
                INSTANCE=name,
                LEASE=str(LEASE),
                MAX_TIMEOUT="3",
                WATCH_NAMESPACES=namespace,
            )
            for name in ("pod-0", "pod-1")
        )
        receiver.answer = arrivals = Arrivals()
        try:
            first.start()
            with Organization(control_plane, first, namespace) as org:
                names = [f"endpoint-{number}" for number in range(ENDPOINTS)]
                manifests = [endpoint(name, f"{receiver.url}{name}", maxInFlight=MAX_IN_FLIGHT) for name in names]
                org.apply(manifest("Project", "billing"), *manifests)
                for name in names:
                    org.wait_for("hwep", name, "True Delivering")
                yield Site(org, (first, second), arrivals)
        finally:
            for operator in (first, second):
                if operator.process is not None:
                    operator.kill()
            delete_lease(control_plane)
            control_plane.objects.delete("Namespace", namespace, wait=False)


@pytest.fixture
def pair(site: Site) -> Site:
    """Return the site with both operators running, each with its half."""
    for operator in site.operators:
        if operator.process is None or not operator.process.running:
            operator.start()
    site.share()
    return site


def test_two_operators_share_the_endpoints_and_each_delivery_goes_out_once(pair: Site) -> None:
    """The owner of the endpoint sends each event, whichever operator accepted it, within the endpoint's limit."""
    before = [sample(exposition(operator), "hookwright_delivery_attempts_total") for operator in pair.operators]
    for number in range(40):
        pair.post(pair.operators[number % 2])
    pair.all_arrived()

    assert pair.arrivals.repeated == 0
    assert pair.arrivals.most <= MAX_IN_FLIGHT
    after = [sample(exposition(operator), "hookwright_delivery_attempts_total") for operator in pair.operators]
    assert all(now > then for now, then in zip(after, before, strict=True)), "both deliver"


def test_an_operator_restarted_in_its_place_does_not_wait_for_its_lease(pair: Site) -> None:
    """It has the name of the killed one, whose lease then ends; only attempts in progress may be repeated."""
    victim, second = pair.operators
    repetitions = pair.arrivals.repeated
    with pair.load(second):
        time.sleep(1)
        victim.kill()
        victim.start()
        pair.share()
    pair.all_arrived()

    assert pair.arrivals.repeated - repetitions <= ENDPOINTS * 2 * MAX_IN_FLIGHT
    assert pair.arrivals.most <= MAX_IN_FLIGHT


def test_an_operator_that_is_told_to_end_hands_its_endpoints_on_at_once(pair: Site) -> None:
    """No delivery is repeated or waits for a lease."""
    ending, second = pair.operators
    repetitions = pair.arrivals.repeated
    with pair.load(ending, second):
        time.sleep(1)
        assert ending.stop() == 0
        pair.share()
    pair.all_arrived()

    assert pair.arrivals.repeated == repetitions
    assert pair.arrivals.most <= MAX_IN_FLIGHT


def test_after_a_kill_the_other_takes_over_when_the_lease_has_ended(pair: Site) -> None:
    """No delivery is lost; until then only the dead operator's endpoints wait."""
    victim, second = pair.operators
    assert victim.stop() == 0
    victim.settings = {**victim.settings, "HOOKWRIGHT_LEASE": str(SHORT_LEASE)}
    victim.start()
    pair.share()
    repetitions = pair.arrivals.repeated
    with pair.load(victim, second):
        time.sleep(1)
        victim.kill()
        at = time.monotonic()
        assert owned(second) == SHARDS // 2
        pair.share()
        took = time.monotonic() - at
    pair.all_arrived()

    assert took > SHORT_LEASE / 2
    assert pair.arrivals.repeated - repetitions <= ENDPOINTS * 2 * MAX_IN_FLIGHT
    assert pair.arrivals.most <= MAX_IN_FLIGHT
