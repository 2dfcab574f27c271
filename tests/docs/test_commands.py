"""Every command of the operators' pages runs as it is printed, on a real control plane with operator and API."""

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.api_receiver import receiving
from support.local_kubelet import LocalKubelet
from support.pages import Section, Stage, notes_commands, sections
from support.polling import eventually

from hookwright_dev.cluster.assets import Assets
from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess
from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.tools import GATEWAY_CRDS, PROMETHEUS_CRDS, acquire_files

PAGES = ("install.md", "backup.md", "troubleshooting.md", "runbook.md")
PASSWORD = "correct horse battery staple\n"
EVENT = '{"id": "seen", "type": "bounced", "messageId": "m-1"}'
ELSEWHERE = {
    ("install.md", "The image"): "needs Docker, a registry",
    ("install.md", "With Helm"): "the stage runs it",
    ("install.md", "The first organization"): "the stage runs it",
    ("install.md", "Several pods"): "needs PostgreSQL; tests/e2e runs this layout",
    ("install.md", "Without Helm"): "has its own test below",
    ("install.md", "A second installation in one cluster"): "the commands leave out the values",
    ("install.md", "Uninstall"): "has its own tests below",
    ("backup.md", "Restore into another cluster or namespace"): "has its own test below",
}
"""Sections whose blocks are not run one after another with the others, and the reason."""
pytestmark = pytest.mark.timeout(300)


SETTLED = """until kubectl get pods -n hookwright-system -o json \\
  | jq -e '.items | length > 1 and all(.status.phase == "Running" and .metadata.deletionTimestamp == null)' >/dev/null
do sleep 0.2; done"""
"""Wait until every pod runs and none is being deleted, because a command before may have restarted one."""
# A cluster has this slice; the control plane of the tests makes none, because its address is a loopback address.
API_SERVER = {
    "apiVersion": "discovery.k8s.io/v1",
    "kind": "EndpointSlice",
    "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["192.0.2.1"]}],
    "ports": [{"name": "https", "port": 6443}],
}


def section(page: str, title: str) -> Section:
    """Return one section of a page."""
    (found,) = [one for one in sections(page) if one.title == title]
    return found


@pytest.fixture(scope="module")
def kubelet(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, LocalKubelet, str]]:
    """Install the chart by the page's own commands; yield the stage, its kubelet, and what helm printed."""
    folder = tmp_path_factory.mktemp("pages")
    quick = {
        "HOOKWRIGHT_RETRY_SCHEDULE": "100ms",
        "HOOKWRIGHT_STATUS_INTERVAL": "1",
        "HOOKWRIGHT_LOG_FORMAT": "json",
    }
    with ControlPlane.start(assets=assets, workloads=True) as plane:
        for path in (path for module in (PROMETHEUS_CRDS, GATEWAY_CRDS) for path in acquire_files(module)):
            plane.kubectl("apply", "--server-side", "-f", str(path))
        plane.kubectl("create", "-n", "default", "-f", "-", stdin=json.dumps(API_SERVER))
        plane.kubectl("create", "namespace", "monitoring")  # there, kube-state-metrics runs already
        operator = OperatorProcess(plane, folder / "operator", quick)
        api = ApiProcess(plane, folder / "api", operator.intake_url, {"HOOKWRIGHT_LOG_FORMAT": "json"})
        stage = Stage(plane, operator, api, folder / "stage")
        stage.prepare()
        with LocalKubelet(plane, folder, {"operator": operator, "api": api}) as running:
            printed = stage.follow(*section("install.md", "With Helm").blocks)
            yield stage, running, printed
            assert running.failure is None, running.failure


def settled(stage: Stage) -> None:
    """Wait until every pod runs and none is being deleted, because a command before may have restarted one."""
    stage.follow(SETTLED)


@pytest.fixture(scope="module")
def stage(kubelet: tuple[Stage, LocalKubelet, str]) -> Stage:
    """Return the stage."""
    return kubelet[0]


