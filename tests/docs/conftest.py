"""Fixtures of the tests of the documentation: the programs they need, and one installation for each module."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kubelet_server import FLAGS
from support.local_kubelet import LocalKubelet
from support.needed_programs import need
from support.pages import Stage, section
from support.sample_receivers import acquire_languages

from hookwright_dev import packages
from hookwright_dev.cluster.assets import Assets
from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess
from hookwright_dev.node_packages import acquire_node_packages
from hookwright_dev.tools import GATEWAY_CRDS, HELM, PROMETHEUS_CRDS, acquire_files, acquire_tool

QUICK = {
    "HOOKWRIGHT_RETRY_SCHEDULE": "100ms",
    "HOOKWRIGHT_STATUS_INTERVAL": "1",
    "HOOKWRIGHT_LOG_FORMAT": "json",
}
# A cluster has this slice; the control plane of the tests makes none, because its address is a loopback address.
API_SERVER = {
    "apiVersion": "discovery.k8s.io/v1",
    "kind": "EndpointSlice",
    "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["192.0.2.1"]}],
    "ports": [{"name": "https", "port": 6443}],
}


def _acquire_programs_of_pages() -> None:
    acquire_tool(HELM)
    for module in (GATEWAY_CRDS, PROMETHEUS_CRDS):
        acquire_files(module)
    for program in ("curl", "jq"):
        if shutil.which(program) is None:
            packages.install(program)


need("node_packages", acquire_node_packages, slow=True)
need("kubelet", _acquire_programs_of_pages, slow=True)
need("languages", acquire_languages, slow=True)


@pytest.fixture(scope="session")
def node_packages() -> Path:
    """Return the folder with the packages of npm."""
    return acquire_node_packages()


@pytest.fixture(scope="session")
def languages() -> None:
    """Need the interpreters and compilers of the receivers' code."""


@pytest.fixture(scope="module")
def kubelet(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, LocalKubelet, str]]:
    """Install the chart by the page's own commands; yield the stage, its kubelet, and what helm printed."""
    folder = tmp_path_factory.mktemp("pages")
    with ControlPlane.start(assets=assets, workloads=True, apiserver_flags=FLAGS) as plane:
        for path in (path for module in (PROMETHEUS_CRDS, GATEWAY_CRDS) for path in acquire_files(module)):
            plane.kubectl("apply", "--server-side", "-f", str(path))
        plane.kubectl("create", "-n", "default", "-f", "-", stdin=json.dumps(API_SERVER))
        plane.kubectl("create", "namespace", "monitoring")  # there, kube-state-metrics runs already
        operator = OperatorProcess(plane, folder / "operator", QUICK)
        api = ApiProcess(plane, folder / "api", operator.intake_url, {"HOOKWRIGHT_LOG_FORMAT": "json"})
        stage = Stage(plane, operator, api, folder / "stage")
        stage.prepare()
        with LocalKubelet(plane, folder, {"operator": operator, "api": api}) as running:
            output = stage.follow(*section("install.md", "With Helm").blocks, timeout=400)
            yield stage, running, output
            assert running.failure is None, running.failure


@pytest.fixture(scope="module")
def stage(kubelet: tuple[Stage, LocalKubelet, str]) -> Stage:
    """Return the stage."""
    return kubelet[0]
