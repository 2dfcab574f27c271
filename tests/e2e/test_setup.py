"""The installation guide, followed exactly: it leads to a healthy installation and a first event."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from e2e.guide import Ran, follow
from e2e.installing import NAMESPACE, READY_SECONDS, RELEASE, Installation
from support.pages import section
from support.polling import eventually

COLUMNS = {
    "apikey": ["NAMESPACE", "NAME", "PROJECT", "KEY ID", "HANDOVER", "EXPIRES", "READY", "REASON", "AGE"],
    "project": ["NAMESPACE", "NAME", "READY", "REASON", "KEYS", "ENDPOINTS", "AGE"],
    "webhookendpoint": ["NAMESPACE", "NAME", "PROJECT", "READY", "REASON", "REACHABLE", "PENDING", "FAILED", "AGE"],
}
KEY = """
apiVersion: hookwright.dev/v1alpha1
kind: ApiKey
metadata: {name: ci, namespace: acme}
spec: {projectRef: {name: billing}, handover: {secretName: ci-key, ttl: 1h}}
"""


@pytest.fixture(scope="module")
def installed(bare: Installation) -> Ran:
    """Follow the section "With Helm"."""
    (block,) = section("install.md", "With Helm").blocks
    return follow(bare, block)


@pytest.fixture(scope="module")
def organized(bare: Installation, installed: Ran) -> Ran:
    """Follow the section "The first organization"."""
    assert installed
    (block,) = section("first-delivery.md", "The first organization").blocks
    bare.organizations.append("acme")
    return follow(bare, block)


def test_everything_is_ready_within_a_minute(bare: Installation, installed: Ran) -> None:
    """All pods are Ready within the limit after the first command, and no container restarted."""
    bare.wait_ready(within=max(1.0, READY_SECONDS - installed.seconds))
    assert installed.seconds < READY_SECONDS
    pods = bare.objects("pods")
    assert {pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in pods} == {"operator", "api"}
    for pod in pods:
        assert [container["restartCount"] for container in pod["status"]["containerStatuses"]] == [0]


def test_the_restricted_pod_security_level_has_nothing_to_say(bare: Installation, installed: Ran) -> None:
    """The installation causes no warning and no refused pod."""
    assert "arning" not in installed.complained
    assert "would violate" not in installed.complained + installed.printed
    labels = json.loads(bare.kubectl("get", "namespace", NAMESPACE, "-o", "json"))["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert [event for event in bare.objects("events") if event["reason"] in {"FailedCreate", "BackOff"}] == []


def test_helm_tells_the_next_commands(installed: Ran) -> None:
    """The notes name the commands that show the state, and the next steps."""
    for command in (
        "kubectl hookwright status",
        "kubectl create namespace acme",
        "rolebinding producer",
        "kubectl hookwright users create",
    ):
        assert command in installed.printed


def test_one_command_tells_whether_it_is_well(bare: Installation, organized: Ran) -> None:
    """`kubectl get hookwright -A` shows every kind with its columns, and Ready is True for all of them."""
    assert organized.printed.count("hookwright.dev/") >= 2
    bare.kubectl("apply", "-f", "-", stdin=KEY)
    bare.kubectl("wait", "--for=condition=Ready", "hookwright", "--all", "-n", "acme", "--timeout=30s")
    text = bare.kubectl("get", "hookwright", "-A")
    tables = {
        table.splitlines()[1].split()[1].partition(".")[0]: table.splitlines() for table in text.strip().split("\n\n")
    }
    assert {
        kind: re.split(r"\s{2,}|(?<=[A-Z]) (?=READY|AGE)", rows[0].strip()) for kind, rows in tables.items()
    } == COLUMNS
    for rows in tables.values():
        start = rows[0].index("READY")
        assert [row[start : start + 4] for row in rows[1:]] == ["True"] * (len(rows) - 1), text


@pytest.mark.usefixtures("organized")
def test_an_event_is_accepted_as_the_guide_sends_it(bare: Installation) -> None:
    """With a role binding, the command line gets a token and a port, and sends the event with one delivery."""
    binding, sending, _ = section("first-delivery.md", "Sending events").blocks
    follow(bare, binding)
    output = follow(bare, sending)
    assert "1 accepted, 1 delivery: msg_" in output.printed


@pytest.mark.usefixtures("organized")
def test_a_user_is_made_as_the_guide_makes_one(bare: Installation) -> None:
    """Without a terminal, the commands for the user and for the chart's hash read the password from standard input."""
    (user, _), (hashing,) = section("users.md", "").blocks, section("users.md", "The first user").blocks
    output = follow(bare, user, stdin="correct horse battery staple\n")
    assert output.printed == "ada@example.com may log in to organization acme as admin\n"
    hashed = follow(bare, hashing.replace("<password.txt", ""), stdin="correct horse battery staple\n")
    assert hashed.printed.startswith("$argon2id$")


