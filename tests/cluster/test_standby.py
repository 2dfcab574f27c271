"""Leader election among reconcilers: at most one leads at any time, and another one leads soon after its end.

These tests have a separate control plane, because they read the writers in its audit log.
"""

import itertools
import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.cluster_actions import Object, Organization, endpoint, manifest
from support.operator_replicas import exposition, leads, replica, writes
from support.polling import PATIENCE, busy_seconds, eventually

from hookwright_dev.cluster.assets import Assets
from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE, OperatorProcess, install
from hookwright_dev.cluster.postgres import postgres_server
from hookwright_operator.leader.election import LEASE

CRDS = Path(__file__).resolve().parents[2] / "crds"
NOWHERE = "http://127.0.0.1:9/"
ROUNDS = 3
TAKEOVER = 15.0
GAUGES = "hookwright_deliveries_pending"

Pair = tuple[OperatorProcess, OperatorProcess]


@pytest.fixture(scope="module")
def plane(assets: Assets) -> Iterator[ControlPlane]:
    """Yield a control plane for these tests, with an audit log."""
    with ControlPlane.start(assets=assets, crds=CRDS, audit_level="Metadata") as plane:
        install(plane)
        yield plane


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Yield a database for these tests."""
    with postgres_server() as server:
        yield server.new_database("hookwright")


@pytest.fixture(scope="module")
def replicas(plane: ControlPlane, url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Yield two reconcilers that are not started."""
    first, second = (replica(plane, tmp_path_factory.mktemp(name), url, "reconcile") for name in ("first", "second"))
    yield first, second
    for one in (first, second):
        if one.process is not None:
            one.process.kill()


@pytest.fixture
def pair(replicas: Pair) -> Pair:
    """Return the leader and the standby."""
    for one in replicas:
        if one.process is None or not one.process.running:
            one.start()
    (leader,) = eventually(lambda: [one for one in replicas if leads(one)], "one leads")
    (standby,) = [one for one in replicas if one is not leader]
    return leader, standby


@pytest.fixture
def org(plane: ControlPlane, replicas: Pair, request: pytest.FixtureRequest) -> Iterator[Organization]:
    """Yield an organization of the test."""
    name = "test-" + request.node.name.removeprefix("test_").replace("_", "-")[:40].rstrip("-")
    plane.kubectl("create", "namespace", name)
    with Organization(plane, replicas[0], name) as organization:
        yield organization


def lease(plane: ControlPlane) -> Object:
    """Return the Lease's spec."""
    return dict(json.loads(plane.kubectl("get", "lease", LEASE, "-n", SYSTEM_NAMESPACE, "-o", "json").stdout)["spec"])


def seconds_until_it_leads(operator: OperatorProcess, since: float) -> float:
    """Wait until a replica leads, and return how long that took."""
    eventually(lambda: leads(operator), "the other one leads", every=0.05)
    return time.monotonic() - since


def test_a_standby_is_ready_and_writes_nothing(plane: ControlPlane, pair: Pair, org: Organization) -> None:
    """The standby knows all objects and writes none; only the leader shows the gauges of the whole store."""
    leader, standby = pair
    org.with_endpoint(endpoint("orders", NOWHERE))
    standby.wait_ready()
    assert plane.audit_log is not None
    assert writes(plane.audit_log, leader)
    assert writes(plane.audit_log, standby) == []
    assert GAUGES in exposition(leader)
    assert GAUGES not in exposition(standby)


def test_after_a_kill_the_standby_leads_within_fifteen_seconds(pair: Pair, org: Organization) -> None:
    """The new leader reconciles objects that were declared without a leader."""
    leader, standby = pair
    killed = time.monotonic()
    leader.kill()
    org.apply(manifest("Project", "billing"), endpoint("orders", NOWHERE))
    assert seconds_until_it_leads(standby, killed) < busy_seconds(TAKEOVER)
    org.wait_for("hwep", "orders", "True Delivering")
    assert GAUGES in exposition(standby)


def test_at_sigterm_the_lead_is_handed_on_at_once(plane: ControlPlane, pair: Pair, org: Organization) -> None:
    """The standby does not wait for a released Lease."""
    leader, standby = pair
    asked = time.monotonic()
    leader.running.send_signal(signal.SIGTERM)
    assert seconds_until_it_leads(standby, asked) < busy_seconds(3)
    assert leader.running.wait(PATIENCE) == 0
    org.with_endpoint(endpoint("orders", NOWHERE))
    assert lease(plane)["leaseTransitions"] > 0


@contextmanager
def unrest(plane: ControlPlane, org: Organization) -> Iterator[None]:
    """Change one of the objects every few milliseconds, so that reconcilers always have something to write."""
    path = f"{plane.server}/apis/hookwright.dev/v1alpha1/namespaces/{org.namespace}/webhookendpoints"
    names = [f"e{number}" for number in range(20)]
    org.apply(manifest("Project", "billing"), *(endpoint(name, NOWHERE) for name in names))
    stop = threading.Event()

    def change() -> None:
        with plane._client() as client:
            for number, name in zip(itertools.count(), itertools.cycle(names)):
                if stop.wait(0.01):
                    return
                body = {"spec": {"events": [("delivered", "bounced")[number // len(names) % 2]]}}
                media = {"Content-Type": "application/merge-patch+json"}
                client.patch(f"{path}/{name}", json=body, headers=media).raise_for_status()

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)


def test_a_paused_leader_writes_nothing_when_it_goes_on(plane: ControlPlane, pair: Pair, org: Organization) -> None:
    """Each leader in turn is paused during its work, replaced and continued, several times."""
    leader, standby = pair
    with unrest(plane, org):
        for _ in range(ROUNDS):
            work(plane, leader, since=now())
            paused = now()
            leader.running.send_signal(signal.SIGSTOP)
            try:
                seconds_until_it_leads(standby, time.monotonic())
                work(plane, standby, since=paused)
            finally:
                leader.running.send_signal(signal.SIGCONT)
            eventually(lambda: not leads(leader), "the one that was paused knows", every=0.01)  # noqa: B023
            work(plane, standby, since=now())
            gained = next(event for event in written(plane, standby, paused) if event["objectRef"]["name"] == LEASE)
            late = written(plane, leader, gained["stageTimestamp"])
            assert [(event["verb"], event["requestURI"]) for event in late] == []
            leader, standby = standby, leader


def now() -> str:
    """Return the present time in the format of the audit log."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def written(plane: ControlPlane, operator: OperatorProcess, moment: str) -> list[Object]:
    """Return a replica's writes that were requested after a time."""
    assert plane.audit_log is not None
    return [event for event in writes(plane.audit_log, operator) if event["requestReceivedTimestamp"] > moment]


def work(plane: ControlPlane, operator: OperatorProcess, *, since: str) -> None:
    """Return when a replica has written many objects since a time."""
    eventually(lambda: len(written(plane, operator, since)) > 30, "there is work to do, and it is done")
