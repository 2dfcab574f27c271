"""Fixtures of the cluster tests: one operator process per module, and one organization per test."""

from collections.abc import Iterator

import pytest
from support.cluster_actions import Organization
from support.stack import OPERATOR, Stack

from hookwright_dev.cluster.installation import OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster

SCHEDULE = "300ms,600ms,900ms,400ms,800ms"
FINALIZER_GRACE = 3.0
ACCELERATED = {
    "HOOKWRIGHT_RETRY_SCHEDULE": SCHEDULE,
    "HOOKWRIGHT_FINALIZER_GRACE": str(FINALIZER_GRACE),
    "HOOKWRIGHT_STATUS_INTERVAL": "1",
}


@pytest.fixture(scope="module")
def operator(stack: Stack) -> OperatorProcess:
    """Return an operator with short retries, on the cluster of the stack."""
    # The timeout is longer than a lock that a test holds on purpose.
    url = f"sqlite:///{stack.folder / 'accelerated.db'}?timeout=0.5"
    return stack.operator(OPERATOR | ACCELERATED | {"HOOKWRIGHT_DATABASE_URL": url})


@pytest.fixture
def org(shared_cluster: Cluster, operator: OperatorProcess, namespace: str) -> Iterator[Organization]:
    """Yield an organization of the test, served by the module's operator."""
    with Organization(shared_cluster, operator, namespace) as organization:
        yield organization
