"""Fixtures of the cluster tests: one operator process per module, one organization per test, and the logs."""

from collections.abc import Generator, Iterator

import pytest
from support.cluster_actions import Organization
from support.stack import OPERATOR, Stack

from hookwright_dev.cluster.installation import OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.processes import tail

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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the operator's log to the report of a failed test, and the objects if no other hook adds them."""
    report = yield
    arguments: dict[str, object] = getattr(item, "funcargs", {})
    if report.failed:
        operators = [argument for argument in arguments.values() if isinstance(argument, OperatorProcess)]
        report.sections += [("end of operator.log", tail(argument.log, 60)) for argument in operators]
        org = arguments.get("org")
        if isinstance(org, Organization) and "shared_cluster" not in arguments:
            objects = org.kubectl("get", "hookwright,secrets,events", "-o", "wide", check=False).splitlines()
            report.sections.append((f"objects in namespace {org.namespace}", "\n".join(objects[-60:])))
    return report
