"""One operator, one API and one receiver for all tests of the command line; an organization for each way."""

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support.api_processes import LIFTED, Organization, password_changes_allowed, running
from support.api_receiver import Received, receiving
from support.command_transcripts import Transcript

from hookwright_dev.cluster.installation import (
    AUDIENCE,
    SYSTEM_NAMESPACE,
    ApiProcess,
    OperatorProcess,
    install,
    service_account_token,
)
from hookwright_dev.cluster.kubectl import Cluster

SETTINGS = LIFTED | {"HOOKWRIGHT_PASSWORD_CHANGE": "true"}


@pytest.fixture(scope="module")
def operator(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """Yield an operator that retries once, at once."""
    install(control_plane)
    settings = {"HOOKWRIGHT_STATUS_INTERVAL": "1", "HOOKWRIGHT_RETRY_SCHEDULE": "100ms"}
    with running(OperatorProcess(control_plane, tmp_path_factory.mktemp("operator"), settings)) as it:
        yield it


@pytest.fixture(scope="module")
def api(
    control_plane: Cluster, operator: OperatorProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiProcess]:
    """Yield an API without limits, which allows users to change their passwords."""
    process = ApiProcess(control_plane, tmp_path_factory.mktemp("api"), operator.intake_url, SETTINGS)
    with password_changes_allowed(control_plane), running(process) as it:
        yield it


@pytest.fixture
def receiver() -> Iterator[Received]:
    """Yield a receiver that answers 200."""
    with receiving() as received:
        yield received


@pytest.fixture
def acme(control_plane: Cluster, api: ApiProcess, namespace: str) -> Iterator[Organization]:
    """Yield an organization with the project billing and a user."""
    with httpx.Client(base_url=api.url, trust_env=False, timeout=30.0) as client:
        organization = Organization(control_plane, client, namespace)
        organization.project()
        yield organization


@pytest.fixture
def by_api(acme: Organization, api: ApiProcess, tmp_path: Path) -> Transcript:
    """Return a transcript of commands that have no kubeconfig."""
    environment = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": None,
        "HOOKWRIGHT_KEYRING": "off",
        "KUBECONFIG": str(tmp_path / "none"),
    }
    words = {api.url: "http://API", acme.email: "ada@acme.example", acme.name: "acme", str(tmp_path): "HOME"}
    return Transcript(environment, words)


@pytest.fixture
def by_kubeconfig(control_plane: Cluster, operator: OperatorProcess, acme: Organization, tmp_path: Path) -> Transcript:
    """Return a transcript of commands with a kubeconfig, and with the address of the intake."""
    token = service_account_token(control_plane, "hookwright-producer", namespace=SYSTEM_NAMESPACE, audience=AUDIENCE)
    environment = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": None,
        "HOOKWRIGHT_KEYRING": "off",
        "HOOKWRIGHT_NAMESPACE": acme.name,
        "KUBECONFIG": str(control_plane.kubeconfig),
        "HOOKWRIGHT_INTAKE_URL": operator.intake_url,
        "HOOKWRIGHT_INTAKE_TOKEN": token,
    }
    return Transcript(environment, {operator.intake_url: "http://INTAKE", acme.name: "acme", str(tmp_path): "HOME"})


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Let programs of the tests react to SIGINT, which a shell makes background programs ignore."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)
