"""Fixtures of all tests: one cluster for the session, a namespace for each test, and evidence when a test fails.

The cluster is a control plane started here, or the one that ``HOOKWRIGHT_TEST_KUBECONFIG`` names.
"""

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import settings
from support import needed_programs
from support.needed_programs import uncaptured

from hookwright_dev.cluster.assets import Assets, acquire
from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess, install
from hookwright_dev.cluster.kubectl import Cluster, Kubectl
from hookwright_dev.cluster.stack import CRDS
from hookwright_dev.processes import tail

pytest_plugins = [
    "support.api_receiver",
    "support.connect_proxy",
    "support.file_order",
    "support.shared_tls_context",
    "support.stack",
    "support.store_databases",
    "support.tls_receiver",
]
needed_programs.need("assets", acquire)

END_TO_END = Path(__file__).resolve().parent / "e2e"
KUBECONFIG_VARIABLE = "HOOKWRIGHT_TEST_KUBECONFIG"

# A busy machine is no error: benchmarks measure speed.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the programs that tests need."""
    config.pluginmanager.register(needed_programs)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the end-to-end suite unless it is named, because it needs a cluster with nodes and an image (`make e2e`)."""
    paths = [(config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args]
    return (collection_path == END_TO_END and not any(path.is_relative_to(END_TO_END) for path in paths)) or None


@pytest.fixture(scope="session")
def assets() -> Assets:
    """Return the control plane's binaries."""
    return acquire()


@pytest.fixture(scope="session")
def shared_cluster(
    assets: Assets, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Yield the cluster of this test process, with the kinds of ``crds/`` and the objects of an installation."""
    if kubeconfig := os.environ.get(KUBECONFIG_VARIABLE):
        cluster = Cluster.existing(Path(kubeconfig), tmp_path_factory.mktemp("cluster"))
        cluster.apply_crds(CRDS)
        install(cluster)
        yield cluster
        cluster.close()
        return
    with uncaptured(pytestconfig):
        plane = ControlPlane.start(assets=assets, crds=CRDS)
    with plane:
        install(plane)
        yield plane


@pytest.fixture
def kubectl(shared_cluster: Cluster) -> Kubectl:
    """Run kubectl on the cluster, as its administrator."""
    return shared_cluster.kubectl


@pytest.fixture
def namespace(shared_cluster: Cluster) -> Iterator[str]:
    """Yield the name of a namespace for this test only."""
    name = f"test-{uuid4().hex[:8]}"
    shared_cluster.objects.create("Namespace", name)
    yield name
    shared_cluster.objects.delete("Namespace", name, wait=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the logs of the cluster and of our processes, and the namespace's objects, to the report of a failed test."""
    report = yield
    arguments: dict[str, object] = getattr(item, "funcargs", {})
    if report.failed:
        fixtures = {id(fixture): fixture for fixture in arguments.values()}.values()
        processes = [fixture for fixture in fixtures if isinstance(fixture, OperatorProcess | ApiProcess)]
        report.sections += [(f"end of {process.log}", tail(process.log, 60)) for process in processes]
        namespace = arguments.get("namespace") or getattr(arguments.get("org"), "namespace", None)
        for cluster in [fixture for fixture in fixtures if isinstance(fixture, Cluster)]:
            report.sections += [(f"end of {name}.log", tail(log)) for name, log in cluster.logs.items()]
            if isinstance(namespace, str):
                report.sections.append((f"objects in namespace {namespace}", _objects(cluster, namespace)))
    return report


def _objects(cluster: Cluster, namespace: str) -> str:
    listings = [
        cluster.kubectl("get", kinds, "-n", namespace, "-o", "wide", check=False)
        for kinds in ("hookwright", "secrets,events")
    ]
    return "\n".join(result.stdout + result.stderr for result in listings)
