"""Control plane, operators and loader of one case; nothing remains from the case before."""

import json
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from hookwright_dev.bench import objects
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

NAMESPACE: Final = "bench"
ROLES: Final = "HOOKWRIGHT_ROLES"
_AT_ONCE: Final = 16
_RESOURCES: Final = {"Project": "projects", "WebhookEndpoint": "webhookendpoints"}
_EVERY_ENDPOINT: Final = f"/apis/{objects.API_VERSION}/webhookendpoints"


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

    def endpoints(self, count: int, *, first: int = 0, **spec: Any) -> tuple[list[Target], float]:
        """Create endpoints, each subscribed to its own type of event, and return when all are Ready.

        Args:
            count: how many.
            first: the first one's number.
            spec: fields of each endpoint's spec.

        Returns:
            A target for each endpoint, and the seconds from the first request to the last Ready.
        """
        numbers = range(first, first + count)
        places = {number: objects.place(number) for number in numbers}
        self.create([objects.project(NAMESPACE, name) for name in dict.fromkeys(name for name, _ in places.values())])
        resources = [
            objects.endpoint(NAMESPACE, f"e-{number}", project=name, url=self.loader.url(number), events=[kind], **spec)
            for number, (name, kind) in places.items()
        ]
        seconds = self.create_ready(resources)
        return [Target(self.intake(name), kind) for name, kind in places.values()], seconds

    def fan(self, count: int, **spec: Any) -> list[Target]:
        """Create endpoints that all subscribe to the same events; return the targets of these events."""
        self.create([objects.project(NAMESPACE, "fan")])
        self.create_ready(
            [
                objects.endpoint(
                    NAMESPACE, f"f-{number}", project="fan", url=self.loader.url(number), events=["delivered"], **spec
                )
                for number in range(count)
            ]
        )
        return [Target(self.intake("fan"))]

    def create(self, resources: Sequence[Mapping[str, Any]]) -> None:
        """Create objects, some at a time; an existing Project is no error."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._create, resources))

    def create_ready(self, resources: Sequence[Mapping[str, Any]]) -> float:
        """Create endpoints and return the seconds until the last is Ready."""
        names = {str(resource["metadata"]["name"]) for resource in resources}
        watch = _ReadyWatch(self.client, names)
        began = time.monotonic()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._create, resources))
        watch.wait(60 + len(names) * 0.05)
        return time.monotonic() - began

    def _create(self, resource: Mapping[str, Any]) -> None:
        path = _path(resource["kind"], resource["metadata"]["namespace"])
        answer = self.client.post(path, json=resource)
        there_already = answer.status_code == 409 and resource["kind"] == "Project"
        if not answer.is_success and not there_already:
            raise BenchError(f"{resource['kind']} {resource['metadata']['name']}: {answer.text}")


def _path(kind: str, namespace: str = NAMESPACE) -> str:
    return f"/apis/{objects.API_VERSION}/namespaces/{namespace}/{_RESOURCES[kind]}"


class _ReadyWatch:
    """Watch of endpoints from now on until all of some names are Ready."""

    def __init__(self, client: httpx.Client, names: set[str]) -> None:
        self._client, self._missing = client, set(names)
        self._given_up = False
        self._fault = ""
        self._version = self._list(limit=1)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait until all are Ready.

        Raises:
            BenchError: some are not, after so many seconds.
        """
        self._thread.join(seconds)
        self._given_up = True
        if self._missing:
            raise BenchError(f"{len(self._missing)} endpoints were not Ready after {seconds:g} s{self._fault}")

    def _list(self, limit: int) -> str:
        """Record the existing endpoints, all if ``limit`` is 0; return the version to watch from."""
        answer = self._client.get(_EVERY_ENDPOINT, params={"limit": limit}).raise_for_status().json()
        for resource in answer["items"]:
            self._see(resource)
        return str(answer["metadata"]["resourceVersion"])

    def _follow(self) -> None:
        while self._missing and not self._given_up:
            try:
                self._watch()
                # The API server disconnects a watcher that is too slow, which here only shows that the server is busy.
                self._version = self._list(limit=0)
            except httpx.HTTPError as fault:
                self._fault = f"; the watch failed: {fault}"
                return

    def _watch(self) -> None:
        query = {"watch": "true", "resourceVersion": self._version}
        with (
            suppress(httpx.RemoteProtocolError),
            self._client.stream("GET", _EVERY_ENDPOINT, params=query, timeout=None) as answer,
        ):
            for line in answer.iter_lines():
                # Most lines are of steps before readiness; they need no parsing.
                if '"Ready"' in line:
                    self._see(json.loads(line)["object"])
                if not self._missing:
                    return

    def _see(self, resource: Mapping[str, Any]) -> None:
        conditions = resource.get("status", {}).get("conditions", ())
        if any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions):
            self._missing.discard(resource["metadata"]["name"])


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
