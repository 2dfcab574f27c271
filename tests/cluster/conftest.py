"""Fixtures of the cluster tests: one operator process per module, one organization per test, and the logs."""

from collections.abc import Generator, Iterator

import pytest
from support.cluster_actions import Organization

from hookwright_dev.cluster.installation import OperatorProcess, install
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
def operator(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """Yield an operator on the session's cluster, with short retries; it must exit with 0 and log no traceback."""
    install(control_plane)
    folder = tmp_path_factory.mktemp("operator")
    # The timeout is longer than a lock that a test holds on purpose.
    url = f"sqlite:///{folder / 'hookwright.db'}?timeout=0.5"
    operator = OperatorProcess(control_plane, folder, {**ACCELERATED, "HOOKWRIGHT_DATABASE_URL": url})
    operator.start()
    try:
        yield operator
    finally:
        code = operator.stop()
    log = operator.log.read_text()
    assert code == 0, log
    assert "Traceback" not in log, log


@pytest.fixture
def org(control_plane: Cluster, operator: OperatorProcess, namespace: str) -> Iterator[Organization]:
    """Yield an organization of the test, served by the module's operator."""
    with Organization(control_plane, operator, namespace) as organization:
        yield organization


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the operator's log to the report of a failed test, and the objects if no other hook adds them."""
    report = yield
    arguments: dict[str, object] = getattr(item, "funcargs", {})
    if report.failed:
        operators = [known for known in arguments.values() if isinstance(known, OperatorProcess)]
        report.sections += [("end of operator.log", tail(known.log, 60)) for known in operators]
        org = arguments.get("org")
        if isinstance(org, Organization) and "control_plane" not in arguments:
            objects = org.kubectl("get", "hookwright,secrets,events", "-o", "wide", check=False).splitlines()
            report.sections.append((f"objects in namespace {org.namespace}", "\n".join(objects[-60:])))
    return report