@pytest.fixture(scope="module")
def organization(stage: Stage) -> Stage:
    """Return the stage with the page's first organization, and one delivery that failed."""
    stage.follow(*section("install.md", "The first organization").blocks)
    stage.follow("kubectl wait -n acme --for=condition=Ready hwep/orders --timeout=60s")
    stage.follow(
        *section("troubleshooting.md", "").blocks,
        *section("troubleshooting.md", "Access to the intake").blocks,
        f"curl -sf $INTAKE/projects/billing/events -H \"$AUTH\" -H 'Content-Type: application/json' -d '{EVENT}'",
    )
    failed = ("get", "hwep", "orders", "-n", "acme", "-o", "jsonpath={.status.deliveries.failed}")
    eventually(lambda: stage.plane.kubectl(*failed).stdout == "1", "the delivery failed")
    return stage


def test_every_block_is_valid_shell() -> None:
    """Bash parses each block alone, also those that are not run here."""
    blocks = [block for page in PAGES for one in sections(page) for block in (*one.blocks, *one.inline)]
    assert len(blocks) > 50
    for block in blocks:
        parsed = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
        assert parsed.returncode == 0, f"{block}\n{parsed.stderr}"


def test_the_notes_of_helm_run_as_printed(kubelet: tuple[Stage, LocalKubelet, str]) -> None:
    """A reader copies the commands of the notes one after another, and each of them succeeds."""
    stage, _, printed = kubelet
    commands = notes_commands(printed.partition("NOTES:")[2])
    assert len(commands) == 4
    told = stage.follow(*commands, stdin=PASSWORD)
    assert "you@example.com may log in to organization acme as admin" in told
    stage.follow("kubectl wait -n acme --for=condition=Ready hwep/orders --timeout=60s")
    stage.follow("kubectl delete namespace acme")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run_as_printed(organization: Stage, page: str) -> None:
    """Each block and each command in a sentence succeeds, in the order of the page and in one shell."""
    (organization.folder / "password.txt").write_text(PASSWORD)
    script = []
    for one in sections(page):
        if (page, one.title) in ELSEWHERE:
            continue
        # The stage has run the first block, which makes the account.
        blocks = one.blocks[1:] if one.title == "Access to the intake" else one.blocks
        script += [f"echo '## {one.title}' >&2", SETTLED, *blocks, *one.inline]
    organization.follow(*script, stdin=PASSWORD, timeout=550)


def test_a_failed_delivery_is_sent_again_as_printed(organization: Stage) -> None:
    """The retry is accepted by the intake, and the delivery gets one more attempt."""
    again = section("troubleshooting.md", "REACHABLE is False, or deliveries fail")
    (retry,) = [block for block in again.blocks if "/retry" in block]
    access = (
        *section("troubleshooting.md", "").blocks,
        *section("troubleshooting.md", "Access to the intake").blocks[1:],
    )
    assert '"status":"pending"' in organization.follow(*access, retry)


def test_the_answers_of_the_intake_are_those_of_the_page(organization: Stage) -> None:
    """Plain JSON, an array and the three modes of CloudEvents get the answers that the page shows."""
    settled(organization)
    binding = "rolebinding producer --clusterrole=hookwright-producer --serviceaccount=acme:default"
    organization.follow(f"kubectl -n acme get rolebinding producer || kubectl -n acme create {binding}")
    organization.check_answers("intake.md")


def test_the_answers_of_the_api_are_those_of_the_page(organization: Stage) -> None:
    """Each command of the API guide prints an answer of the form that the page shows."""
    settled(organization)
    organization.follow("kubectl delete namespace acme")
    (organization.folder / ".dev").mkdir()
    (organization.folder / ".dev" / "env").write_text(
        f"export HOOKWRIGHT_API_URL={organization.api.url}\n"
        f"export HOOKWRIGHT_USER_COMMAND={Path(sys.executable).with_name('hookwright-user')}\n"
    )
    with receiving() as receiver:
        organization.check_answers("api.md", replacing=("https://example.com/hooks", f"{receiver.url}/hooks"))
    organization.follow("kubectl delete namespace acme")
    organization.follow(*section("install.md", "The first organization").blocks)


