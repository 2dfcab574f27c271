"""Fixtures of the tests of the documentation: the programs they need, and one installation for each module."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support.api_processes import Organization
from support.api_receiver import Received
from support.kubelet_server import FLAGS
from support.local_kubelet import LocalKubelet
from support.needed_programs import need
from support.pages import Stage, section, sections
from support.polling import eventually
from support.sample_receivers import acquire_languages

from hookwright_dev import packages
from hookwright_dev.cluster.assets import Assets
from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.installation import (
    AUDIENCE,
    SYSTEM_NAMESPACE,
    ApiProcess,
    OperatorProcess,
    service_account_token,
)
from hookwright_dev.node_packages import acquire_node_packages
from hookwright_dev.tools import GATEWAY_CRDS, HELM, PROMETHEUS_CRDS, acquire_files, acquire_tool

QUICK = {
    "HOOKWRIGHT_RETRY_SCHEDULE": "100ms",
    "HOOKWRIGHT_STATUS_INTERVAL": "1",
    "HOOKWRIGHT_LOG_FORMAT": "json",
    # A database is transferred when the leases of all ended replicas have expired.
    "HOOKWRIGHT_MAX_TIMEOUT": "8",
    "HOOKWRIGHT_LEASE": "12",
}
BACKUP = "backup.md"
ARCHIVE = "archive"
"""The namespace of the organization whose deliveries are backed up."""
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


class Store:
    """The store of the stage, backed up and restored by the page's own commands, and an organization that uses it."""

    def __init__(self, stage: Stage, organization: Organization, token: str) -> None:
        self.stage, self._organization = stage, organization
        self._headers = {"Authorization": f"Bearer {token}"}

    def run(self, title: str) -> str:
        """Run the page's first block and the block of a section; return the output."""
        (block,) = section(BACKUP, title).blocks
        return self.stage.follow(*sections(BACKUP)[0].blocks, block, timeout=400)

    def back_up(self) -> str:
        """Run the page's command for a backup, and return its output."""
        (self.stage.folder / "hookwright-backup.db").unlink(missing_ok=True)
        return self.run("SQLite: back up while the operator runs")

    def restore(self) -> None:
        """Run the page's command for a restore, and wait for the operator."""
        self.run("SQLite: restore")
        self.stage.settle()

    def send(self, event_id: str) -> dict[str, int]:
        """Send an event and return the counts of the 202."""
        url = f"{self.stage.operator.intake_url}/v1alpha1/namespaces/{ARCHIVE}/projects/billing/events"
        event = {"id": event_id, "type": "delivered", "messageId": event_id}
        answer = httpx.post(url, json=event, headers=self._headers, timeout=30.0, trust_env=False)
        assert answer.status_code == 202, answer.text
        return {name: count for name, count in answer.json().items() if name != "event_ids"}

    def suspend(self, *, suspended: bool) -> None:
        """Suspend or resume the endpoint, and wait until the operator has seen it."""
        kubectl, arguments = self.stage.plane.kubectl, ("hwep", "orders", "-n", ARCHIVE)
        kubectl("patch", *arguments, "--type=merge", "-p", f'{{"spec": {{"suspend": {str(suspended).lower()}}}}}')
        reason = "{.status.conditions[?(@.type=='Ready')].reason}"
        expected = "Suspended" if suspended else "Delivering"
        eventually(lambda: kubectl("get", *arguments, "-o", f"jsonpath={reason}").stdout == expected, expected)


@pytest.fixture
def store(stage: Stage, receiver: Received) -> Iterator[Store]:
    """Yield the store with an organization whose endpoint is suspended."""
    stage.settle()
    plane = stage.plane
    stage.follow("kubectl hookwright support-account --yes")
    token = service_account_token(plane, "hookwright-support", namespace=SYSTEM_NAMESPACE, audience=AUDIENCE)
    plane.objects.create("Namespace", ARCHIVE)
    with httpx.Client() as client:
        organization = Organization(plane, client, ARCHIVE)
        project = {"kind": "Project", "metadata": {"name": "billing"}, "spec": {"displayName": "Billing"}}
        spec = {"projectRef": {"name": "billing"}, "url": f"{receiver.url}/orders", "events": ["delivered"]}
        organization.apply(project, {"kind": "WebhookEndpoint", "metadata": {"name": "orders"}, "spec": spec})
        new_store = Store(stage, organization, token)
        new_store.suspend(suspended=True)
        yield new_store
    stage.settle()
    plane.kubectl("delete", "hookwright", "--all", "-n", ARCHIVE)
    plane.kubectl("delete", "namespace", ARCHIVE, timeout=120)
    (stage.folder / "hookwright-backup.db").unlink(missing_ok=True)
