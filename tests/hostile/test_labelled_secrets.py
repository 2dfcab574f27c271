"""A tenant that fills its own objects costs the operator and the API little memory, independent of their content."""

import base64
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.cluster_actions import Organization, endpoint
from support.stack import installed_plane

from hookwright_dev.cluster.assets import Assets
from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.installation import (
    ApiProcess,
    OperatorProcess,
    service_account_token,
)
from hookwright_dev.processes import ChildProcess

OURS = {"app.kubernetes.io/managed-by": "hookwright"}
SECRETS, SECRET_BYTES = 90, 1_000_000
FEW = 3
"""The API server itself takes a second for a Secret with thousands of fields."""
PROJECTS, ANNOTATION_BYTES = 60, 200_000
GROWTH_MIB = 40
"""Most MiB by which a peak may grow. Without bounds the operator kept 0.7 of each MB and needed twice that."""


@pytest.fixture(scope="module")
def plane(assets: Assets) -> Iterator[ControlPlane]:
    """Yield a separate control plane, because the tests write 100 MB into it."""
    with installed_plane(assets) as control_plane:
        control_plane.objects.create("Namespace", "acme")
        yield control_plane


def peak(process: ChildProcess) -> float:
    """Return the most MiB of memory that a process has had at once since it began, or since `forget_peak`."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def forget_peak(process: ChildProcess) -> None:
    """Reset the peak (proc(5), clear_refs)."""
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")


@pytest.fixture
def tenant(plane: ControlPlane) -> Iterator[httpx.Client]:
    """Yield a client of the API server that may write everything in one namespace."""
    subject = {"kind": "ServiceAccount", "name": "tenant", "namespace": "acme"}
    rule = {"apiGroups": ["", "hookwright.dev"], "resources": ["secrets", "projects"], "verbs": ["create"]}
    plane.objects.create("ServiceAccount", "tenant", "acme")
    plane.objects.create("ClusterRole", "tenant", rules=[rule])
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tenant"}
    plane.objects.create("RoleBinding", "tenant", "acme", roleRef=role, subjects=[subject])
    token = service_account_token(plane, "tenant", namespace="acme")
    context = ssl.create_default_context(cafile=str(plane.ca))
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=plane.server, verify=context, headers=headers, trust_env=False, timeout=60) as client:
        yield client


def create(tenant: httpx.Client, path: str, objects: list[dict[str, Any]]) -> None:
    """Create objects one after the other."""
    for one in objects:
        answer = tenant.post(path, json=one)
        assert answer.status_code == 201, answer.text[:500]


def hostile_secrets() -> list[dict[str, Any]]:
    """Return Secrets with our label and 1 MB in a known field or in an unknown one; a few have thousands of fields."""
    big = base64.b64encode(b"x" * SECRET_BYTES).decode()
    small = {f"k{number}": "eHh4" for number in range(5000)}
    forms: list[dict[str, str]] = [{"secret": big}, {"other": big}, small]
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"hostile-{number:03}", "labels": OURS},
            "data": forms[2 if number < FEW else number % 2],
        }
        for number in range(SECRETS)
    ]


def hostile_projects() -> list[dict[str, Any]]:
    """Return Projects with large annotations, ours and others."""
    return [
        {
            "apiVersion": "hookwright.dev/v1alpha1",
            "kind": "Project",
            "metadata": {
                "name": f"hostile-{number:03}",
                "annotations": {f"{('hookwright.dev', 'example.com')[number % 2]}/note": "x" * ANNOTATION_BYTES},
            },
            "spec": {},
        }
        for number in range(PROJECTS)
    ]


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_large_objects_of_a_tenant_do_not_fill_the_processes(
    plane: ControlPlane, tenant: httpx.Client, tmp_path: Path
) -> None:
    """Neither when a watch shows them, nor when a restarted process lists them; the tenants are served meanwhile."""
    operator = OperatorProcess(plane, tmp_path / "operator")
    operator.start()
    started_with = peak(operator.running)
    with ApiProcess(plane, tmp_path / "api", operator.intake_url, {}) as api:
        api_started_with = peak(api.running)
        forget_peak(operator.running)
        before = peak(operator.running)
        create(tenant, "/api/v1/namespaces/acme/secrets", hostile_secrets())
        create(tenant, "/apis/hookwright.dev/v1alpha1/namespaces/acme/projects", hostile_projects())
        with Organization(plane, operator, "acme") as org:
            org.with_endpoint(endpoint("orders", "http://127.0.0.1:9/"))
            listed_after = f"hostile-{PROJECTS - 1:03}"
            org.wait_for("hwproj", listed_after, "True Accepting", within=60)
        watch_growth = peak(operator.running) - before
    assert operator.stop() == 0
    operator.start()
    try:
        list_growth = peak(operator.running) - started_with
        with (
            Organization(plane, operator, "acme") as org,
            ApiProcess(plane, tmp_path / "api", operator.intake_url, {}) as api,
        ):
            api_listed = peak(api.running) - api_started_with
            org.wait_for("hwep", "orders", "True Delivering")
            assert httpx.get(f"{api.health_url}/readyz", trust_env=False).status_code == 200
    finally:
        operator.stop()
    growth = {"watched": watch_growth, "listed": list_growth, "API, listed": api_listed}
    assert max(growth.values()) < GROWTH_MIB, growth
