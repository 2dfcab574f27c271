"""One operator, one API and one receiver for all tests of the command line; an organization for each way."""

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from support.api_processes import Organization, password_changes_allowed
from support.command_transcripts import Transcript
from support.stack import PASSWORD_CHANGE, QUICK_RETRY, Stack

from hookwright_dev.cluster.installation import (
    AUDIENCE,
    SYSTEM_NAMESPACE,
    ApiProcess,
    OperatorProcess,
    service_account_token,
)
from hookwright_dev.cluster.kubectl import Cluster


@pytest.fixture(scope="module")
def control_plane(shared_cluster: Cluster) -> Cluster:
    """Return the cluster of the stack, which goes on."""
    return shared_cluster


@pytest.fixture(scope="module")
def operator(stack: Stack) -> OperatorProcess:
    """Return an operator that retries once, at once."""
    return stack.operator(QUICK_RETRY)


@pytest.fixture(scope="module")
def api(stack: Stack, operator: OperatorProcess) -> Iterator[ApiProcess]:
    """Yield an API without limits, which allows users to change their passwords."""
    with password_changes_allowed(stack.cluster):
        yield stack.api(operator, PASSWORD_CHANGE)


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
    kubeconfig, content = tmp_path / "acme.kubeconfig", yaml.safe_load(control_plane.kubeconfig.read_text())
    content["contexts"][0]["context"]["namespace"] = acme.name
    kubeconfig.write_text(yaml.safe_dump(content))
    environment = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": None,
        "HOOKWRIGHT_KEYRING": "off",
        "KUBECONFIG": str(kubeconfig),
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
