"""A real Kubernetes control plane on loopback: etcd, kube-apiserver and kube-controller-manager, no nodes."""

import ssl
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

import httpx
import yaml

from hookwright_dev.cluster.assets import PARTS, Assets, acquire
from hookwright_dev.cluster.certificates import Authority, service_account_key
from hookwright_dev.cluster.kubectl import Cluster, certificate_user, write_kubeconfig
from hookwright_dev.folders import OwnFolder
from hookwright_dev.processes import ChildProcess, free_port
from hookwright_dev.progress import progress

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


class ControlPlane(Cluster):
    """A running control plane, ready for requests; a context manager that stops it.

    Any number of them can run at the same time. Its processes end with the process that started them. Its
    folder is removed at the latest by the next start.

    Attributes:
        assets: the binaries it was started from.
        audit_log: the API server's audit log, None without ``audit_level``.
        processes: the components, in the order in which they started.
    """

    def __init__(self, own_folder: OwnFolder, assets: Assets) -> None:
        """Describe a control plane that is not running yet; use `start` instead."""
        self._own = own_folder
        folder = own_folder.path
        self._pki = folder / "pki"
        self._etcd_port, self._etcd_peer_port, self._port, self._controllers_port = (free_port() for _ in range(4))
        super().__init__(
            folder,
            kubeconfig=folder / "kubeconfig",
            server=f"https://{HOST}:{self._port}",
            ca=self._pki / "ca.crt",
            kubectl_path=assets.kubectl,
        )
        self.assets = assets
        self.etcd_url: str = f"https://{HOST}:{self._etcd_port}"
        self.logs = {name: folder / f"{name}.log" for name in PARTS[:3]}
        self.audit_log: Path | None = None
        self.processes: list[ChildProcess] = []

    @classmethod
    def start(
        cls,
        folder: Path | None = None,
        *,
        assets: Assets | None = None,
        crds: Path | None = None,
        apiserver_flags: Sequence[str] = (),
        audit_level: AuditLevel | None = None,
        workloads: bool = False,
        timeout: float = 60.0,
    ) -> Self:
        """Start a control plane in ``folder`` (by default a temporary one) and return it when it is ready.

        The CustomResourceDefinitions in ``crds`` are applied before the controllers start, because the garbage
        collector looks for new kinds only every 30 s. ``apiserver_flags`` come last, so they override others.
        ``workloads`` adds the controllers of Deployments and Jobs. Each component gets ``timeout`` seconds.

        Raises `ProcessError` with the end of the failing component's log, `FolderInUseError` and `ToolError`.
        """
        assets = assets or acquire()
        plane = cls(OwnFolder.at(folder) if folder else OwnFolder.temporary(), assets)
        try:
            plane._write_files(audit_level)
            with progress("starting the control plane"), plane._client() as client:
                etcd = plane._run("etcd", plane._etcd_command())
                apiserver = plane._run("kube-apiserver", [*plane.apiserver_command(), *apiserver_flags])
                etcd.wait_ready(lambda: client.get(f"{plane.etcd_url}/health").is_success, timeout)
                apiserver.wait_ready(lambda: client.get(f"{plane.server}/readyz").is_success, timeout)
                if crds:
                    plane.apply_crds(crds)
                controllers = plane._run("kube-controller-manager", plane._controllers_command(workloads=workloads))
                health = f"https://{HOST}:{plane._controllers_port}/healthz"
                controllers.wait_ready(lambda: client.get(health).is_success, timeout)
        except BaseException:
            plane.stop()
            raise
        return plane

    def __enter__(self) -> Self:
        """Return the control plane; leaving the block stops it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the control plane."""
        self.stop()

    def stop(self) -> None:
        """End every process and delete the folder at once, without a graceful end."""
        self.close()
        for process in reversed(self.processes):
            process.kill()
        self._own.remove()

    def etcd_content(self) -> bytes:
        """Return every key and value in etcd, for tests that search for values that must not be there."""
        key_range = {name: b64encode(b"\0").decode() for name in ("key", "range_end")}
        with self._client() as client:
            answer = client.post(f"{self.etcd_url}/v3/kv/range", json=key_range).raise_for_status().json()
        return b"\n".join(b64decode(pair[part]) for pair in answer["kvs"] for part in ("key", "value") if part in pair)

    def _etcd_command(self) -> list[str]:
        """Return etcd's command line; only holders of a certificate by this control plane's authority may connect."""
        peer_url = f"https://{HOST}:{self._etcd_peer_port}"
        serving, key, ca = self._pki / "serving.crt", self._pki / "serving.key", self.ca
        return [
            str(self.assets.etcd),
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=default={peer_url}",
            *(f"--{prefix}cert-file={serving}" for prefix in ("", "peer-")),
            *(f"--{prefix}key-file={key}" for prefix in ("", "peer-")),
            *(f"--{prefix}trusted-ca-file={ca}" for prefix in ("", "peer-")),
            *(f"--{prefix}client-cert-auth" for prefix in ("", "peer-")),
        ]

    def apiserver_command(self) -> list[str]:
        """Return the API server's command line."""
        policy = self.folder / "audit-policy.yaml"
        audit = [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}"]
        return [
            str(self.assets.kube_apiserver),
            f"--etcd-servers={self.etcd_url}",
            f"--etcd-cafile={self.ca}",
            f"--etcd-certfile={self._pki / 'admin.crt'}",
            f"--etcd-keyfile={self._pki / 'admin.key'}",
            f"--bind-address={HOST}",
            f"--advertise-address={HOST}",
            f"--secure-port={self._port}",
            "--endpoint-reconciler-type=none",  # Endpoints refuse loopback addresses
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={self._pki / 'service-account.crt'}",
            f"--service-account-signing-key-file={self._pki / 'service-account.key'}",
            f"--client-ca-file={self.ca}",
            f"--tls-cert-file={self._pki / 'serving.crt'}",
            f"--tls-private-key-file={self._pki / 'serving.key'}",
            f"--cert-dir={self._pki}",
            *(audit if self.audit_log else []),
        ]

    def _controllers_command(self, *, workloads: bool) -> list[str]:
        """Return the controller manager's command line, with only the controllers that these resources need."""
        controllers = (*_CONTROLLERS, *(_WORKLOAD_CONTROLLERS if workloads else ()))
        return [
            str(self.assets.kube_controller_manager),
            f"--kubeconfig={self.kubeconfig}",
            f"--authentication-kubeconfig={self.kubeconfig}",
            f"--authorization-kubeconfig={self.kubeconfig}",
            "--authorization-always-allow-paths=/healthz",
            "--leader-elect=false",
            f"--controllers={','.join(controllers)}",
            f"--bind-address={HOST}",
            f"--secure-port={self._controllers_port}",
            f"--tls-cert-file={self._pki / 'serving.crt'}",
            f"--tls-private-key-file={self._pki / 'serving.key'}",
            f"--root-ca-file={self.ca}",
            f"--service-account-private-key-file={self._pki / 'service-account.key'}",
        ]

    def _write_files(self, audit_level: AuditLevel | None) -> None:
        """Write certificates, keys and the administrator's kubeconfig; also the audit policy if there is a level."""
        authority = Authority()
        admin = authority.issue("hookwright-admin", group="system:masters")
        self._pki.mkdir(mode=0o700)
        self.ca.write_bytes(authority.pem)
        admin.write(self._pki, "admin")
        authority.issue("hookwright-dev", hosts=SERVING_NAMES).write(self._pki, "serving")
        service_account_key().write(self._pki, "service-account")
        user = certificate_user(admin.public, admin.key)
        write_kubeconfig(self.kubeconfig, server=self.server, ca=authority.pem, user=user)
        if audit_level:
            self.audit_log = self.folder / "audit.log"
            policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"]}
            document = {**policy, "rules": [{"level": audit_level}]}
            (self.folder / "audit-policy.yaml").write_text(yaml.safe_dump(document))

    def _client(self) -> httpx.Client:
        context = ssl.create_default_context(cafile=self.ca)
        context.load_cert_chain(self._pki / "admin.crt", self._pki / "admin.key")
        return httpx.Client(verify=context, trust_env=False, timeout=30.0)

    def _run(self, name: str, argv: Sequence[str]) -> ChildProcess:
        process = ChildProcess.start(name, argv, log=self.logs[name], cwd=self.folder)
        self.processes.append(process)
        return process
