"""Fixtures of the chart tests: helm, and an API server with kinds of Prometheus operator, Gateway API and KEDA."""

import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from support.chart_rendering import Chart
from support.needed_programs import need

from hookwright_crds.users import users_namespace
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.tools import (
    ACTIONLINT,
    GATEWAY_CRDS,
    HELM,
    KEDA_CRDS,
    PROMETHEUS_CRDS,
    acquire_files,
    acquire_promtool,
    acquire_tool,
)

ESTABLISHED = ("wait", "--for=condition=Established", "--timeout=30s", "-f")
OTHERS_CRDS = (PROMETHEUS_CRDS, GATEWAY_CRDS, KEDA_CRDS)
need("chart", lambda: acquire_tool(HELM), slow=True)
need("promtool", acquire_promtool)
need("actionlint", lambda: acquire_tool(ACTIONLINT), slow=True)
need("restricted", lambda: [acquire_files(module) for module in OTHERS_CRDS], slow=True)


@pytest.fixture(scope="session")
def chart() -> Chart:
    """Return the chart, rendered by a real helm."""
    return Chart(acquire_tool(HELM))


@pytest.fixture(scope="session")
def actionlint() -> Path:
    """Return the path of the checker of workflows."""
    return acquire_tool(ACTIONLINT)


@pytest.fixture(scope="session")
def promtool() -> str:
    """Return the path of promtool, Prometheus' own tool."""
    return str(acquire_promtool())


@pytest.fixture(scope="module")
def served(control_plane: Cluster) -> Cluster:
    """Return the session's cluster with every kind that the chart can render."""
    for path in (path for module in OTHERS_CRDS for path in acquire_files(module)):
        control_plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(path))
        # If kubectl wait runs at once, the status can still have null conditions, and then it fails.
        deadline = time.monotonic() + 30
        while control_plane.kubectl(*ESTABLISHED, str(path), check=time.monotonic() > deadline).returncode != 0:
            time.sleep(0.1)
    return control_plane


@pytest.fixture(scope="module")
def restricted(served: Cluster) -> Iterator[str]:
    """Yield a namespace of the restricted Pod Security level; it warns about workloads whose pods it would refuse."""
    name = f"chart-{uuid4().hex[:8]}"
    for namespace in (name, users_namespace(name)):
        served.objects.create("Namespace", namespace)
    levels = [f"pod-security.kubernetes.io/{mode}=restricted" for mode in ("enforce", "warn")]
    served.kubectl("label", "namespace", name, *levels)
    yield name
    for namespace in (name, users_namespace(name)):
        served.objects.delete("Namespace", namespace, wait=False)
