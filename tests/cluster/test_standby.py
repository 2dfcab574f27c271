"""Leader election among reconcilers: another one leads soon after the end of a leader."""

import signal
import time
from collections.abc import Iterator

import pytest
from support.cluster_actions import Organization, endpoint, manifest
from support.operator_replicas import LEADER_LEASE, Pair, seconds_until_it_leads
from support.polling import PATIENCE, busy_seconds, eventually

from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE, OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.cluster.postgres import PostgresServer
from hookwright_operator.leader.election import LEASE

NOWHERE = "http://127.0.0.1:9/"
GAUGES = "hookwright_deliveries_pending"


@pytest.fixture(scope="module")
def pair(control_plane: Cluster, postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Yield two reconcilers that are not started."""
    pair = Pair(control_plane, tmp_path_factory.mktemp("pair"), postgres.new_database("standby"))
    yield pair
    pair.kill()


@pytest.fixture
def leader_and_standby(pair: Pair) -> tuple[OperatorProcess, OperatorProcess]:
    """Return both when one leads."""
    return pair.leader_and_standby()


@pytest.fixture
def org(control_plane: Cluster, pair: Pair, namespace: str) -> Iterator[Organization]:
    """Yield an organization of the test."""
    with Organization(control_plane, pair.replicas[0], namespace) as organization:
        yield organization


@pytest.mark.slow
def test_a_standby_is_ready_and_only_the_leader_shows_the_gauges(
    leader_and_standby: tuple[OperatorProcess, OperatorProcess], org: Organization
) -> None:
    """The standby knows all objects; only the leader shows the gauges of the whole store."""
    leader, standby = leader_and_standby
    org.with_endpoint(endpoint("orders", NOWHERE))
    standby.wait_ready()
    assert GAUGES in leader.metrics()
    assert GAUGES not in standby.metrics()


@pytest.mark.slow
def test_after_a_kill_the_standby_leads_when_the_lease_has_ended(
    leader_and_standby: tuple[OperatorProcess, OperatorProcess], org: Organization
) -> None:
    """The new leader reconciles objects that were declared without a leader."""
    leader, standby = leader_and_standby
    start = time.monotonic()
    leader.kill()
    org.apply(manifest("Project", "billing"), endpoint("orders", NOWHERE))
    assert seconds_until_it_leads(standby, start) < busy_seconds(LEADER_LEASE * 15 / 12)
    org.wait_for("hwep", "orders", "True Delivering")
    eventually(lambda: GAUGES in standby.metrics(), "the new leader shows the gauges")


def test_at_sigterm_the_lead_is_handed_on_at_once(
    control_plane: Cluster, leader_and_standby: tuple[OperatorProcess, OperatorProcess], org: Organization
) -> None:
    """The standby does not wait for a released Lease."""
    leader, standby = leader_and_standby
    start = time.monotonic()
    leader.running.send_signal(signal.SIGTERM)
    assert seconds_until_it_leads(standby, start) < busy_seconds(LEADER_LEASE / 2)
    assert leader.running.wait(PATIENCE) == 0
    org.with_endpoint(endpoint("orders", NOWHERE))
    lease = control_plane.objects.get("lease", LEASE, SYSTEM_NAMESPACE)
    assert lease is not None
    assert lease["spec"]["leaseTransitions"] > 0
