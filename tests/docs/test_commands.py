"""Every command of the operators' pages runs as printed, on a real control plane with operator and API."""

import hmac
import os
import re
import sqlite3
import subprocess
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing

import pytest
from docs.conftest import BACKUP, Store
from support.api_receiver import Received, receiving
from support.local_kubelet import LocalKubelet
from support.pages import SETTLED, Stage, notes_commands, section, sections
from support.polling import eventually

from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE
from hookwright_dev.cluster.postgres import PostgresServer
from hookwright_dev.cluster.stack import ROOT

PAGES = (
    "install.md",
    "first-delivery.md",
    "event-types.md",
    "users.md",
    "egress.md",
    "choices.md",
    "troubleshooting.md",
    "runbook.md",
)
PASSWORD = "correct horse battery staple\n"
DELETE_ACME = "kubectl delete hwep,hwkey,hwproj --all -n acme; kubectl delete namespace acme"
"""Kubernetes looks again after 8 s at a namespace whose objects have finalizers. EventTypes have none."""
EVENT = '{"id": "seen", "type": "bounced", "messageId": "m-1"}'
NOT_RUN = {
    ("install.md", "The image"): "needs a container engine and a registry; tests/chart reads the Dockerfile",
    (
        "install.md",
        "The command line",
    ): "needs pipx; tests/chart runs the command line without the packages of this environment",
    ("choices.md", "Production"): "needs an Ingress and a Prometheus; tests/chart renders the file of values",
}
"""Sections whose blocks no test runs, and the reason."""
ELSEWHERE = {
    ("install.md", "With Helm"): "the fixture of the stage",
    ("install.md", "Without a Helm release"): "a test below",
    ("install.md", "Uninstall"): "tests below",
    ("first-delivery.md", "On your machine"): "test_first_delivery.py",
    ("first-delivery.md", "The first organization"): "the fixture of the organization",
    ("choices.md", "Several pods"): "a test below",
    ("choices.md", "A second installation in one cluster"): "a test below",
}
"""Sections whose blocks are not run one after another with the others, and what runs them. Some tests run backup.md."""
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def organization(stage: Stage) -> Stage:
    """Return the stage with the page's first organization, and one delivery that failed."""
    stage.follow(*section("first-delivery.md", "The first organization").blocks)
    stage.follow("kubectl wait -n acme --for=condition=Ready hwep/orders --timeout=60s")
    stage.follow(
        *section("troubleshooting.md", "").blocks,
        *section("troubleshooting.md", "Access to the intake").blocks,
        "kubectl hookwright send bounced id=seen messageId=m-1 -n $NAMESPACE",
    )
    arguments = ("get", "hwep", "orders", "-n", "acme", "-o", "jsonpath={.status.deliveries.failed}")
    eventually(lambda: stage.plane.kubectl(*arguments).stdout == "1", "the delivery failed")
    return stage


def test_every_block_is_valid_shell() -> None:
    """Bash parses each block alone, also those that are not run here."""
    blocks = [block for page in PAGES for part in sections(page) for block in (*part.blocks, *part.inline)]
    assert len(blocks) > 50
    assert not [block for block in blocks if "curl" in block]
    for block in blocks:
        result = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"{block}\n{result.stderr}"


def test_the_notes_of_helm_run_as_printed(kubelet: tuple[Stage, LocalKubelet, str]) -> None:
    """A reader copies the commands of the notes one after another, and each of them succeeds."""
    stage, _, output = kubelet
    commands = notes_commands(output.partition("NOTES:")[2])
    assert len(commands) == 5
    text = stage.follow(*commands, stdin=PASSWORD)
    assert "you@example.com may log in to organization acme as admin" in text
    stage.follow("kubectl wait -n acme --for=condition=Ready hwep/orders --timeout=60s")
    stage.follow(DELETE_ACME)


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run_as_printed(organization: Stage, page: str) -> None:
    """Each block and each command in a sentence succeeds, in the order of the page and in one shell."""
    write_files(organization)
    script = []
    for part in sections(page):
        if (page, part.title) in {**NOT_RUN, **ELSEWHERE}:
            continue
        # A program may read ahead, so each block gets the password of its reader again.
        blocks = [f"exec <password.txt\n{block}" for block in (*part.blocks, *part.inline)]
        script += [f"echo '## {part.title}' >&2", SETTLED, *blocks]
    organization.follow(*script, timeout=550)


