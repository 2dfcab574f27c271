"""A kubelet for tests without containers: runs the pods of Hookwright's namespace as processes of this machine.

A pod of the operator or of the API is Ready when its process is. A deleted pod ends after its process. A Job's program
runs with the rights of its ServiceAccount. Other pods and the claims get the status of working ones. On SQLite one
process serves all pods of the operator one after another. On PostgreSQL each pod has its own.
"""

import json
import os
import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

# The classes are loaded when they are used: that takes as long as a tenth of the collection of all tests.
from kubernetes import client, config
from support.kubelet_server import HOST, KubeletServer

from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE, ApiProcess, OperatorProcess, service_account_token
from hookwright_dev.errors import EarlyExitError
from hookwright_dev.processes import free_port

_EVERY: Final = 0.1
_START_SECONDS: Final = 240.0
_NODE: Final = "local"
_COMPONENT: Final = "app.kubernetes.io/component"
_DATABASE: Final = "HOOKWRIGHT_DATABASE_URL"
_KEPT: Final = (_DATABASE, "HOOKWRIGHT_WATCH_NAMESPACES")
"""Variables of a pod that its process gets; the others are those of this machine."""


def described(process: OperatorProcess | ApiProcess) -> dict[str, Any]:
    """Return a process as `node_commands` needs it: its files, its variables, and its port for each port of the pod."""
    common = {"log": str(process.log), "folder": str(process.folder), "pid": str(process.folder / "pid")}
    if isinstance(process, ApiProcess):
        ports = {"8000": process.port, "9091": process.health_port}
        return {**common, "url": process.url, "ports": ports, "env": {}}
    environment = {
        "KUBECONFIG": str(process.folder / f"{process.account}.kubeconfig"),
        _DATABASE: process.settings.get(_DATABASE, f"sqlite:///{process.folder / 'hookwright.db'}"),
    }
    ports = {"8080": process.intake_port, "9090": process.health_port}
    return {**common, "ports": ports, "env": environment}


