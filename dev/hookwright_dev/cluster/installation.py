"""The operator as a child process on a cluster, with exactly the rights of an installation."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, Self

import httpx
import yaml
from prometheus_client.parser import text_string_to_metric_families

from hookwright_crds.users import users_namespace
from hookwright_dev.cluster.kubectl import Cluster, write_kubeconfig
from hookwright_dev.processes import ChildProcess, free_port

_GOLDEN: Final = Path(__file__).resolve().parents[3] / "tests" / "chart" / "golden" / "default.yaml"
"""What the chart renders with its default values, so that no developer needs helm."""
MANIFESTS: Final = Path(__file__).parent / "manifests"
SYSTEM_NAMESPACE: Final = "hookwright-system"
USERS_NAMESPACE: Final = users_namespace(SYSTEM_NAMESPACE)
AUDIENCE: Final = "hookwright"
_HOST: Final = "127.0.0.1"
_READY_SECONDS: Final = 60.0


def deletion_policies() -> str:
    """Return the chart's policies that protect annotated objects against deletion, as YAML."""
    documents = yaml.safe_load_all(_GOLDEN.read_text())
    return yaml.safe_dump_all(
        policy for policy in documents if policy["metadata"]["name"].startswith("hookwright-delete-")
    )


def service_account_token(cluster: Cluster, account: str, *, namespace: str, audience: str | None = None) -> str:
    """Return a token of a ServiceAccount, valid for a day."""
    return cluster.objects.token(account, namespace, audience=audience)


def service_account_kubeconfig(
    cluster: Cluster, account: str, folder: Path, *, namespace: str = SYSTEM_NAMESPACE
) -> Path:
    """Write a kubeconfig with which a process acts as a ServiceAccount, by default one of the installation."""
    token = service_account_token(cluster, account, namespace=namespace)
    path = folder / f"{account}.kubeconfig"
    write_kubeconfig(path, server=cluster.server, ca=cluster.ca.read_bytes(), user={"token": token})
    return path


