"""A real operator on a real PostgreSQL server, one of which is killed."""

from collections.abc import Iterator

import pytest
from support.cluster_actions import Organization, delivered, endpoint, message_ids, receiving
from support.operator_replicas import LEADER_LEASE, replica
from support.polling import eventually

from hookwright_dev.cluster.installation import OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.cluster.postgres import PostgresServer, postgres_server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """Yield a server for this module."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="module")
def operator(
    control_plane: Cluster, postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """Yield an operator whose store is on the server."""
    leases = {"LEASE": "4", "MAX_TIMEOUT": "3", "LEADER_LEASE": str(LEADER_LEASE)}
    url = postgres.new_database("hookwright")
    operator = replica(control_plane, tmp_path_factory.mktemp("operator"), url, "reconcile,deliver,intake", **leases)
    operator.start()
    yield operator
    assert operator.stop() == 0, operator.log.read_text()


def test_a_restart_of_the_database_costs_seconds_not_events(org: Organization, postgres: PostgresServer) -> None:
    """Accepted events are delivered, events during the outage get a 503, and then all requests succeed."""
    pid = org.operator.running.pid
    with receiving(lambda _: 503) as receiver:
        org.with_endpoint(endpoint("orders", f"http://127.0.0.1:{receiver.port}", maxInFlight=8))
        org.send(*[delivered(number) for number in range(100)])
        eventually(lambda: receiver.received, "attempts are being made")
        postgres.kill()
        assert org.post('{"type": "delivered", "messageId": "refused"}').status_code == 503
        receiver.answer = lambda _: 200
        postgres.start()

        eventually(
            lambda: org.post('{"type": "delivered", "messageId": "later"}').status_code == 202, "events are taken"
        )
        expected = {*map(str, range(100)), "later"}
        eventually(lambda: expected <= set(message_ids(receiver.received)), "everything has arrived", within=60)

    assert "refused" not in message_ids(receiver.received)
    assert org.operator.running.pid == pid


def test_an_operator_goes_on_where_a_killed_one_was(org: Organization) -> None:
    """The next operator sends unclaimed deliveries at once; claimed ones wait until the claim lease expires."""
    with receiving(lambda _: 500) as receiver:
        org.with_endpoint(endpoint("orders", f"http://127.0.0.1:{receiver.port}"))
        org.send(*[delivered(number) for number in range(20)])
        eventually(lambda: receiver.received, "attempts are being made")
        org.operator.kill()
        receiver.answer = lambda _: 200
        org.operator.start()

        expected = set(map(str, range(20)))
        eventually(lambda: expected <= set(message_ids(receiver.received)), "everything has arrived", within=120)
