"""The local control plane is a real one, and its end leaves no process or file."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from support.json_lines import entries
from support.polling import eventually

from hookwright_dev.cluster import control_plane as control_plane_module
from hookwright_dev.cluster.assets import Assets, acquire, kubernetes
from hookwright_dev.cluster.components import Ports
from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.errors import DevError, FolderInUseError, IncompleteAssetsError, KubectlError, ProcessError
from hookwright_runtime.kubernetes import KubernetesClient

# A shell makes its background processes ignore SIGINT, which includes the tests and this parent.
LONELY_PARENT = """
import signal
import time
from hookwright_dev.cluster.control_plane import ControlPlane
signal.signal(signal.SIGINT, signal.default_int_handler)
plane = ControlPlane.start()
print(plane.folder, *(process.pid for process in plane.processes), flush=True)
time.sleep(600)
"""

FAILING_TEST = """
def test_failing(kubectl, namespace):
    kubectl("create", "secret", "generic", "evidence", "-n", namespace)
    assert kubectl is None
"""
TESTS = Path(__file__).resolve().parents[1]


def alive(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    table_entry = Path(f"/proc/{pid}/stat")
    if table_entry.parent.parent.exists():
        try:
            return table_entry.read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return state.stdout.strip()[:1] not in {"", "Z"}


@pytest.fixture(scope="module")
def plane(assets: Assets) -> Iterator[ControlPlane]:
    """Yield a separate control plane with an audit log."""
    with ControlPlane.start(assets=assets, audit_level="Metadata") as plane:
        yield plane


@pytest.fixture
def lonely_parent() -> Iterator[tuple[subprocess.Popen[str], Path, list[int]]]:
    """Yield a process that started a control plane, with the plane's folder and process ids."""
    parent = subprocess.Popen([sys.executable, "-c", LONELY_PARENT], stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        folder, *pids = parent.stdout.readline().split()
        yield parent, Path(folder), [int(pid) for pid in pids]
        parent.kill()


def test_two_control_planes_live_beside_each_other(control_plane: Cluster, plane: ControlPlane) -> None:
    """Each has its own ports and its own objects, and both answer."""
    assert plane.server != control_plane.server
    plane.kubectl("create", "configmap", "only-here", "-n", "default")
    assert control_plane.kubectl("get", "--raw", "/readyz").stdout == "ok"
    assert plane.kubectl("get", "--raw", "/readyz").stdout == "ok"
    assert control_plane.kubectl("get", "configmap", "only-here", "-n", "default", check=False).returncode != 0


def test_client_and_server_tell_the_pinned_version(plane: ControlPlane) -> None:
    """The build keeps the version strings, which kubectl and Helm compare."""
    version = json.loads(plane.kubectl("version", "-o", "json").stdout)
    assert version["clientVersion"]["gitVersion"] == kubernetes().version
    assert version["serverVersion"]["gitVersion"] == kubernetes().version


def test_deleting_an_owner_collects_what_it_owns(control_plane: Cluster, namespace: str) -> None:
    """The garbage collector runs, so ownerReferences have their effect."""
    kubectl = control_plane.kubectl
    kubectl("create", "configmap", "owner", "-n", namespace)
    uid = kubectl("get", "configmap", "owner", "-n", namespace, "-o", "jsonpath={.metadata.uid}").stdout
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    owned = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "owned", "namespace": namespace, "ownerReferences": [owner]},
    }
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump(owned))
    kubectl("delete", "configmap", "owner", "-n", namespace)
    kubectl("wait", "--for=delete", "configmap/owned", "-n", namespace, "--timeout=30s")


def test_deleting_a_namespace_takes_its_objects(control_plane: Cluster, namespace: str) -> None:
    """The namespace controller runs: a deleted organization does not stay in Terminating."""
    control_plane.kubectl("create", "secret", "generic", "inside", "-n", namespace)
    control_plane.kubectl("delete", "namespace", namespace)
    control_plane.kubectl("create", "namespace", namespace)
    secrets = control_plane.kubectl("get", "secrets", "-n", namespace, "-o", "name").stdout
    assert secrets == ""


def test_a_role_binding_to_edit_gives_what_a_real_cluster_gives(control_plane: Cluster, namespace: str) -> None:
    """The aggregated roles have rules, so RBAC decides as in other clusters."""
    may = ("auth", "can-i", "create", "configmaps", "--as=someone", "-n", namespace)
    assert control_plane.kubectl(*may, check=False).stdout.strip() == "no"
    control_plane.kubectl("create", "rolebinding", "edit", "--clusterrole=edit", "--user=someone", "-n", namespace)
    eventually(lambda: control_plane.kubectl(*may, check=False).stdout.strip() == "yes", "the role's rules apply")