def test_the_examples_are_ready_on_a_cluster(organization: Stage) -> None:
    """Every object of examples/ is Ready in an installation with the default values, after one command."""
    kubectl = organization.plane.kubectl
    assert not any(url.startswith("http:") for url in re.findall(r"url: (\S+)", _text_of_examples()))
    kubectl("delete", "namespace", "acme", timeout=90)
    organization.follow("kubectl apply -f examples/")
    organization.follow("kubectl wait -n acme --for=condition=Ready hookwright --all --timeout=60s")
    kubectl("delete", "namespace", "acme", timeout=90)
    organization.follow(*section("install.md", "The first organization").blocks)


def _text_of_examples() -> str:
    return "".join(path.read_text() for path in (ROOT / "examples").glob("*.yaml"))


def test_a_database_is_transferred_as_printed(organization: Stage) -> None:
    """An operator refuses the database of another installation; the page's commands read its name and transfer it."""
    page = section("backup.md", "Restore into another cluster or namespace")
    stopping, _, starting = section("backup.md", "SQLite: restore").blocks
    names, adopt = page.blocks[:2]
    operator = organization.operator
    settled(organization)
    operator.stop()
    with closing(sqlite3.connect(operator.folder / "hookwright.db", isolation_level=None)) as connection:
        connection.execute("UPDATE database_owner SET cluster_uid = 'another-cluster'")
    operator.start(wait=False)
    assert operator.running.wait(60) == 1

    told = organization.follow(*sections("backup.md")[0].blocks, names, stopping, adopt, starting)

    assert "the database belongs to" in told
    settled(organization)
    assert operator.running.running


def test_a_failed_uninstallation_is_finished_as_printed(
    organization: Stage, kubelet: tuple[Stage, LocalKubelet, str]
) -> None:
    """The last Job cannot start and helm forgets the release; the page's commands release every endpoint."""
    kubectl = organization.plane.kubectl
    finalizers = ("get", "hookwright", "-A", "-o", "jsonpath={.items[*].metadata.finalizers}")
    theirs = '{"metadata": {"finalizers": ["hookwright.dev/deliveries", "example.com/theirs"]}}'
    kubectl("patch", "hwep", "orders", "-n", "acme", "--type=merge", "-p", theirs)
    kubelet[1].images_can_be_pulled = False
    failed = organization.run("helm uninstall hookwright --namespace hookwright-system --timeout 5s")
    assert failed.returncode != 0
    assert "hookwright.dev" in kubectl(*finalizers).stdout

    _, finish, remove = section("install.md", "Uninstall").blocks
    organization.follow(finish)

    assert kubectl(*finalizers).stdout == '["example.com/theirs"]'
    assert kubectl("get", "jobs", "-n", "hookwright-system", "-o", "name").stdout == ""
    kubectl("patch", "hwep", "orders", "-n", "acme", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    organization.follow(remove)


def test_installation_without_helm_and_its_removal_run_as_printed(
    stage: Stage, kubelet: tuple[Stage, LocalKubelet, str]
) -> None:
    """After everything is removed, the plain manifests install the same; a normal uninstallation leaves nothing."""
    kubelet[1].images_can_be_pulled = True
    stage.follow(*section("install.md", "Without Helm").blocks)
    stage.follow("kubectl wait -n hookwright-system --for=condition=Available deploy --all --timeout=60s")
    (remove,) = section("install.md", "Uninstall").inline[-1:]
    stage.follow(remove)
    stage.follow(*section("install.md", "With Helm").blocks)
    uninstall, _, remove = section("install.md", "Uninstall").blocks
    stage.follow(uninstall, remove)
    left = stage.plane.kubectl("get", "namespaces,crd", "-o", "name").stdout
    assert "hookwright" not in left