@pytest.mark.usefixtures("organized")
def test_helm_test_succeeds_and_status_finds_the_installation(bare: Installation) -> None:
    """The pod of `helm test` reaches every Service, and `status` needs no option to find pods and objects."""
    pins = follow(bare, f"helm test {RELEASE} --namespace {NAMESPACE} --timeout 2m")
    assert re.search(r"Phase:\s+Succeeded", pins.printed), pins.printed
    # It ends with an error status if the cluster cannot reach the guide's receiver, https://example.com.
    status = follow(bare, "kubectl hookwright status || [ $? = 9 ]").printed
    assert re.search(rf"Way: +kubeconfig, cluster .*, all namespaces, installation {NAMESPACE}", status), status
    # The image has the same program, which uses the pod's own ServiceAccount.
    inside = follow(bare, f"kubectl exec -n {NAMESPACE} deploy/hookwright-operator -- hookwright status || [ $? = 9 ]")
    in_pod = rf"Way: +kubeconfig, cluster of this pod, all namespaces, installation {NAMESPACE}"
    assert re.search(in_pod, inside.printed), inside
    for component in ("API", "Operator"):
        assert re.search(rf"{component}: +ready, 1 of 1 pods", status), status
    assert re.search(r"Projects: +1\b", status), status
    assert re.search(r"Endpoints: +1\b", status), status


@pytest.mark.usefixtures("organized")
def test_a_backup_of_the_store_is_restored(bare: Installation, tmp_path: Path) -> None:
    """An event that was accepted after the backup is gone after the restore; one before it is there."""
    sending = "kubectl hookwright send delivered messageId={} -n acme --service-account acme/default"
    first, second = tmp_path / "first.db", tmp_path / "second.db"
    follow(bare, sending.format("m-before"))
    assert "integrity ok" in follow(bare, f"kubectl hookwright store backup {first}").printed
    follow(bare, sending.format("m-after"))
    follow(bare, f"kubectl hookwright store restore {first} --yes")
    bare.wait_ready(within=READY_SECONDS)
    follow(bare, f"kubectl hookwright store backup {second}")
    for file in (first, second):
        assert _messages(file) >= {"m-before"}
        assert "m-after" not in _messages(file)


def _messages(file: Path) -> set[str]:
    with closing(sqlite3.connect(file)) as store:
        return {json.loads(body)["messageId"] for (body,) in store.execute("SELECT body FROM events")}


@pytest.mark.usefixtures("organized")
def test_nothing_is_left_by_those_who_want_that(bare: Installation) -> None:
    """The last commands of the section "Uninstall" leave no kind, no namespace, and no object with a finalizer."""
    uninstalling, _, removing = section("install.md", "Uninstall").blocks
    text = follow(bare, uninstalling)
    for row in ("webhookendpoints.hookwright.dev", "[PersistentVolumeClaim] hookwright-operator"):
        assert row in text.printed + text.complained
    bare.plain = False
    follow(bare, removing)
    assert not [name for name in bare.names("crd") if name.endswith("hookwright.dev")]
    bare.kubectl("delete", "namespace", "acme", "--timeout=60s", timeout=70)
    eventually(lambda: NAMESPACE not in bare.names("namespaces"), "the namespace has gone", within=60)