def test_a_service_account_token_authenticates(control_plane: Cluster, namespace: str) -> None:
    """TokenRequest and TokenReview work together, as the intake needs them."""
    control_plane.kubectl("create", "serviceaccount", "sender", "-n", namespace)
    token = control_plane.kubectl("create", "token", "sender", "-n", namespace).stdout.strip()
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    answer = control_plane.kubectl("create", "-f", "-", "-o", "json", stdin=yaml.safe_dump(review)).stdout
    assert json.loads(answer)["status"]["user"]["username"] == f"system:serviceaccount:{namespace}:sender"


def test_kubectl_reports_what_the_server_refused(control_plane: Cluster) -> None:
    """A failing call raises the server's error text; with ``check=False`` it returns the text."""
    with pytest.raises(KubectlError, match='namespaces "nowhere" not found'):
        control_plane.kubectl("get", "namespace", "nowhere")
    assert "not found" in control_plane.kubectl("get", "namespace", "nowhere", check=False).stderr


def test_etcd_content_shows_what_is_stored(plane: ControlPlane) -> None:
    """A test can search all content of etcd for a secret, and a client without a certificate cannot."""
    plane.kubectl("create", "configmap", "stored", "-n", "default", "--from-literal=word=conspicuous")
    assert b"conspicuous" in plane.etcd_content()
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{plane.etcd_url}/health", verify=ssl.create_default_context(cafile=plane.ca))


def test_the_audit_log_records_requests(plane: ControlPlane) -> None:
    """With an audit level, the log has every request when its answer arrives."""
    plane.kubectl("create", "configmap", "audited", "-n", "default")
    assert plane.audit_log is not None
    seen = [(entry["verb"], entry.get("objectRef", {}).get("name")) for entry in entries(plane.audit_log)]
    assert ("create", "audited") in seen


def test_stopping_leaves_no_process_and_no_folder(assets: Assets) -> None:
    """After the context no process or file of the control plane remains."""
    with ControlPlane.start(assets=assets) as plane:
        pids = [process.pid for process in plane.processes]
        assert len(pids) == 3
        assert all(alive(pid) for pid in pids)
        assert plane.folder.exists()
    assert not any(alive(pid) for pid in pids)
    assert not plane.folder.exists()
    plane.stop()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_component_outlives_its_parent(
    lonely_parent: tuple[subprocess.Popen[str], Path, list[int]], number: signal.Signals
) -> None:
    """Every end of the parent ends its control plane."""
    parent, _, pids = lonely_parent
    assert all(alive(pid) for pid in pids)
    parent.send_signal(number)
    parent.wait(30)
    eventually(lambda: not any(alive(pid) for pid in pids), "every component is gone", within=10)


def test_the_next_start_removes_what_a_crashed_one_left(
    plane: ControlPlane, lonely_parent: tuple[subprocess.Popen[str], Path, list[int]], assets: Assets
) -> None:
    """A folder without a living owner is deleted; the folder of a living owner stays."""
    parent, left, _ = lonely_parent
    parent.kill()
    parent.wait(30)
    assert left.exists()
    with ControlPlane.start(assets=assets):
        assert not left.exists()
    assert plane.kubectl("get", "--raw", "/readyz").stdout == "ok"
    assert plane.kubeconfig.exists()


def test_a_folder_of_somebody_else_is_left_alone(assets: Assets, tmp_path: Path) -> None:
    """A given folder with foreign files or a running control plane is refused and unchanged."""
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("the only copy")
    with pytest.raises(FolderInUseError, match="contains other files"):
        ControlPlane.start(foreign, assets=assets)
    assert (foreign / "thesis.txt").read_text() == "the only copy"
    with ControlPlane.start(tmp_path / "own", assets=assets) as plane:
        with pytest.raises(FolderInUseError, match="belongs to a running control plane"):
            ControlPlane.start(plane.folder, assets=assets)
        assert plane.kubectl("get", "--raw", "/readyz").stdout == "ok"


