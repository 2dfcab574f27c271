"""One busy session for every test of this folder, and the programs that tests need."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from support.api_processes import Organization, running
from support.api_receiver import receiving
from support.busy_operator import Session, keep_busy, scrape
from support.needed_programs import acquire_needed

from hookwright_dev import packages
from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess, install
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.tools import HELM, KUBE_STATE_METRICS, acquire_tool


@pytest.fixture(scope="package")
def session(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Yield a session after all operations: deliveries, retries, failures, discards, refusals, rotations."""
    install(control_plane)
    namespace = f"busy-{os.getpid()}"
    control_plane.kubectl("create", "namespace", namespace)
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
            running(api),
            receiving() as receiver,
            httpx.Client(base_url=api.url, trust_env=False, timeout=30.0) as client,
        ):
            organization = Organization(control_plane, client, namespace)
            made = Session(control_plane, operator, api, organization, receiver, scrape(operator.health_url))
            keep_busy(made, client)
            yield made
    finally:
        operator.stop()
        control_plane.kubectl("delete", "namespace", namespace, "--wait=false")


PACKAGES = {"promtool": "prometheus"}
"""Programs that tests here use through a fixture of that name, with the Debian package of each."""


NEEDED: dict[str, Callable[[], object]] = {
    "kube_state_metrics": lambda: [acquire_tool(one) for one in (HELM, KUBE_STATE_METRICS)]
}
"""Functions that build the programs behind fixtures."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Install and build programs before the first test, because it can take minutes and no time limit covers it."""
    acquire_needed(session, NEEDED)
    if not session.config.option.collectonly:
        asked = {name for item in session.items for name in getattr(item, "fixturenames", ())}
        for program in asked & PACKAGES.keys():
            if shutil.which(program) is None:
                with suppress(packages.PackageError):
                    packages.install(PACKAGES[program])


def _program(name: str) -> Path:
    found = shutil.which(name)
    assert found, f"{name} is missing and could not be installed; run as root: apt-get install {PACKAGES[name]}"
    return Path(found)


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Return the path of promtool, Prometheus' own tool."""
    return _program("promtool")


@pytest.fixture(scope="session")
def kube_state_metrics() -> Path:
    """Return the path of kube-state-metrics."""
    return acquire_tool(KUBE_STATE_METRICS)
