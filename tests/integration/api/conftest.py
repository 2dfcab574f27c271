"""One operator and one API without limits for all tests of the API; an organization for each test, or for a module."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Protocol
from uuid import uuid4

import httpx
import pytest
from support.api_processes import Organization
from support.stack import Stack

from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster

JSON_LOG = {"HOOKWRIGHT_LOG_FORMAT": "json"}
PROXY = {"HOOKWRIGHT_TRUSTED_PROXIES": "127.0.0.0/8"}


@pytest.fixture(scope="module")
def control_plane(shared_cluster: Cluster) -> Cluster:
    """Return the cluster of the stack, which goes on."""
    return shared_cluster


@pytest.fixture(scope="module")
def operator(stack: Stack) -> OperatorProcess:
    """Return the operator of the API."""
    return stack.operator()


@pytest.fixture(scope="module")
def api(stack: Stack, operator: OperatorProcess) -> ApiProcess:
    """Return an API without limits."""
    return stack.api(operator)


@pytest.fixture(scope="module")
def client(api: ApiProcess) -> Iterator[httpx.Client]:
    """Yield a client of the API."""
    with httpx.Client(base_url=api.url, trust_env=False, timeout=30.0) as session:
        yield session


@pytest.fixture
def organizations(control_plane: Cluster, client: httpx.Client) -> Iterator["Organizations"]:
    """Yield a factory of organizations, which are deleted when the test ends."""
    made = Organizations(control_plane, client)
    yield made
    made.remove()


@pytest.fixture(scope="module")
def tenant(control_plane: Cluster, client: httpx.Client) -> Iterator[Organization]:
    """Yield an organization with the project billing, for all tests of a module that change nothing of it."""
    made = Organizations(control_plane, client)
    organization = made.new("tenant")
    organization.project()
    yield organization
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
        self._cluster.objects.create("Namespace", name)
        self._made.append(name)
        return Organization(self._cluster, client or self._client, name)

    def remove(self) -> None:
        """Delete all created namespaces."""
        self._cluster.objects.delete("Namespace", *self._made, wait=False)


@pytest.fixture(scope="module")
def start_api(
    control_plane: Cluster, operator: OperatorProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["StartApi"]:
    """Yield a function that starts further APIs with other settings; they run until the module ends."""
    with ExitStack() as stack:

        def start(settings: dict[str, str]) -> tuple[ApiProcess, httpx.Client]:
            folder = tmp_path_factory.mktemp("api")
            api = stack.enter_context(ApiProcess(control_plane, folder, operator.intake_url, settings))
            return api, stack.enter_context(httpx.Client(base_url=api.url, trust_env=False, timeout=30.0))

        yield start


class StartApi(Protocol):
    """The signature of the fixture start_api."""

    def __call__(self, settings: dict[str, str]) -> tuple[ApiProcess, httpx.Client]:
        """Start an API and return it with a client."""
