"""The local control plane behaves like a real cluster, and its end leaves no process or file."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from support.polling import eventually

from hookwright_dev.cluster.assets import Assets, kubernetes
from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.errors import FolderInUseError, ProcessError
from hookwright_dev.folders import OwnFolder
from hookwright_runtime.kubernetes import KubernetesClient

PARENT = """
import time
from hookwright_dev.cluster.control_plane import ControlPlane
plane = ControlPlane.start()
print(plane.folder, *(process.pid for process in plane.processes), flush=True)
time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.exists():
        try:
            return stat.read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return state.stdout.strip()[:1] not in {"", "Z"}


@pytest.mark.slow
def test_deleting_a_namespace_takes_its_objects(shared_cluster: Cluster, namespace: str) -> None:
    """The namespace controller runs: a deleted organization does not stay in Terminating."""
    objects = shared_cluster.objects
    objects.create("Secret", "inside", namespace)
    objects.delete("Namespace", namespace)
    objects.create("Namespace", namespace)
    assert objects.list("Secret", namespace) == []


def test_a_role_binding_to_edit_gives_what_a_real_cluster_gives(shared_cluster: Cluster, namespace: str) -> None:
    """The aggregated roles have rules, so RBAC decides as in other clusters."""
    objects = shared_cluster.objects
    assert not objects.may("someone", "create", "configmaps", namespace)
    rbac = "rbac.authorization.k8s.io"
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": "edit"}
    user = {"apiGroup": rbac, "kind": "User", "name": "someone"}
    objects.create("RoleBinding", "edit", namespace, roleRef=role, subjects=[user])
    eventually(lambda: objects.may("someone", "create", "configmaps", namespace), "the role's rules apply")


async def test_a_kubeconfig_with_a_command_gives_every_client_its_token(
    shared_cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubeconfigs of cloud providers have a command that prints a token; the product's client cannot run commands."""
    eventually(lambda: shared_cluster.objects.get("ServiceAccount", "default", namespace), "the account")
    token = shared_cluster.objects.token("default", namespace)
    output = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token}}
    command = {"apiVersion": output["apiVersion"], "command": "echo", "args": [json.dumps(output)]}
    config = json.loads(shared_cluster.kubectl("config", "view", "--minify", "--flatten", "--raw", "-o", "json").stdout)
    config["users"][0]["user"] = {"exec": {**command, "interactiveMode": "Never"}}
    kubeconfig, folder = tmp_path / "kubeconfig", tmp_path / "folder"
    kubeconfig.write_text(json.dumps(config))
    folder.mkdir()
    cluster = Cluster.existing(kubeconfig, folder)
    assert cluster.server == shared_cluster.server
    assert cluster.ca.read_bytes() == shared_cluster.ca.read_bytes()
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    kube = await KubernetesClient.connect("tests")
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await kube.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    finally:
        await kube.close()
    assert answer["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:default"
    assert f"system:serviceaccount:{namespace}:default" in cluster.kubectl("auth", "whoami").stdout


def test_a_folder_of_somebody_else_is_left_alone(assets: Assets, tmp_path: Path) -> None:
    """A given folder with foreign files is refused and unchanged."""
    (tmp_path / "thesis.txt").write_text("the only copy")
    with pytest.raises(FolderInUseError, match="contains other files"):
        ControlPlane.start(tmp_path, assets=assets)
    assert (tmp_path / "thesis.txt").read_text() == "the only copy"


# ----------------------------------------------------------------------- control planes of these tests


@pytest.fixture
def parent() -> Iterator[tuple[subprocess.Popen[str], Path, list[int]]]:
    """Yield a process that started a control plane, with the plane's folder and process ids."""
    process = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        folder, *pids = process.stdout.readline().split()
        yield process, Path(folder), [int(pid) for pid in pids]
        process.kill()


@pytest.fixture
def definitions(tmp_path: Path) -> Path:
    """Return a folder with the definition of a kind Owner."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "owners.test.hookwright.dev"},
        "spec": {
            "group": "test.hookwright.dev",
            "names": {"kind": "Owner", "plural": "owners"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    (tmp_path / "owners.yaml").write_text(yaml.safe_dump(definition))
    return tmp_path


@pytest.mark.slow
def test_a_plane_starts_with_its_kinds_and_its_stop_leaves_nothing(assets: Assets, definitions: Path) -> None:
    """The garbage collector knows the kinds, the folder belongs to the running plane, and nothing remains after it."""
    with ControlPlane.start(assets=assets, crds=definitions) as plane:
        version = json.loads(plane.kubectl("version", "-o", "json").stdout)
        for part in ("clientVersion", "serverVersion"):
            assert version[part]["gitVersion"] == kubernetes().version
        owner = {"apiVersion": "test.hookwright.dev/v1", "kind": "Owner", "metadata": {"name": "one"}}
        created = plane.kubectl("create", "-n", "default", "-f", "-", "-o", "json", stdin=yaml.safe_dump(owner))
        reference = {**owner, "name": "one", "uid": json.loads(created.stdout)["metadata"]["uid"]}
        del reference["metadata"]
        metadata = {"name": "owned", "ownerReferences": [reference]}
        plane.objects.create("Secret", "owned", "default", metadata=metadata)
        plane.kubectl("delete", "owners", "one", "-n", "default")
        eventually(lambda: plane.objects.get("Secret", "owned", "default") is None, "the Secret is collected")
        with pytest.raises(FolderInUseError, match="belongs to a running control plane"):
            ControlPlane.start(plane.folder, assets=assets)
        pids = [process.pid for process in plane.processes]
        assert len(pids) == 3
        assert all(is_alive(pid) for pid in pids)
    assert not any(is_alive(pid) for pid in pids)
    assert not plane.folder.exists()
    plane.stop()


@pytest.mark.slow
def test_no_component_outlives_its_parent_and_a_start_removes_its_folder(
    parent: tuple[subprocess.Popen[str], Path, list[int]],
) -> None:
    """The SIGKILL of the parent ends its control plane, and the next start deletes the folder without an owner."""
    process, folder, pids = parent
    assert all(is_alive(pid) for pid in pids)
    process.kill()
    process.wait(30)
    eventually(lambda: not any(is_alive(pid) for pid in pids), "every component is gone", within=10)
    OwnFolder.temporary().remove()
    assert not folder.exists()


@pytest.mark.slow
def test_a_failed_start_tells_the_component_s_last_words(assets: Assets, tmp_path: Path) -> None:
    """The error has the end of the failing component's log, and no process or file remains."""
    folder = tmp_path / "plane"
    with pytest.raises(ProcessError, match=r"(?s)kube-apiserver ended .*unknown flag: --no-such-flag"):
        ControlPlane.start(folder, assets=assets, apiserver_flags=["--no-such-flag"])
    assert not folder.exists()
