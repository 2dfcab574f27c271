"""One busy session for every test of this folder, and the programs that tests need."""

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support.api_processes import Organization
from support.api_receiver import receiving
from support.busy_operator import Session, keep_busy, scrape
from support.needed_programs import need
from support.stack import Stack

from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess
from hookwright_dev.tools import HELM, KUBE_STATE_METRICS, acquire_promtool, acquire_tool


@pytest.fixture(scope="package")
def session(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Yield a session after all operations: deliveries, retries, failures, discards, refusals, rotations."""
    stack.stop()
    control_plane = stack.cluster
    namespace = f"busy-{os.getpid()}"
    control_plane.objects.create("Namespace", namespace)
    # In its own namespace, so that other tests' objects do not count.
    loud = {
        "HOOKWRIGHT_LOG_LEVEL": "debug",
        "HOOKWRIGHT_LOG_FORMAT": "json",
        "HOOKWRIGHT_WATCH_NAMESPACES": namespace,
    }
    quick = {"HOOKWRIGHT_RETRY_SCHEDULE": "200ms,300ms", "HOOKWRIGHT_STATUS_INTERVAL": "1"}
    operator = OperatorProcess(control_plane, tmp_path_factory.mktemp("operator"), loud | quick)
    operator.start()
    try:
        api = ApiProcess(control_plane, tmp_path_factory.mktemp("api"), operator.intake_url, loud)
        with (
            api,
            receiving() as receiver,
            httpx.Client(base_url=api.url, trust_env=False, timeout=30.0) as client,
        ):
            organization = Organization(control_plane, client, namespace)
            creation = Session(control_plane, operator, api, organization, receiver, scrape(operator.health_url))
            keep_busy(creation, client)
            yield creation
    finally:
        operator.stop()
        control_plane.objects.delete("Namespace", namespace, wait=False)


def _acquire_kube_state_metrics() -> None:
    for tool in (HELM, KUBE_STATE_METRICS):
        acquire_tool(tool)


need("promtool", acquire_promtool)
need("kube_state_metrics", _acquire_kube_state_metrics, slow=True)


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Return the path of promtool, Prometheus' own tool."""
    return acquire_promtool()


@pytest.fixture(scope="session")
def kube_state_metrics() -> Path:
    """Return the path of kube-state-metrics."""
    return acquire_tool(KUBE_STATE_METRICS)