class LocalKubelet:
    """A thread that runs pods, and the port of a kubelet.

    Attributes:
        images_can_be_pulled: whether pods of Jobs start.
        failure: the error that ended the thread.
        replicas: the process of each pod of the operator on PostgreSQL, by the name of the pod.
    """

    def __init__(
        self, plane: ControlPlane, folder: Path, processes: Mapping[str, OperatorProcess | ApiProcess]
    ) -> None:
        """Describe a kubelet; ``processes`` has the process of each component."""
        self.images_can_be_pulled = True
        self.failure: BaseException | None = None
        self.replicas: dict[str, OperatorProcess] = {}
        self._plane, self._folder, self._processes = plane, folder, processes
        self._pod_of: dict[str, str] = {}
        self._client = config.new_client_from_config(config_file=str(plane.kubeconfig), persist_config=False)
        self._core = client.CoreV1Api(self._client)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._server = ExitStack()

    def __enter__(self) -> Self:
        pki = self._plane.folder / "pki"
        serving = KubeletServer(self._process_of).running(pki / "serving.crt", pki / "serving.key")
        port = self._server.enter_context(serving)
        self._core.create_node({"metadata": {"name": _NODE}})
        addresses = [{"type": "InternalIP", "address": HOST}]
        status = {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
        self._core.patch_node_status(_NODE, {"status": status})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for process in (*self._processes.values(), *self.replicas.values()):
            if process.process is not None:
                process.stop()
        self._server.close()
        self._client.close()

    def _process_of(self, name: str) -> dict[str, Any]:
        """Return the process behind a pod; a pod without one, such as for a restore, has the files of the operator."""
        if name in self.replicas:
            return described(self.replicas[name])
        if name.startswith("hookwright-api"):
            return described(self._processes["api"])
        pod = self._core.read_namespaced_pod(name, SYSTEM_NAMESPACE)
        operator = described(self._processes["operator"])
        return {**operator, "env": {**operator["env"], **self._variables(pod)}}

    def _variables(self, pod: Any) -> dict[str, str]:
        """Return the variables of a pod that its process gets; on SQLite the file is one of this machine."""
        values = {}
        for variable in pod.spec.containers[0].env or ():
            if variable.name not in _KEPT:
                continue
            if variable.value_from is not None:
                reference = variable.value_from.secret_key_ref
                secret = self._core.read_namespaced_secret(reference.name, SYSTEM_NAMESPACE)
                values[variable.name] = b64decode(secret.data[reference.key]).decode()
            elif variable.name != _DATABASE:
                values[variable.name] = variable.value
        return values

    def _run(self) -> None:
        seen: list[str] = []
        try:
            while not self._ended.wait(_EVERY):
                if (versions := self._versions()) == seen:
                    continue
                seen = versions
                for pod in self._core.list_namespaced_pod(SYSTEM_NAMESPACE).items:
                    with _unless_changed():
                        self._reconcile(pod)
                for claim in self._core.list_namespaced_persistent_volume_claim(SYSTEM_NAMESPACE).items:
                    if claim.status.phase != "Bound":
                        with _unless_changed():
                            self._bind_claim(claim.metadata.name)
        except BaseException as error:
            self.failure = error
            raise

    def _versions(self) -> list[str]:
        """Return the versions of the pods and claims; to read the models of all of them ten times a second is slow."""
        lists = (self._core.list_namespaced_pod, self._core.list_namespaced_persistent_volume_claim)
        answers = [json.loads(read(SYSTEM_NAMESPACE, _preload_content=False).data) for read in lists]
        return [str(item["metadata"]["resourceVersion"]) for answer in answers for item in answer["items"]]

    def _bind_claim(self, claim: str) -> None:
        status = {"phase": "Bound", "capacity": {"storage": "8Gi"}}
        self._core.patch_namespaced_persistent_volume_claim_status(claim, SYSTEM_NAMESPACE, {"status": status})

    def _reconcile(self, pod: Any) -> None:
        component = (pod.metadata.labels or {}).get(_COMPONENT, "")
        if pod.metadata.deletion_timestamp:
            self._end(pod, component)
        elif pod.status.phase != "Pending":
            return
        elif component == "uninstall":
            self._run_job(pod)
        else:
            self._start(pod, component)

    def _assign(self, pod: Any) -> None:
        """Assign a pod to the node, as the scheduler does. From now on only a kubelet removes the pod."""
        target = {"metadata": {"name": pod.metadata.name}, "target": {"kind": "Node", "name": _NODE}}
        self._core.create_namespaced_pod_binding(pod.metadata.name, SYSTEM_NAMESPACE, target, _preload_content=False)

    def _start(self, pod: Any, component: str) -> None:
        """Start the pod's process unless another pod of the component has it, and report the pod as Ready."""
        if not pod.spec.node_name:
            self._assign(pod)
        ready = True
        if process := self._processes.get(component):
            variables = self._variables(pod)
            if isinstance(process, OperatorProcess) and _DATABASE in variables:
                ready = self._start_replica(pod, process, variables)
            else:
                if component not in self._pod_of:
                    remainder = {name: value for name, value in process.settings.items() if name not in _KEPT}
                    process.settings = {**remainder, **variables}
                    ready = _ready(process)
                self._pod_of[component] = pod.metadata.uid
        condition = {"type": "Ready", "status": str(ready)}
        self._report(pod, {"phase": "Running", "conditions": [condition]})

    def _start_replica(self, pod: Any, model: OperatorProcess, variables: Mapping[str, str]) -> bool:
        name = pod.metadata.name
        self.replicas[name] = replace(
            model,
            folder=self._folder / name,
            settings={**model.settings, **variables},
            intake_port=free_port(),
            health_port=free_port(),
            process=None,
        )
        return _ready(self.replicas[name])

    def _end(self, pod: Any, component: str) -> None:
        if replica := self.replicas.pop(pod.metadata.name, None):
            replica.stop()
        if self._pod_of.get(component) == pod.metadata.uid:
            del self._pod_of[component]
            self._processes[component].stop()
        if pod.spec.node_name:
            self._core.delete_namespaced_pod(pod.metadata.name, SYSTEM_NAMESPACE, grace_period_seconds=0)

    def _run_job(self, pod: Any) -> None:
        if not self.images_can_be_pulled:
            return
        container = pod.spec.containers[0]
        code = self._release(container.args)
        status = {"name": container.name, "image": container.image, "imageID": "", "ready": False, "restartCount": 0}
        status["state"] = {"terminated": {"exitCode": code}}
        self._report(pod, {"phase": "Failed" if code else "Succeeded", "containerStatuses": [status]})

    def _report(self, pod: Any, status: dict[str, Any]) -> None:
        self._core.patch_namespaced_pod_status(pod.metadata.name, SYSTEM_NAMESPACE, {"status": status})

    def _release(self, arguments: list[str]) -> int:
        account = self._folder / "account"
        account.mkdir(exist_ok=True)
        token = service_account_token(self._plane, "hookwright-uninstall", namespace=SYSTEM_NAMESPACE)
        (account / "token").write_text(token)
        (account / "ca.crt").write_bytes(self._plane.ca.read_bytes())
        server = urlsplit(self._plane.server)
        environ = {
            **os.environ,
            "KUBERNETES_SERVICE_HOST": server.hostname or "",
            "KUBERNETES_SERVICE_PORT": str(server.port or 443),
            "SERVICE_ACCOUNT_FOLDER": str(account),
        }
        return subprocess.run([sys.executable, "-c", *arguments], env=environ, timeout=60, check=False).returncode


def _ready(process: OperatorProcess | ApiProcess) -> bool:
    """Start a process and return True when it is ready, False if it ends before."""
    process.start(wait=False)
    (process.folder / "pid").write_text(str(process.running.pid))
    try:
        if isinstance(process, ApiProcess):
            process.running.wait_ready(lambda: process.ready() == 200, _START_SECONDS)
        else:
            process.wait_ready(_START_SECONDS)
    except EarlyExitError:
        return False
    return True


@contextmanager
def _unless_changed() -> Iterator[None]:
    """End the block if another client has deleted the object or changed it. The next round reads it again."""
    try:
        yield
    except client.ApiException as error:
        if error.status not in (404, 409):
            raise
