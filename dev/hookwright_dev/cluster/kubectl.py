"""A Kubernetes cluster for tests and the demo: a kubeconfig, and kubectl that uses it."""

import json
import os
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Protocol, Self

from kubernetes.client import Configuration
from kubernetes.config import load_kube_config

from hookwright_dev.cluster.assets import acquire
from hookwright_dev.cluster.objects import Objects, administrator
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
        self._kubectl_config = kubeconfig
        self.logs: Mapping[str, Path] = {}
        self.etcd_url: str | None = None

    @property
    def _cache(self) -> Path:
        return self.folder / "kubectl-cache"

    @cached_property
    def objects(self) -> Objects:
        """Reads and writes of objects without kubectl."""
        user = json.loads(self.kubeconfig.read_text())["users"][0]["user"]
        return Objects(administrator(self.server, self.ca, user, self.folder))

    def close(self) -> None:
        """Close the connections of `objects`."""
        if "objects" in self.__dict__:
            self.objects.close()

    @classmethod
    def existing(cls, kubeconfig: Path, folder: Path) -> Self:
        """Describe the cluster of a person's kubeconfig; write its CA certificate and credentials into ``folder``.

        The official client reads the file, because it knows every way to authenticate, such as a command that
        prints a token. ``kubeconfig`` of the result has that token. kubectl keeps the given file, so it gets a new
        token when this one expires.
        """
        configuration = Configuration()
        load_kube_config(config_file=str(kubeconfig), client_configuration=configuration, persist_config=False)
        kubectl = shutil.which("kubectl")
        cluster = cls(
            folder,
            kubeconfig=folder / "kubeconfig",
            server=configuration.host,
            ca=folder / "ca.crt",
            kubectl_path=Path(kubectl) if kubectl else acquire().kubectl,
        )
        cluster._kubectl_config = kubeconfig
        ca = Path(configuration.ssl_ca_cert).read_bytes() if configuration.ssl_ca_cert else b""
        cluster.ca.write_bytes(ca)
        write_kubeconfig(cluster.kubeconfig, server=configuration.host, ca=ca, user=_user(configuration))
        return cluster

    def kubectl(
        self, *arguments: str, stdin: str | None = None, check: bool = True, timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator with ``stdin``, for at most ``timeout`` seconds.

        Raises `KubectlError` with kubectl's standard error if it fails and ``check`` is set.
        """
        result = subprocess.run(
            [self.kubectl_path, "--kubeconfig", self._kubectl_config, *arguments],
            input=stdin or "",
            env={**os.environ, "KUBECACHEDIR": str(self._cache)},
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
        # The cache lacks the new kinds, and kubectl does not look again for the category `hookwright`.
        shutil.rmtree(self._cache, ignore_errors=True)


def write_kubeconfig(path: Path, *, server: str, ca: bytes, user: Mapping[str, str]) -> None:
    """Write a kubeconfig with one cluster and one user, readable only by this account.

    Args:
        path: of the file.
        server: URL of the API server.
        ca: its certificate authority, PEM; empty: one that the system trusts.
        user: the credentials, by their names in a kubeconfig.
    """
    authority = {"certificate-authority-data": b64encode(ca).decode()} if ca else {}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "hookwright",
        "clusters": [{"name": "hookwright", "cluster": {"server": server, **authority}}],
        "users": [{"name": "hookwright", "user": dict(user)}],
        "contexts": [{"name": "hookwright", "context": {"cluster": "hookwright", "user": "hookwright"}}],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))


def certificate_user(certificate: bytes, key: bytes) -> dict[str, str]:
    """Return the credentials of a client certificate, PEM, for `write_kubeconfig`."""
    return {
        "client-certificate-data": b64encode(certificate).decode(),
        "client-key-data": b64encode(key).decode(),
    }


def _user(configuration: Configuration) -> dict[str, str]:
    token = configuration.get_api_key_with_prefix("BearerToken")
    if token:
        return {"token": token.removeprefix("Bearer ")}
    return certificate_user(Path(configuration.cert_file).read_bytes(), Path(configuration.key_file).read_bytes())