def write_files(organization: Stage) -> None:
    """Write the files that a reader has: a password, and a request with its signature."""
    (organization.folder / "password.txt").write_text(PASSWORD)
    read = ("get", "secret", "orders-signing", "-n", "acme", "-o", "jsonpath={.data.secret}")
    secret = b64decode(organization.plane.kubectl(*read).stdout)
    signature = hmac.new(secret, EVENT.encode(), "sha256").hexdigest()
    (organization.folder / "body.json").write_text(EVENT)
    (organization.folder / "headers.txt").write_text(
        f"Content-Type: application/json\nX-Service-Signature: {signature}\n"
    )


def test_a_failed_delivery_is_sent_again_as_printed(organization: Stage) -> None:
    """The retry is accepted by the intake, and the delivery gets one more attempt; a replay sends it too."""
    again = section("troubleshooting.md", "REACHABLE is False, or deliveries fail")
    (retry,) = [block for block in again.blocks if "retry" in block]
    text = organization.follow(*section("troubleshooting.md", "").blocks, retry)
    assert re.search(r"delivery dlv_\w+ is pending", text)
    assert re.search(r"replay \w+ of orders completed: \d+ of \d+ sent", text)


def test_the_answers_of_the_intake_are_those_of_the_page(organization: Stage) -> None:
    """Plain JSON, an array and the three modes of CloudEvents get the answers that the page shows."""
    organization.settle()
    binding = "rolebinding producer --clusterrole=hookwright-producer --serviceaccount=acme:default"
    organization.follow(f"kubectl -n acme get rolebinding producer || kubectl -n acme create {binding}")
    organization.check_answers("intake.md")


def test_the_answers_of_the_api_are_those_of_the_page(organization: Stage) -> None:
    """Each command of the API guide prints an answer of the form that the page shows."""
    organization.settle()
    organization.follow(DELETE_ACME)
    (organization.folder / ".dev").mkdir()
    (organization.folder / ".dev" / "env").write_text(f"export HOOKWRIGHT_API_URL={organization.api.url}\n")
    organization.run("kubectl hookwright users delete ada@example.com --yes")
    organization.follow("kubectl hookwright users create ada@example.com --organization acme", stdin=PASSWORD)
    with receiving() as receiver:
        organization.check_answers("api.md", replacing=("https://example.com/hooks", f"{receiver.url}/hooks"))
    organization.follow(DELETE_ACME)
    organization.follow(*section("first-delivery.md", "The first organization").blocks)


def test_the_examples_are_ready_on_a_cluster(organization: Stage) -> None:
    """Every object of examples/ is Ready in an installation with the default values, after one command."""
    assert not any(url.startswith("http:") for url in re.findall(r"url: (\S+)", _text_of_examples()))
    organization.follow(DELETE_ACME)
    organization.follow("kubectl apply -f examples/")
    organization.follow("kubectl wait -n acme --for=condition=Ready hookwright --all --timeout=60s")
    organization.follow(DELETE_ACME)
    organization.follow(*section("first-delivery.md", "The first organization").blocks)


def _text_of_examples() -> str:
    return "".join(path.read_text() for path in (ROOT / "examples").glob("*.yaml"))


