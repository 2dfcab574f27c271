"""One operator and one API without limits for all tests of the API; one organization per test."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import httpx
import pytest
from support.api_processes import LIFTED, Organization, running
from support.api_receiver import Received, receiving

from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess, install
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.processes import tail

JSON_LOG = {"HOOKWRIGHT_LOG_FORMAT": "json"}
PROXY = {"HOOKWRIGHT_TRUSTED_PROXIES": "127.0.0.0/8"}


@pytest.fixture(scope="module")
def operator(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """Yield the operator of the API."""
    install(control_plane)
    settings = {"HOOKWRIGHT_STATUS_INTERVAL": "1", **JSON_LOG}
    with running(OperatorProcess(control_plane, tmp_path_factory.mktemp("operator"), settings)) as it:
        yield it


@pytest.fixture(scope="module")
def api(
    control_plane: Cluster, operator: OperatorProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiProcess]:
    """Yield an API without limits."""
    settings = LIFTED | PROXY | JSON_LOG
    with running(ApiProcess(control_plane, tmp_path_factory.mktemp("api"), operator.intake_url, settings)) as it:
        yield it


@pytest.fixture(scope="module")
def client(api: ApiProcess) -> Iterator[httpx.Client]:
    """Yield a client of the API."""
    with httpx.Client(base_url=api.url, trust_env=False, timeout=30.0) as made:
        yield made


@pytest.fixture
def organizations(control_plane: Cluster, client: httpx.Client) -> Iterator["Organizations"]:
    """Yield a factory of organizations, which are deleted when the test ends."""
    made = Organizations(control_plane, client)
    yield made
    made.remove()


@pytest.fixture
def acme(organizations: "Organizations") -> Organization:
    """Return an organization with one project, billing."""
    organization = organizations.new("acme")
    organization.project()
    return organization


class Organizations:
    """A factory of namespaces, which also deletes them."""

    def __init__(self, cluster: Cluster, client: httpx.Client) -> None:
        self._cluster = cluster
        self._client = client
        self._made: list[str] = []

    def new(self, prefix: str, client: httpx.Client | None = None) -> Organization:
        """Create an organization, seen through a client."""
        name = f"{prefix}-{uuid4().hex[:8]}"
        self._cluster.kubectl("create", "namespace", name)
        self._made.append(name)
        return Organization(self._cluster, client or self._client, name)

    def remove(self) -> None:
        """Delete all created namespaces."""
        if self._made:
            self._cluster.kubectl("delete", "namespace", *self._made, "--wait=false")


@pytest.fixture
def start_api(
    control_plane: Cluster, operator: OperatorProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["StartApi"]:
    """Yield a function that starts further APIs with other settings inside one test."""
    with ExitStack() as stack:

        def start(settings: dict[str, str], **options: str) -> tuple[ApiProcess, httpx.Client]:
            folder = tmp_path_factory.mktemp("api")
            url = options.get("operator_url", operator.intake_url)
            api = stack.enter_context(running(ApiProcess(control_plane, folder, url, settings)))
            return api, stack.enter_context(httpx.Client(base_url=api.url, trust_env=False, timeout=30.0))

        yield start


class StartApi(Protocol):
    """The signature of the fixture start_api."""

    def __call__(self, settings: dict[str, str], **options: str) -> tuple[ApiProcess, httpx.Client]:
        """Start an API and return it with a client."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Add the logs of operator and API to the report of a failed test."""
    report = yield
    arguments: dict[str, object] = getattr(item, "funcargs", {})
    if report.failed:  # type: ignore[attr-defined]
        logs: dict[str, Path] = {
            name: process.log
            for name, process in arguments.items()
            if isinstance(process, ApiProcess | OperatorProcess)
        }
        report.sections += [(f"end of {name}'s log", tail(log)) for name, log in logs.items()]  # type: ignore[attr-defined]
    return report


@pytest.fixture
def receiver() -> Iterator[Received]:
    """Yield a receiver of deliveries that answers 200."""
    with receiving() as received:
        yield received
