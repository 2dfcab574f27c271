"""Pure: the command lines of the control plane's components."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hookwright_dev.cluster.assets import Assets

HOST = "127.0.0.1"
SERVING_NAMES = ("localhost", HOST, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.96.0.1")

AuditLevel = Literal["Metadata", "Request", "RequestResponse"]
"""Detail of the API server's audit log."""

_CONTROLLERS = (
    "clusterrole-aggregation-controller",  # aggregates the roles admin, edit and view
    "garbage-collector-controller",
    "namespace-controller",
    "resourcequota-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
)
_WORKLOAD_CONTROLLERS = (
    "deployment-controller",
    "job-controller",
    "persistentvolumeclaim-protection-controller",  # without it, a namespace with a claim is never deleted
    "replicaset-controller",
)
"""Controllers of pods and claims; a test that runs them reports the status of the pods."""


@dataclass(frozen=True)
class Ports:
    """A TCP port on loopback for each listener."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controllers: int


@dataclass(frozen=True)
class Layout:
    """Files and ports of one control plane."""

    folder: Path
    ports: Ports

    @property
    def etcd_url(self) -> str:
        """The client URL of etcd."""
        return f"https://{HOST}:{self.ports.etcd}"

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://{HOST}:{self.ports.apiserver}"

    @property
    def controllers_url(self) -> str:
        """The URL of the controller manager's health and metrics."""
        return f"https://{HOST}:{self.ports.controllers}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    @property
    def audit_policy(self) -> Path:
        """The API server's audit policy, if auditing is on."""
        return self.folder / "audit-policy.yaml"

    @property
    def audit_log(self) -> Path:
        """The API server's audit log, one JSON object a line."""
        return self.folder / "audit.log"

    def pki(self, name: str) -> Path:
        """Return a certificate or key file."""
        return self.folder / "pki" / name

    def log(self, component: str) -> Path:
        """Return a component's log file."""
        return self.folder / f"{component}.log"


def etcd(assets: Assets, layout: Layout) -> list[str]:
    """Return etcd's command line; only holders of a certificate by this control plane's authority may connect."""
    peer_url = f"https://{HOST}:{layout.ports.etcd_peer}"
    serving, key, ca = layout.pki("serving.crt"), layout.pki("serving.key"), layout.pki("ca.crt")
    return [
        str(assets.etcd),
        f"--data-dir={layout.folder / 'etcd'}",
        "--unsafe-no-fsync",
        "--log-level=warn",
        f"--listen-client-urls={layout.etcd_url}",
        f"--advertise-client-urls={layout.etcd_url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=default={peer_url}",
        *(f"--{prefix}cert-file={serving}" for prefix in ("", "peer-")),
        *(f"--{prefix}key-file={key}" for prefix in ("", "peer-")),
        *(f"--{prefix}trusted-ca-file={ca}" for prefix in ("", "peer-")),
        *(f"--{prefix}client-cert-auth" for prefix in ("", "peer-")),
    ]


def kube_apiserver(assets: Assets, layout: Layout, *, is_audited: bool) -> list[str]:
    """Return the API server's command line, with the audit log if ``is_audited``."""
    audit = [f"--audit-policy-file={layout.audit_policy}", f"--audit-log-path={layout.audit_log}"]
    return [
        str(assets.kube_apiserver),
        f"--etcd-servers={layout.etcd_url}",
        f"--etcd-cafile={layout.pki('ca.crt')}",
        f"--etcd-certfile={layout.pki('admin.crt')}",
        f"--etcd-keyfile={layout.pki('admin.key')}",
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        f"--secure-port={layout.ports.apiserver}",
        "--endpoint-reconciler-type=none",  # Endpoints refuse loopback addresses
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/24",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={layout.pki('service-account.crt')}",
        f"--service-account-signing-key-file={layout.pki('service-account.key')}",
        f"--client-ca-file={layout.pki('ca.crt')}",
        f"--tls-cert-file={layout.pki('serving.crt')}",
        f"--tls-private-key-file={layout.pki('serving.key')}",
        f"--cert-dir={layout.folder / 'pki'}",
        *(audit if is_audited else []),
    ]


def kube_controller_manager(assets: Assets, layout: Layout, *, workloads: bool = False) -> list[str]:
    """Return the controller manager's command line, with only the controllers that these resources need."""
    controllers = (*_CONTROLLERS, *(_WORKLOAD_CONTROLLERS if workloads else ()))
    return [
        str(assets.kube_controller_manager),
        f"--kubeconfig={layout.kubeconfig}",
        f"--authentication-kubeconfig={layout.kubeconfig}",
        f"--authorization-kubeconfig={layout.kubeconfig}",
        "--authorization-always-allow-paths=/healthz",
        "--leader-elect=false",
        f"--controllers={','.join(controllers)}",
        f"--bind-address={HOST}",
        f"--secure-port={layout.ports.controllers}",
        f"--tls-cert-file={layout.pki('serving.crt')}",
        f"--tls-private-key-file={layout.pki('serving.key')}",
        f"--root-ca-file={layout.pki('ca.crt')}",
        f"--service-account-private-key-file={layout.pki('service-account.key')}",
    ]