def test_several_pods_share_a_database_and_adopt_it_as_printed(
    organization: Stage, kubelet: tuple[Stage, LocalKubelet, str], postgres: PostgresServer
) -> None:
    """Three replicas run on PostgreSQL. They refuse the database of another installation until it is transferred."""
    database = f"pages-{os.getpid()}"
    (organization.folder / "database.env").write_text(f"url={postgres.new_database(database)}\n")
    organization.follow(*section("choices.md", "Several pods").blocks, timeout=500)
    organization.settle()
    assert len(kubelet[1].replicas) == 3

    scale = "kubectl scale deployment/hookwright-operator -n hookwright-system --replicas"
    wait_command = (
        "kubectl wait -n hookwright-system --for=delete pod -l app.kubernetes.io/component=operator --timeout=120s"
    )
    organization.follow(f"{scale}=0", wait_command)
    postgres.execute("UPDATE database_owner SET cluster_uid = 'another-cluster'", database=database)
    organization.follow(f"{scale}=1")
    log = "kubectl logs -n hookwright-system deployment/hookwright-operator"
    adopt = (
        *sections(BACKUP)[0].blocks,
        *section(BACKUP, "Restore into another cluster or namespace").blocks,
    )

    def transferred() -> bool:
        """Wait until the operator refuses the database, and run the page's commands."""
        eventually(
            lambda: "adopt --from another" in organization.run(log).stdout, "the database is refused", within=240
        )
        return "the database belongs to" in organization.run(*adopt).stdout

    # The replicas that have ended count until their leases expire, so the page says: repeat the command.
    eventually(transferred, "the database is transferred", within=300)
    organization.settle()

    organization.follow(
        # `kubectl scale` above owns the number of replicas.
        "helm upgrade hookwright charts/hookwright --namespace hookwright-system --wait --reset-values "
        "--force-conflicts --set image.repository=registry.example.com/hookwright",
        timeout=500,
    )
    organization.settle()


def test_what_a_backup_holds_is_delivered_after_a_restore_and_what_came_later_is_unknown(
    store: Store, receiver: Received
) -> None:
    """A backup while events come in has everything that was accepted before it.

    Deliveries pending at the backup are sent again with the same id; later events are lost until sent again.
    """
    before, meanwhile = 20, 0
    for number in range(before):
        store.send(f"before-{number}")
    with ThreadPoolExecutor(1) as pool:
        backup = pool.submit(store.back_up)
        while not wait([backup], timeout=0.02).done:
            meanwhile += store.send(f"meanwhile-{meanwhile}")["accepted"]
    report = re.search(r"hookwright-backup\.db: \d+ bytes, integrity ok, .*?\b(\d+) pending", backup.result())
    assert report is not None, backup.result()
    pending = int(report[1])
    assert before <= pending <= before + meanwhile > before

    store.suspend(suspended=False)
    store.send("later")
    eventually(lambda: len(receiver.requests) == before + meanwhile + 1, "all deliveries before the restore")
    first = _ids(receiver)
    store.restore()
    eventually(lambda: len(receiver.requests) == len(first) + pending, "the pending deliveries after the restore")

    repeated = set(_ids(receiver)[len(first) :])
    assert len(repeated) == pending
    assert repeated <= set(first)
    assert store.send("before-1") == {"accepted": 0, "duplicates": 1, "deliveries": 0}
    assert store.send("later") == {"accepted": 1, "duplicates": 0, "deliveries": 1}
    eventually(lambda: len(receiver.requests) == len(first) + pending + 1, "the event that was sent again")
    assert _ids(receiver)[-1] not in first


