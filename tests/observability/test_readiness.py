"""Readiness (/readyz) and intake while the store is unavailable."""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest
from support.cluster_actions import Organization, delivered, manifest
from support.polling import eventually

from hookwright_dev.cluster.installation import OperatorProcess, install
from hookwright_dev.cluster.kubectl import Cluster


@pytest.fixture
def org(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Organization]:
    """Yield an organization with its own operator."""
    install(control_plane)
    namespace = f"readiness-{os.getpid()}"
    control_plane.kubectl("create", "namespace", namespace)
    folder = tmp_path_factory.mktemp("operator")
    url = f"sqlite:///{folder / 'hookwright.db'}?timeout=0.5"
    settings = {"HOOKWRIGHT_WATCH_NAMESPACES": namespace, "HOOKWRIGHT_DATABASE_URL": url}
    operator = OperatorProcess(control_plane, folder, settings)
    operator.start()
    try:
        with Organization(control_plane, operator, namespace) as organization:
            yield organization
    finally:
        operator.stop()
        control_plane.kubectl("delete", "namespace", namespace, "--wait=false")


def test_readiness_tells_of_a_store_that_stays_away_and_the_intake_answers_all_the_while(org: Organization) -> None:
    """The operator is not ready after ten seconds, names no address, and is ready when the store is back."""

    def readiness() -> httpx.Response:
        return org.client.get(f"{org.operator.health_url}/readyz")

    org.apply(manifest("Project", "billing"))
    eventually(
        lambda: org.post('{"type": "delivered", "messageId": "1"}').status_code == 202, "the project accepts events"
    )
    with closing(sqlite3.connect(org.operator.folder / "hookwright.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        refused = org.post('{"type": "delivered", "messageId": "2"}')
        assert (refused.status_code, refused.json()["detail"]) == (503, "the store cannot read or write now")
        assert readiness().status_code == 200, "a short outage removes no pod from its Service"
        eventually(lambda: readiness().status_code == 503, "not ready")
        assert re.fullmatch(r"the store has not answered for \d+ s", readiness().text.strip())
        refused = org.post('{"type": "delivered", "messageId": "3"}')
        assert (refused.status_code, refused.json()["detail"]) == (503, "the store cannot read or write now")
        assert org.client.get(f"{org.operator.health_url}/healthz").status_code == 200
        other.execute("ROLLBACK")
    assert org.send(delivered(4))["accepted"] == 1
    eventually(lambda: readiness().status_code == 200, "ready again")
