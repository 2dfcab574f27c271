"""A kubelet for tests without nodes: runs the pods of Hookwright's namespace as processes of this machine.

A pod of the operator or of the API is Ready when its process is. A deleted pod ends after its process. A Job's program
runs with the rights of its ServiceAccount. Other pods and the claims get the status of working ones.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from kubernetes.client import ApiException, CoreV1Api
from kubernetes.config import new_client_from_config

from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE, ApiProcess, OperatorProcess, service_account_token
from hookwright_dev.cluster.kubectl import Cluster

_EVERY = 0.1
_FINALIZER = "hookwright.test/process"
_COMPONENT = "app.kubernetes.io/component"


class LocalKubelet:
    """A thread that runs pods.

    Attributes:
        images_can_be_pulled: whether pods of Jobs start.
        failure: the error that ended the thread.
    """

    def __init__(self, cluster: Cluster, folder: Path, processes: Mapping[str, OperatorProcess | ApiProcess]) -> None:
        """Describe a kubelet; ``processes`` has the process of each component."""
        self.images_can_be_pulled = True
        self.failure: BaseException | None = None
        self._cluster, self._folder, self._processes = cluster, folder, processes
        self._pod_of: dict[str, str] = {}
        self._client = new_client_from_config(config_file=str(cluster.kubeconfig), persist_config=False)
        self._core = CoreV1Api(self._client)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for process in self._processes.values():
            if process.process is not None:
                process.stop()
        self._client.close()

    def _run(self) -> None:
        try:
            while not self._ended.wait(_EVERY):
                for pod in self._core.list_namespaced_pod(SYSTEM_NAMESPACE).items:
                    self._reconcile(pod)
                for claim in self._core.list_namespaced_persistent_volume_claim(SYSTEM_NAMESPACE).items:
                    if claim.status.phase != "Bound":
                        self._bind(claim.metadata.name)
        except BaseException as error:
            self.failure = error
            raise

    def _bind(self, claim: str) -> None:
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

    def _start(self, pod: Any, component: str) -> None:
        """Start the pod's process unless another pod of the component has it, and report the pod as Ready."""
        if process := self._processes.get(component):
            kept = [*(pod.metadata.finalizers or []), _FINALIZER]
            self._patch(self._core.patch_namespaced_pod, pod, {"metadata": {"finalizers": kept}})
            if component not in self._pod_of:
                process.start()
                (process.folder / "pid").write_text(str(process.running.pid))
            self._pod_of[component] = pod.metadata.uid
        self._report(pod, {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})

    def _end(self, pod: Any, component: str) -> None:
        if self._pod_of.get(component) == pod.metadata.uid:
            del self._pod_of[component]
            self._processes[component].stop()
        others = [name for name in pod.metadata.finalizers or [] if name != _FINALIZER]
        self._patch(self._core.patch_namespaced_pod, pod, {"metadata": {"finalizers": others or None}})

    def _run_job(self, pod: Any) -> None:
        if not self.images_can_be_pulled:
            return
        container = pod.spec.containers[0]
        code = self._release(container.args)
        ended = {"name": container.name, "image": container.image, "imageID": "", "ready": False, "restartCount": 0}
        ended["state"] = {"terminated": {"exitCode": code}}
        self._report(pod, {"phase": "Failed" if code else "Succeeded", "containerStatuses": [ended]})

    def _report(self, pod: Any, status: dict[str, Any]) -> None:
        self._patch(self._core.patch_namespaced_pod_status, pod, {"status": status})

    def _patch(self, patch: Any, pod: Any, body: dict[str, Any]) -> None:
        try:
            patch(pod.metadata.name, SYSTEM_NAMESPACE, body)
        except ApiException as error:
            if error.status != 404:  # deleted meanwhile
                raise

    def _release(self, arguments: list[str]) -> int:
        account = self._folder / "account"
        account.mkdir(exist_ok=True)
        token = service_account_token(self._cluster, "hookwright-uninstall", namespace=SYSTEM_NAMESPACE)
        (account / "token").write_text(token)
        (account / "ca.crt").write_bytes(self._cluster.ca.read_bytes())
        server = urlsplit(self._cluster.server)
        environ = {
            **os.environ,
            "KUBERNETES_SERVICE_HOST": server.hostname or "",
            "KUBERNETES_SERVICE_PORT": str(server.port or 443),
            "SERVICE_ACCOUNT_FOLDER": str(account),
        }
        return subprocess.run([sys.executable, "-c", *arguments], env=environ, timeout=60, check=False).returncode
