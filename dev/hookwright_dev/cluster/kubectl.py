"""A Kubernetes cluster for tests and the demo: a kubeconfig, and kubectl that uses it."""

import json
import os
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, Self

from hookwright_dev.cluster.assets import acquire
from hookwright_dev.errors import DevError, KubectlError

_FIELD_MANAGER = "hookwright-dev"


class Kubectl(Protocol):
    """The signature of `Cluster.kubectl`."""

    def __call__(
        self, *arguments: str, stdin: str | None = None, check: bool = True, timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator."""


class Cluster:
    """Any cluster that a kubeconfig names; `hookwright_dev.cluster.control_plane.ControlPlane` is one started here.

    Attributes:
        kubeconfig: credentials of an administrator.
        server: the API server's URL.
        ca: the certificate authority of ``server``, PEM.
        folder: a folder for files of this cluster.
        kubectl_path: the kubectl executable.
        logs: log files by component, empty if the components run elsewhere.
        etcd_url: etcd's client URL, None if it cannot be reached.
    """

    def __init__(self, folder: Path, *, kubeconfig: Path, server: str, ca: Path, kubectl_path: Path) -> None:
        """Describe a running cluster."""
        self.folder = folder
        self.kubeconfig = kubeconfig
        self.server = server
        self.ca = ca
        self.kubectl_path = kubectl_path
        self.logs: Mapping[str, Path] = {}
        self.etcd_url: str | None = None

    @classmethod
    def existing(cls, kubeconfig: Path, folder: Path) -> Self:
        """Describe the cluster of ``kubeconfig``'s current context; write its CA certificate into ``folder``."""
        found = shutil.which("kubectl")
        ca = folder / "ca.crt"
        cluster = cls(
            folder, kubeconfig=kubeconfig, server="", ca=ca, kubectl_path=Path(found) if found else acquire().kubectl
        )
        view = json.loads(cluster.kubectl("config", "view", "--minify", "--flatten", "--raw", "-o", "json").stdout)
        described = view["clusters"][0]["cluster"]
        cluster.server = described["server"]
        ca.write_bytes(b64decode(described.get("certificate-authority-data", "")))
        return cluster

    def kubectl(
        self, *arguments: str, stdin: str | None = None, check: bool = True, timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator with ``stdin``, for at most ``timeout`` seconds.

        Raises `KubectlError` with kubectl's standard error if it fails and ``check`` is set.
        """
        result = subprocess.run(
            [self.kubectl_path, "--kubeconfig", self.kubeconfig, *arguments],
            input=stdin or "",
            env={**os.environ, "KUBECACHEDIR": str(self.folder / "kubectl-cache")},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and result.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments[:2])}: {result.stderr.strip()}")
        return result

    def apply_crds(self, folder: Path) -> None:
        """Apply every ``*.yaml`` of ``folder`` and wait until the API server serves the kinds they define."""
        files = [option for path in sorted(folder.glob("*.yaml")) for option in ("-f", str(path))]
        if not files:
            raise DevError(f"{folder} contains no *.yaml; it must contain the CustomResourceDefinitions")
        self.kubectl("apply", "--server-side", "--force-conflicts", f"--field-manager={_FIELD_MANAGER}", *files)
        self.kubectl("wait", "--for=condition=Established", "--timeout=30s", *files)
