"""Control plane, operators and loader of one case; nothing remains from the case before."""

import ssl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from hookwright_crds.events import EVENT_TYPES
from hookwright_dev.bench.loader import Loader, Target
from hookwright_dev.bench.usage import Meter, resident
from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.installation import (
    AUDIENCE,
    SYSTEM_NAMESPACE,
    OperatorProcess,
    install,
    service_account_token,
)
from hookwright_dev.cluster.postgres import PostgresServer
from hookwright_dev.cluster.stack import CRDS
from hookwright_dev.errors import BenchError
from hookwright_dev.polling import eventually

NAMESPACE: Final = "bench"
ROLES: Final = "HOOKWRIGHT_ROLES"
_API_VERSION: Final = "hookwright.dev/v1alpha1"
_AT_ONCE: Final = 16
_RESOURCES: Final = {"Project": "projects", "WebhookEndpoint": "webhookendpoints"}


@dataclass(slots=True)
class Site:
    """Processes of one case.

    Attributes:
        folder: where the operators keep their files.
        operators: the running ones.
        token: may send events for every project.
        database: the PostgreSQL server that the replicas share; None with SQLite.
    """

    plane: ControlPlane
    folder: Path
    operators: list[OperatorProcess]
    loader: Loader
    token: str
    client: httpx.Client = field(repr=False)
    database: PostgresServer | None = None

    @property
    def operator(self) -> OperatorProcess:
        """The first of the running operators."""
        return self.operators[0]

    def meter(self) -> Meter:
        """Start to measure the usage of every process of the site; operators count together."""
        pids = {process.name: [process.pid] for process in self.plane.processes}
        pids["operator"] = [operator.running.pid for operator in self.operators]
        pids["loader"] = [self.loader.process.pid]
        if self.database is not None and self.database.process is not None:
            pids["database"] = [self.database.process.pid]
        return Meter(pids)

    def resident(self) -> float:
        """Return the resident memory in MiB of the first operator."""
        return resident(self.operator.running.pid)

    def run(self, *replicas: Mapping[str, str]) -> None:
        """Stop the running operators, start others, and return when they are ready.

        Args:
            replicas: HOOKWRIGHT_* variables of each; the first has the role `intake`.
        """
        for operator in self.operators:
            operator.stop()
        self.operators[:] = [
            OperatorProcess(self.plane, self.folder / f"operator-{number}", settings)
            for number, settings in enumerate(replicas)
        ]
        for operator in self.operators:
            operator.start()

    def intake(self, project: str) -> str:
        """Return the URL at which the first operator accepts a project's events."""
        return f"{self.operator.intake_url}/v1alpha1/namespaces/{NAMESPACE}/projects/{project}/events"

    def everywhere(self, targets: Sequence[Target]) -> list[Target]:
        """Return the same targets at each running operator with an intake, in turn."""
        return [
            replace(target, url=operator.intake_url + urlsplit(target.url).path)
            for target in targets
            for operator in self.operators
            if "intake" in operator.settings.get(ROLES, "intake")
        ]

    def endpoints(self, count: int, *, first: int = 0, **spec: Any) -> list[Target]:
        """Create endpoints, and return a target for each when all are Ready.

        Args:
            count: how many; each is the only one of its project that subscribes to its type of event.
            first: the first one's number.
            spec: fields of each endpoint's spec.
        """
        places = {number: place(number) for number in range(first, first + count)}
        self.create_projects(*dict.fromkeys(name for name, _ in places.values()))
        self.create_endpoints(
            [
                _endpoint(f"e-{number}", name, url=self.loader.url(number), events=[kind], **spec)
                for number, (name, kind) in places.items()
            ]
        )
        return [Target(self.intake(name), kind) for name, kind in places.values()]

    def fan(self, count: int, *, project: str = "fan", **spec: Any) -> list[Target]:
        """Create endpoints that all subscribe to the same events; return the targets of these events."""
        self.create_projects(project)
        self.create_endpoints(
            [
                _endpoint(f"{project}-{number}", project, url=self.loader.url(number), events=["delivered"], **spec)
                for number in range(count)
            ]
        )
        return [Target(self.intake(project))]

    def create_projects(self, *names: str) -> None:
        """Create projects; an existing one is no error."""
        for name in names:
            self._create(_object("Project", name, {"displayName": name}))

    def create_endpoints(self, resources: Sequence[Mapping[str, Any]]) -> None:
        """Create endpoints, some at a time, and return when all are Ready."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._create, resources))
        names = {str(resource["metadata"]["name"]) for resource in resources}
        seconds = 60 + len(names) * 0.05
        eventually(lambda: names <= self._ready_endpoints(), f"{len(names)} Ready endpoints", within=seconds, every=0.5)

    def _ready_endpoints(self) -> set[str]:
        items = self.client.get(_path("WebhookEndpoint")).raise_for_status().json()["items"]
        return {
            item["metadata"]["name"]
            for item in items
            for condition in item.get("status", {}).get("conditions", ())
            if condition["type"] == "Ready" and condition["status"] == "True"
        }

    def _create(self, resource: Mapping[str, Any]) -> None:
        answer = self.client.post(_path(resource["kind"]), json=resource)
        there_already = answer.status_code == 409 and resource["kind"] == "Project"
        if not answer.is_success and not there_already:
            raise BenchError(f"{resource['kind']} {resource['metadata']['name']}: {answer.text}")


def place(number: int) -> tuple[str, str]:
    """Pure: return the project of endpoint ``number`` and the one event type that leads only to it."""
    return f"p-{number // len(EVENT_TYPES)}", EVENT_TYPES[number % len(EVENT_TYPES)]


def _endpoint(name: str, project: str, **spec: Any) -> dict[str, Any]:
    return _object("WebhookEndpoint", name, {"projectRef": {"name": project}, **spec})


def _object(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": _API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": dict(spec),
    }


def _path(kind: str) -> str:
    return f"/apis/{_API_VERSION}/namespaces/{NAMESPACE}/{_RESOURCES[kind]}"


@contextmanager
def running(settings: Mapping[str, str] | None = None, database: PostgresServer | None = None) -> Iterator[Site]:
    """Run a site with one operator for a block.

    Args:
        settings: HOOKWRIGHT_* variables of the operator, in addition to those that a loopback installation needs.
        database: a running server; SQLite without one.
    """
    with (
        tempfile.TemporaryDirectory(prefix="hookwright-bench-") as name,
        ControlPlane.start(crds=CRDS) as plane,
        Loader.start(Path(name)) as loader,
        _administrator(plane) as client,
    ):
        install(plane)
        plane.kubectl("create", "namespace", NAMESPACE)
        token = service_account_token(plane, "hookwright-producer", namespace=SYSTEM_NAMESPACE, audience=AUDIENCE)
        site = Site(plane, Path(name), [], loader, token, client, database)
        try:
            site.run(settings or {})
            yield site
        finally:
            for operator in site.operators:
                if operator.process is not None:
                    operator.stop()


def _administrator(plane: ControlPlane) -> httpx.Client:
    context = ssl.create_default_context(cafile=plane.ca)
    pki = plane.folder / "pki"
    context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    limits = httpx.Limits(max_connections=2 * _AT_ONCE)
    return httpx.Client(base_url=plane.server, verify=context, trust_env=False, timeout=30.0, limits=limits)
