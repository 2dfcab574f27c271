"""The end-to-end suite: a cluster that runs pods, an image, and the chart; and evidence when a test fails.

``HOOKWRIGHT_TEST_KUBECONFIG`` names the cluster. ``HOOKWRIGHT_TEST_IMAGE`` names the image; its nodes must have the
image or be able to pull it. ``HOOKWRIGHT_TEST_DATABASE_URL`` names a PostgreSQL database that its pods reach. The
cluster must have no Hookwright yet: the suite installs and removes it several times.
"""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from e2e.evidence import evidence
from e2e.installing import CRDS, NAMESPACE, Installation
from support.needed_programs import need
from support.pod_actions import Organization

from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.e2e import DATABASE_VARIABLE, IMAGE_VARIABLE, KUBECONFIG_VARIABLE
from hookwright_dev.tools import HELM, acquire_tool

NEEDED = {
    KUBECONFIG_VARIABLE: "a kubeconfig of a cluster that runs pods and has no Hookwright yet",
    IMAGE_VARIABLE: "the image, as in registry.example.com/hookwright:0.1.0; the nodes have it, or can pull it",
    DATABASE_VARIABLE: "a PostgreSQL database that pods can reach, as in postgresql://user:password@host:5432/name",
}
TEST_SECONDS = 300
"""Seconds for a test with its installation and removal."""
need("hookwright", lambda: acquire_tool(HELM))
_CLUSTER = pytest.StashKey[Cluster]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give these tests more time than others have."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fail without a cluster."""
    if session.config.option.collectonly:
        return
    missing = [f"{name}: {meaning}" for name, meaning in NEEDED.items() if not os.environ.get(name)]
    if missing:
        hint = "`make e2e-kind` (Docker) and `make e2e-node` provide a cluster with all of it"
        pytest.exit("\n".join(["the end-to-end suite needs these variables:", *missing, hint]), returncode=2)


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """Return the cluster; it must have no Hookwright."""
    matches = Cluster.existing(Path(os.environ[KUBECONFIG_VARIABLE]), tmp_path_factory.mktemp("cluster"))
    there = matches.kubectl("get", "crd,namespace", "-o", "name").stdout.split()
    names = [name for name in there if name.partition("/")[2] in {NAMESPACE, *CRDS}]
    if names:
        pytest.exit(
            f"the cluster has a Hookwright already, which the suite would remove: {', '.join(names)}", returncode=2
        )
    pytestconfig.stash[_CLUSTER] = matches
    return matches


@pytest.fixture(scope="session")
def hookwright(cluster: Cluster) -> Iterator[Installation]:
    """Yield the installation of Hookwright in the cluster, present or not, and remove it at the end."""
    installation = Installation(cluster, acquire_tool(HELM), os.environ[IMAGE_VARIABLE])
    yield installation
    installation.remove()


@pytest.fixture(scope="module")
def bare(hookwright: Installation) -> Installation:
    """Return a cluster without an installation; the module installs its own."""
    hookwright.remove()
    return hookwright


@pytest.fixture(scope="module")
def installation(hookwright: Installation) -> Installation:
    """Return the installed chart, with receivers allowed in the cluster; consecutive modules share it."""
    if not hookwright.plain:
        hookwright.remove()
        hookwright.install()
        hookwright.plain = True
    return hookwright


@pytest.fixture(scope="module")
def org(installation: Installation) -> Organization:
    """Return an organization of the module, because the start of its pods takes seconds."""
    return Organization(installation).create()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the cluster's state of the suite's namespaces to the report of a failed test."""
    report = yield
    if report.failed and (cluster := item.config.stash.get(_CLUSTER, None)):
        report.sections += evidence(cluster)
    return report
