"""At most one reconciler writes at any time, as the audit log of a separate control plane shows."""

import itertools
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from support.cluster_actions import Object, Organization, endpoint, manifest
from support.operator_replicas import Pair, leads, seconds_until_it_leads, writes
from support.polling import eventually
from support.stack import installed_plane

from hookwright_dev.cluster.assets import Assets
from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.installation import OperatorProcess
from hookwright_dev.cluster.postgres import PostgresServer
from hookwright_operator.leader.election import LEASE

pytestmark = pytest.mark.slow

NOWHERE = "http://127.0.0.1:9/"
ROUNDS = 3


@pytest.fixture(scope="module")
def plane(assets: Assets) -> Iterator[ControlPlane]:
    """Yield a control plane for these tests, with an audit log."""
    with installed_plane(assets, audit_level="Metadata") as plane:
        yield plane


@pytest.fixture(scope="module")
def pair(plane: ControlPlane, postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Yield two reconcilers that are not started."""
    pair = Pair(plane, tmp_path_factory.mktemp("pair"), postgres.new_database("writers"))
    yield pair
    pair.kill()


@pytest.fixture(scope="module")
def org(plane: ControlPlane, pair: Pair) -> Iterator[Organization]:
    """Yield an organization."""
    plane.objects.create("Namespace", "acme")
    with Organization(plane, pair.replicas[0], "acme") as organization:
        yield organization


def test_a_standby_writes_nothing(plane: ControlPlane, pair: Pair, org: Organization) -> None:
    """The leader writes what an endpoint needs, and the standby writes no object."""
    leader, standby = pair.leader_and_standby()
    org.with_endpoint(endpoint("orders", NOWHERE))
    assert plane.audit_log is not None
    assert writes(plane.audit_log, leader)
    assert writes(plane.audit_log, standby) == []


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
    leader, standby = pair.leader_and_standby()
    with unrest(plane, org):
        for _ in range(ROUNDS):
            work(plane, leader, since=now())
            pause_start = now()
            leader.running.send_signal(signal.SIGSTOP)
            try:
                seconds_until_it_leads(standby, time.monotonic())
                work(plane, standby, since=pause_start)
            finally:
                leader.running.send_signal(signal.SIGCONT)
            eventually(lambda: not leads(leader), "the one that was paused knows", every=0.01)  # noqa: B023
            work(plane, standby, since=now())
            gain = next(event for event in written(plane, standby, pause_start) if event["objectRef"]["name"] == LEASE)
            late = written(plane, leader, gain["stageTimestamp"])
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
