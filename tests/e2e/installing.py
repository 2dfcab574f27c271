"""A release of the chart, installed with helm into its own namespace."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml
from support.polling import eventually

from hookwright_crds.users import users_namespace
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.cluster.stack import ROOT

T = TypeVar("T")
Values = Mapping[str, Any]

CHART: Final = ROOT / "charts" / "hookwright"
NAMESPACE: Final = "hookwright-system"
USERS_NAMESPACE: Final = users_namespace(NAMESPACE)
RELEASE: Final = "hookwright"
CRDS: Final = tuple(f"{plural}.hookwright.dev" for plural in ("projects", "apikeys", "webhookendpoints"))
RESTRICTED: Final = tuple(f"pod-security.kubernetes.io/{mode}=restricted" for mode in ("enforce", "warn"))
PRIVATE: Final = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
"""Networks in which receivers in a cluster may be."""
READY_SECONDS: Final = 60.0


@dataclass
class Installation:
    """Hookwright in the cluster.

    Attributes:
        helm: the executable.
        image: the image of the pods.
        organizations: namespaces that belong to the tests, deleted with the installation.
        plain: whether the present chart is installed with `values` only.
    """

    cluster: Cluster
    helm: Path
    image: str
    organizations: list[str] = field(default_factory=list)
    plain: bool = False

    # ---- helm

    def run_helm(self, *arguments: str, values: Values | None = None) -> subprocess.CompletedProcess[str]:
        """Run helm in the release's namespace, with values as with ``-f``; it must not fail."""
        given = ("--values", "-") if values is not None else ()
        result = subprocess.run(
            [self.helm, *arguments, "--namespace", NAMESPACE, *given],
            input=yaml.safe_dump(dict(values or {})),
            env={**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert result.returncode == 0, f"helm {' '.join(arguments[:2])}:\n{result.stdout}{result.stderr}"
        return result

    def values(self, **more: Any) -> dict[str, Any]:
        """Return the values of an installation whose receivers are in the cluster; ``more`` are additional values."""
        settings = {"allowHttp": True, "allowedNetworks": list(PRIVATE), "statusInterval": 1}
        return {"image": image_values(self.image), **more, "settings": {**settings, **more.get("settings", {})}}

    def install(self, *, chart: Path = CHART, **values: Any) -> subprocess.CompletedProcess[str]:
        """Install the chart into a namespace of the restricted Pod Security level, and return when all is Ready."""
        if NAMESPACE not in self.names("namespaces"):
            self.kubectl("create", "namespace", NAMESPACE)
            self.kubectl("label", "namespace", NAMESPACE, *RESTRICTED)
        return self.run_helm("install", RELEASE, str(chart), "--wait", "--timeout=2m", values=self.values(**values))

    def upgrade(self, *, chart: Path = CHART, **values: Any) -> subprocess.CompletedProcess[str]:
        """Upgrade the release as docs/upgrade.md describes, and return when all is Ready."""
        reused = ("--wait", "--timeout=2m", "--reset-then-reuse-values")
        return self.run_helm("upgrade", RELEASE, str(chart), *reused, values=values)

    def uninstall(self) -> subprocess.CompletedProcess[str]:
        """Uninstall the release, and return when its pods are gone."""
        return self.run_helm("uninstall", RELEASE, "--wait", "--timeout=2m")

    def remove(self) -> None:
        """Remove everything from the cluster."""
        self.plain = False
        if RELEASE in self.run_helm("list", "--short").stdout.split():
            self.uninstall()
            # Kubernetes checks a namespace with pods again only after half of their grace period.
            eventually(lambda: not self.names("pods", "-n", NAMESPACE), "the pods have gone")
        namespaces = [*self.organizations, NAMESPACE, USERS_NAMESPACE]
        self.kubectl("delete", "namespace", *namespaces, "--ignore-not-found", "--timeout=90s", timeout=120)
        self.kubectl("delete", "crd", *CRDS, "--ignore-not-found", "--timeout=60s", timeout=90)
        self.organizations.clear()

    # ---- running pods

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 60.0) -> str:
        """Run kubectl as the administrator, and return its output."""
        return self.cluster.kubectl(*arguments, stdin=stdin, timeout=timeout).stdout

    def names(self, kind: str, *options: str) -> list[str]:
        """Return the names of objects of a kind."""
        return self.kubectl("get", kind, "-o", "jsonpath={.items[*].metadata.name}", *options).split()

    def objects(self, kind: str, *options: str) -> list[dict[str, Any]]:
        """Return the objects of a kind, those of the release's namespace unless options say otherwise."""
        return list(json.loads(self.kubectl("get", kind, "-n", NAMESPACE, "-o", "json", *options))["items"])

    def pods(self, component: str) -> list[dict[str, Any]]:
        """Return the pods of a component that are not terminating."""
        label = self.objects("pods", "-l", f"app.kubernetes.io/component={component}")
        return [pod for pod in label if "deletionTimestamp" not in pod["metadata"]]

    def pod(self, component: str) -> str:
        """Return the name of a component's only pod."""
        (name,) = self.pods(component)
        return str(name["metadata"]["name"])

    def wait_ready(self, within: float = READY_SECONDS) -> None:
        """Wait until every pod of both Deployments is up to date and Ready."""
        for deployment in self.names("deployments", "-n", NAMESPACE):
            status = ("rollout", "status", f"deployment/{deployment}", "-n", NAMESPACE, f"--timeout={within:g}s")
            self.kubectl(*status, timeout=within + 10)

    def evict(self, pod: str) -> subprocess.CompletedProcess[str]:
        """Request a pod's eviction, as `kubectl drain` does, and return the API server's answer."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": NAMESPACE},
        }
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction"
        return self.cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction), check=False)


def image_values(image: str) -> dict[str, str]:
    """Return the chart's values for an image ``repository:tag`` or ``repository@sha256:…``."""
    repository, separator, tag = image.partition("@")
    if not separator and ":" in image.rpartition("/")[2]:
        repository, _, tag = image.rpartition(":")
    return {"repository": repository, **({"tag": tag} if tag else {})}
