"""Control plane, operators and loader of one case; nothing remains from the case before."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

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
from hookwright_dev.polling import eventually

NAMESPACE: Final = "bench"
ROLES: Final = "HOOKWRIGHT_ROLES"
_AT_ONCE: Final = 16


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
        # The project of each endpoint, and the one type that leads only to it.
        places = [divmod(number, len(EVENT_TYPES)) for number in range(first, first + count)]
        names, types = [f"p-{project}" for project, _ in places], [EVENT_TYPES[kind] for _, kind in places]
        self._create(
            {
                f"e-{number}": (name, {"url": self.loader.url(number), "events": [kind], **spec})
                for number, name, kind in zip(range(first, first + count), names, types, strict=True)
            }
        )
        return [Target(self.intake(name), kind) for name, kind in zip(names, types, strict=True)]

    def fan(self, count: int, *, project: str = "fan", **spec: Any) -> list[Target]:
        """Create endpoints that all subscribe to the same events; return the targets of these events."""
        self._create(
            {
                f"{project}-{number}": (project, {"url": self.loader.url(number), "events": ["delivered"], **spec})
                for number in range(count)
            }
        )
        return [Target(self.intake(project))]

    def _create(self, endpoints: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
        """Create endpoints by name, each with its project and spec, and return when all are Ready."""
        objects = self.plane.objects
        for project in {project for project, _ in endpoints.values()}:
            metadata = {"name": project, "namespace": NAMESPACE}
            objects.apply({"kind": "Project", "metadata": metadata, "spec": {"displayName": project}})

        def create(name: str) -> None:
            project, spec = endpoints[name]
            objects.create("WebhookEndpoint", name, NAMESPACE, spec={"projectRef": {"name": project}, **spec})

        def are_ready() -> bool:
            return endpoints.keys() <= {
                item["metadata"]["name"]
                for item in objects.list("WebhookEndpoint", NAMESPACE)
                for condition in item.get("status", {}).get("conditions", ())
                if condition["type"] == "Ready" and condition["status"] == "True"
            }

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(create, endpoints))
        seconds = 60 + len(endpoints) * 0.05
        eventually(are_ready, f"{len(endpoints)} Ready endpoints", within=seconds, every=0.5)


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
    ):
        install(plane)
        plane.kubectl("create", "namespace", NAMESPACE)
        token = service_account_token(plane, "hookwright-producer", namespace=SYSTEM_NAMESPACE, audience=AUDIENCE)
        site = Site(plane, Path(name), [], loader, token, database)
        try:
            site.run(settings or {})
            yield site
        finally:
            for operator in site.operators:
                if operator.process is not None:
                    operator.stop()