class _Process:
    """A process of an installation that can be started, stopped, and started again on the same ports."""

    name: ClassVar[str]
    folder: Path
    command: Sequence[str]
    health_port: int
    process: ChildProcess | None

    @property
    def health_url(self) -> str:
        """Base URL of /healthz, /readyz and /metrics."""
        return f"http://{self._host}:{self.health_port}"

    @property
    def log(self) -> Path:
        """The log file, appended to by every start."""
        return self.folder / f"{self.name}.log"

    @property
    def running(self) -> ChildProcess:
        """The process; it must have been started."""
        assert self.process is not None, f"the {self.name} was not started"
        return self.process

    @property
    def _host(self) -> str:
        return _HOST

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def environment(self) -> dict[str, str]:
        """Return the variables that the process is started with."""
        raise NotImplementedError

    def start(self, *, wait: bool = True) -> None:
        """Start the process, and return when it is ready."""
        self.folder.mkdir(parents=True, exist_ok=True)
        argv = [*self.command, sys.executable, "-m", f"hookwright_{self.name}"]
        self.process = ChildProcess.start(self.name, argv, log=self.log, env=self.environment())
        if wait:
            self.wait_ready()

    def wait_ready(self, seconds: float = _READY_SECONDS) -> None:
        """Wait at most so many seconds until the process is ready."""
        self.running.wait_ready(lambda: self.ready() == 200, seconds)

    def ready(self) -> int:
        """Return the status of /readyz, 0 if there is no answer."""
        try:
            return httpx.get(f"{self.health_url}/readyz", timeout=2.0, trust_env=False).status_code
        except httpx.TransportError:
            return 0

    def metrics(self) -> str:
        """Return the answer of /metrics."""
        return httpx.get(f"{self.health_url}/metrics", timeout=30.0, trust_env=False).text

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels; 0 if there are none."""
        samples = (sample for family in text_string_to_metric_families(self.metrics()) for sample in family.samples)
        return sum(one.value for one in samples if one.name == name and labels.items() <= one.labels.items())

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        return self.running.stop(grace=45.0)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.running.kill()


@dataclass(slots=True)
class OperatorProcess(_Process):
    """An operator, which has the same store at each start.

    Attributes:
        settings: HOOKWRIGHT_* variables in addition to those that a loopback installation needs.
        host: address that it listens on.
        command: prefix of its command line, such as ``ip netns exec <name>``.
        account: the ServiceAccount of the installation whose rights it has.
    """

    name = "operator"

    cluster: Cluster
    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    host: str = _HOST
    command: Sequence[str] = ()
    account: str = "hookwright-operator"
    intake_port: int = field(default_factory=free_port)
    health_port: int = field(default_factory=free_port)
    process: ChildProcess | None = None

    @property
    def _host(self) -> str:
        return self.host

    @property
    def intake_url(self) -> str:
        """Base URL of the intake."""
        return f"http://{self.host}:{self.intake_port}"

    def environment(self) -> dict[str, str]:
        """Return the variables that the process is started with."""
        return {
            "HOOKWRIGHT_DATABASE_URL": f"sqlite:///{self.folder / 'hookwright.db'}",
            "HOOKWRIGHT_ALLOWED_NETWORKS": "127.0.0.0/8,::1/128",
            "HOOKWRIGHT_ALLOW_HTTP": "true",
            "HOOKWRIGHT_INTAKE_HOST": self.host,
            "HOOKWRIGHT_HEALTH_HOST": self.host,
            "HOOKWRIGHT_LOG_FORMAT": "console",
            **_own_settings(),
            **self.settings,
            "KUBECONFIG": str(service_account_kubeconfig(self.cluster, self.account, self.folder)),
            "HOOKWRIGHT_INTAKE_PORT": str(self.intake_port),
            "HOOKWRIGHT_HEALTH_PORT": str(self.health_port),
        }


@dataclass(slots=True)
class ApiProcess(_Process):
    """An API.

    Attributes:
        settings: HOOKWRIGHT_* variables in addition to those that a loopback installation needs.
        command: prefix of its command line, such as ``prlimit --nofile=1024``.
    """

    name = "api"

    cluster: Cluster
    folder: Path
    operator_url: str
    settings: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] = ()
    port: int = field(default_factory=free_port)
    health_port: int = field(default_factory=free_port)
    process: ChildProcess | None = None

    @property
    def url(self) -> str:
        """Base URL of /v1."""
        return f"http://{_HOST}:{self.port}"

    def environment(self) -> dict[str, str]:
        """Return the variables that the process is started with."""
        token = self.folder / "operator-token"
        token.touch(mode=0o600)
        token.write_text(
            service_account_token(self.cluster, "hookwright-api", namespace=SYSTEM_NAMESPACE, audience=AUDIENCE)
        )
        return {
            "HOOKWRIGHT_API_HOST": _HOST,
            "HOOKWRIGHT_API_HEALTH_HOST": _HOST,
            "HOOKWRIGHT_ALLOW_HTTP": "true",
            "HOOKWRIGHT_LOG_FORMAT": "console",
            **_own_settings(),
            **self.settings,
            "KUBECONFIG": str(service_account_kubeconfig(self.cluster, "hookwright-api", self.folder)),
            "HOOKWRIGHT_API_PORT": str(self.port),
            "HOOKWRIGHT_API_HEALTH_PORT": str(self.health_port),
            "HOOKWRIGHT_OPERATOR_URL": self.operator_url,
            "HOOKWRIGHT_OPERATOR_TOKEN_FILE": str(token),
        }


def _own_settings() -> dict[str, str]:
    """Return the HOOKWRIGHT_* variables of this process's own environment, which its user has set."""
    return {name: value for name, value in os.environ.items() if name.startswith("HOOKWRIGHT_")}


def install(cluster: Cluster) -> None:
    """Apply the parts of an installation except the CRDs: namespaces, ServiceAccounts, RBAC."""
    for manifest in sorted(MANIFESTS.glob("*.yaml")):
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(manifest))