def test_a_port_taken_in_between_is_no_obstacle(assets: Assets, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another process binds the chosen port first, the start chooses another port."""
    free_ports = control_plane_module.free_ports
    with socket.create_server(("127.0.0.1", 0)) as faster:
        taken = Ports(free_ports().etcd, free_ports().etcd_peer, faster.getsockname()[1], free_ports().controllers)
        picks = iter([taken])
        monkeypatch.setattr(control_plane_module, "free_ports", lambda: next(picks, None) or free_ports())
        with ControlPlane.start(assets=assets) as plane:
            assert not plane.server.endswith(f":{taken.apiserver}")
            assert plane.kubectl("get", "--raw", "/readyz").stdout == "ok"


def test_a_failed_start_tells_the_component_s_last_words(assets: Assets, tmp_path: Path) -> None:
    """The error has the end of the failing component's log, and no process or file remains."""
    folder = tmp_path / "plane"
    with pytest.raises(ProcessError, match=r"(?s)kube-apiserver ended .*unknown flag: --no-such-flag"):
        ControlPlane.start(folder, assets=assets, apiserver_flags=["--no-such-flag"])
    assert not folder.exists()


def test_definitions_are_served_when_the_start_returns(assets: Assets, tmp_path: Path) -> None:
    """Kinds given at the start can be used at once, and the garbage collector knows them."""
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "owners.test.hookwright.dev"},
        "spec": {
            "group": "test.hookwright.dev",
            "names": {"kind": "Owner", "plural": "owners"},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        },
    }
    (tmp_path / "owners.yaml").write_text(yaml.safe_dump(definition))
    with ControlPlane.start(assets=assets, crds=tmp_path) as plane:
        owner = {
            "apiVersion": "test.hookwright.dev/v1",
            "kind": "Owner",
            "metadata": {"name": "one", "namespace": "default"},
        }
        created = plane.kubectl("create", "-f", "-", "-o", "json", stdin=yaml.safe_dump(owner))
        reference = {**owner, "name": "one", "uid": json.loads(created.stdout)["metadata"]["uid"]}
        del reference["metadata"]
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "owned", "namespace": "default", "ownerReferences": [reference]},
        }
        plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump(secret))
        plane.kubectl("delete", "owners", "one", "-n", "default")
        plane.kubectl("wait", "--for=delete", "secret/owned", "-n", "default", "--timeout=15s")


def test_a_folder_without_definitions_is_refused(control_plane: Cluster, tmp_path: Path) -> None:
    """An empty folder is a mistake, not a cluster without kinds."""
    with pytest.raises(DevError, match="must contain the CustomResourceDefinitions"):
        control_plane.apply_crds(tmp_path)


def test_an_existing_cluster_is_described_by_its_kubeconfig(plane: ControlPlane, tmp_path: Path) -> None:
    """A cluster from elsewhere has the same attributes."""
    cluster = Cluster.existing(plane.kubeconfig, tmp_path)
    assert cluster.server == plane.server
    assert cluster.ca.read_bytes() == plane.ca.read_bytes()
    assert cluster.kubectl("get", "--raw", "/readyz").stdout == "ok"


async def test_a_kubeconfig_with_a_command_gives_every_client_its_token(
    plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubeconfigs of cloud providers have a command that prints a token; the product's client cannot run commands."""
    token = plane.kubectl("create", "token", "default", "-n", "default").stdout.strip()
    printed = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token}}
    command = {"apiVersion": printed["apiVersion"], "command": "echo", "args": [json.dumps(printed)]}
    config = json.loads(plane.kubectl("config", "view", "--minify", "--flatten", "--raw", "-o", "json").stdout)
    config["users"][0]["user"] = {"exec": {**command, "interactiveMode": "Never"}}
    given, folder = tmp_path / "given", tmp_path / "folder"
    given.write_text(json.dumps(config))
    folder.mkdir()
    cluster = Cluster.existing(given, folder)
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    kube = await KubernetesClient.connect("tests")
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await kube.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    finally:
        await kube.close()
    assert answer["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"
    assert "system:serviceaccount:default:default" in cluster.kubectl("auth", "whoami").stdout


def test_an_incomplete_folder_of_binaries_names_what_is_missing(tmp_path: Path) -> None:
    """A folder from the environment is used unchanged, and the error names its missing files."""
    (tmp_path / "etcd").touch(mode=0o755)
    with pytest.raises(IncompleteAssetsError) as caught:
        acquire({"HOOKWRIGHT_KUBE_ASSETS": str(tmp_path)})
    for part in ("HOOKWRIGHT_KUBE_ASSETS", "kube-apiserver", "kube-controller-manager", "kubectl"):
        assert part in str(caught.value)
    assert "lacks etcd" not in str(caught.value)


def test_a_failing_test_shows_logs_and_objects(tmp_path: Path) -> None:
    """The report of a failed run has the components' logs and the namespace's objects."""
    (tmp_path / "pytest.ini").write_text("[pytest]")
    (tmp_path / "test_failing.py").write_text(FAILING_TEST)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-c", tmp_path / "pytest.ini", tmp_path],
        env={**os.environ, "PYTHONPATH": str(TESTS), "HOOKWRIGHT_TEST_KUBECONFIG": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout + run.stderr
    for evidence in ("end of etcd.log", "end of kube-apiserver.log", "objects in namespace test-", "secret/evidence"):
        assert evidence in run.stdout
