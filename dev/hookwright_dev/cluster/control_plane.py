"""A real Kubernetes control plane on loopback: etcd, kube-apiserver and kube-controller-manager, no nodes."""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import yaml

from hookwright_dev.cluster import components
from hookwright_dev.cluster.assets import Assets, acquire
from hookwright_dev.cluster.certificates import Authority, service_account_key
from hookwright_dev.cluster.components import AuditLevel, Layout, Ports
from hookwright_dev.cluster.kubectl import Cluster, certificate_user, write_kubeconfig
from hookwright_dev.folders import OwnFolder
from hookwright_dev.processes import ChildProcess, free_port
from hookwright_dev.progress import progress


class ControlPlane(Cluster):
    """A running control plane, ready for requests; a context manager that stops it.

    Any number of them can run at the same time. Its processes end with the process that started them. Its
    folder is removed at the latest by the next start.

    Attributes:
        assets: the binaries it was started from.
        audit_log: the API server's audit log, None without ``audit_level``.
        processes: the components, in the order in which they started.
    """

    def __init__(self, own_folder: OwnFolder, assets: Assets, ports: Ports) -> None:
        """Describe a control plane that is not running yet; use `start` instead."""
        self._own = own_folder
        self._layout = layout = Layout(own_folder.path, ports)
        super().__init__(
            own_folder.path,
            kubeconfig=layout.kubeconfig,
            server=layout.server,
            ca=layout.pki("ca.crt"),
            kubectl_path=assets.kubectl,
        )
        self.assets = assets
        self.etcd_url: str = layout.etcd_url
        self.logs = {name: layout.log(name) for name in ("etcd", "kube-apiserver", "kube-controller-manager")}
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

        Raises `ProcessError` with the end of the failing component's log, `FolderInUseError` and `AssetsError`.
        """
        assets = assets or acquire()
        own_folder = OwnFolder.at(folder) if folder else OwnFolder.temporary()
        try:
            with progress("starting the control plane"):
                plane = cls(own_folder, assets, free_ports())
                plane._bring_up(apiserver_flags, crds, audit_level, timeout, workloads=workloads)
        except BaseException:
            own_folder.remove()
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
        self._kill()
        self._own.remove()

    def etcd_content(self) -> bytes:
        """Return every key and value in etcd, for tests that search for values that must not be there."""
        key_range = {name: b64encode(b"\0").decode() for name in ("key", "range_end")}
        with self._client() as client:
            answer = client.post(f"{self.etcd_url}/v3/kv/range", json=key_range).raise_for_status().json()
        return b"\n".join(b64decode(pair[part]) for pair in answer["kvs"] for part in ("key", "value") if part in pair)

    def _bring_up(
        self,
        apiserver_flags: Sequence[str],
        crds: Path | None,
        audit_level: AuditLevel | None,
        timeout: float,
        *,
        workloads: bool,
    ) -> None:
        write_files(self._layout, datetime.now(UTC), audit_level)
        self.audit_log = self._layout.audit_log if audit_level else None
        apiserver_command = components.kube_apiserver(self.assets, self._layout, is_audited=audit_level is not None)
        try:
            with self._client() as client:
                etcd = self._run("etcd", components.etcd(self.assets, self._layout))
                apiserver = self._run("kube-apiserver", [*apiserver_command, *apiserver_flags])
                etcd.wait_ready(lambda: client.get(f"{self.etcd_url}/health").is_success, timeout)
                apiserver.wait_ready(lambda: client.get(f"{self.server}/readyz").is_success, timeout)
                if crds:
                    self.apply_crds(crds)
                command = components.kube_controller_manager(self.assets, self._layout, workloads=workloads)
                controllers = self._run("kube-controller-manager", command)
                health = f"{self._layout.controllers_url}/healthz"
                controllers.wait_ready(lambda: client.get(health).is_success, timeout)
        except BaseException:
            self._kill()
            raise

    def _run(self, name: str, argv: Sequence[str]) -> ChildProcess:
        process = ChildProcess.start(name, argv, log=self.logs[name], cwd=self.folder)
        self.processes.append(process)
        return process

    def _kill(self) -> None:
        for process in reversed(self.processes):
            process.kill()


def free_ports() -> Ports:
    """Pick four different ports on loopback that stay free for this control plane."""
    return Ports(*(free_port() for _ in range(4)))


def write_files(layout: Layout, now: datetime, audit_level: AuditLevel | None) -> None:
    """Write certificates, keys and the administrator's kubeconfig; also the audit policy if there is a level."""
    authority = Authority.create(now)
    admin = authority.issue("hookwright-admin", group="system:masters")
    layout.pki("").mkdir(mode=0o700)
    layout.pki("ca.crt").write_bytes(authority.pem)
    admin.write(layout.pki(""), "admin")
    authority.issue("hookwright-dev", hosts=components.SERVING_NAMES).write(layout.pki(""), "serving")
    service_account_key().write(layout.pki(""), "service-account")
    user = certificate_user(admin.public, admin.key)
    write_kubeconfig(layout.kubeconfig, server=layout.server, ca=authority.pem, user=user)
    if audit_level:
        layout.audit_policy.write_text(yaml.safe_dump(_audit_policy(audit_level)))


def _audit_policy(level: AuditLevel) -> dict[str, object]:
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": level}],
    }