def test_a_backup_of_another_cluster_is_refused_until_it_is_transferred(store: Store, receiver: Received) -> None:
    """The refused operator logs both installations; the page's command transfers the database without a loss."""
    store.send("kept")
    store.back_up()
    backup = store.stage.folder / "hookwright-backup.db"
    with closing(sqlite3.connect(backup, isolation_level=None)) as connection:
        connection.execute("UPDATE database_owner SET cluster_uid = 'another-cluster'")
    store.run("SQLite: restore")
    log = f"kubectl logs -n {SYSTEM_NAMESPACE} deployment/hookwright-operator --tail=20"
    eventually(
        lambda: "adopt --from another-cluster" in store.stage.run(log).stdout, "the operator refuses", within=240
    )

    text = store.run("Restore into another cluster or namespace")

    cluster = store.stage.plane.kubectl("get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}").stdout
    assert f"the database belongs to {cluster}/{SYSTEM_NAMESPACE}" in text
    store.stage.settle()
    store.suspend(suspended=False)
    eventually(lambda: len(receiver.requests) == 1, "the delivery of the backup")


def _ids(receiver: Received) -> list[str]:
    return [headers["webhook-id"] for _, headers, _ in receiver.requests]


def test_a_second_installation_is_accepted_as_printed(organization: Stage) -> None:
    """The API server accepts both releases beside each other, each with Roles in its own namespaces only."""
    organization.follow(*section("choices.md", "A second installation in one cluster").blocks)
    organization.settle()
    kubectl = organization.plane.kubectl
    for release, namespace in (("hookwright", "acme"), ("hookwright-eu", "globex")):
        roles = kubectl("get", "roles", "-n", namespace, "-o", "name").stdout
        assert f"role.rbac.authorization.k8s.io/{release}-operator" in roles, roles
    assert "hookwright-eu" not in kubectl("get", "roles", "-n", "acme", "-o", "name").stdout
    organization.follow(
        # No kubelet runs the last Job of the second installation.
        "helm uninstall hookwright-eu --namespace hookwright-eu --no-hooks",
        "kubectl delete namespace hookwright-eu hookwright-eu-users globex",
        "helm upgrade hookwright charts/hookwright --namespace hookwright-system --wait --reset-then-reuse-values "
        "--set settings.watchNamespaces=null",
    )
    organization.settle()


def test_a_failed_uninstallation_is_finished_as_printed(
    organization: Stage, kubelet: tuple[Stage, LocalKubelet, str]
) -> None:
    """The last Job cannot start and helm forgets the release; the page's commands release every endpoint."""
    kubectl = organization.plane.kubectl
    finalizers = ("get", "hookwright", "-A", "-o", "jsonpath={.items[*].metadata.finalizers}")
    theirs = '{"metadata": {"finalizers": ["hookwright.dev/deliveries", "example.com/theirs"]}}'
    kubectl("patch", "hwep", "orders", "-n", "acme", "--type=merge", "-p", theirs)
    kubelet[1].images_can_be_pulled = False
    result = organization.run("helm uninstall hookwright --namespace hookwright-system --timeout 5s")
    assert result.returncode != 0
    assert "hookwright.dev" in kubectl(*finalizers).stdout

    _, finish, remove = section("install.md", "Uninstall").blocks
    organization.follow(finish)

    assert kubectl(*finalizers).stdout == '["example.com/theirs"]'
    assert kubectl("get", "jobs", "-n", "hookwright-system", "-o", "name").stdout == ""
    kubectl("patch", "hwep", "orders", "-n", "acme", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    organization.follow(remove)


def test_rendered_manifests_and_their_removal_run_as_printed(
    stage: Stage, kubelet: tuple[Stage, LocalKubelet, str]
) -> None:
    """After everything is removed, rendered manifests install the same; a normal uninstallation leaves nothing."""
    kubelet[1].images_can_be_pulled = True
    install, remove = section("install.md", "Without a Helm release").blocks
    stage.follow(install)
    stage.follow("kubectl wait -n hookwright-system --for=condition=Available deploy --all --timeout=60s")
    stage.follow(remove)
    stage.follow(*section("install.md", "With Helm").blocks)
    uninstall, _, remove = section("install.md", "Uninstall").blocks
    stage.follow(uninstall, remove)
    remaining_names = stage.plane.kubectl("get", "namespaces,crd", "-o", "name").stdout
    assert "hookwright" not in remaining_names
