"""Fixtures of the tests of the documentation: the programs that they need."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.needed_programs import acquire_needed
from support.sample_receivers import acquire_languages

from hookwright_dev import packages
from hookwright_dev.node_packages import acquire_node_packages
from hookwright_dev.tools import GATEWAY_CRDS, HELM, PROMETHEUS_CRDS, acquire_files, acquire_tool


def _acquire_programs_of_pages() -> None:
    acquire_tool(HELM)
    for module in (GATEWAY_CRDS, PROMETHEUS_CRDS):
        acquire_files(module)
    for program in ("curl", "jq"):
        if shutil.which(program) is None:
            packages.install(program)


NEEDED: dict[str, Callable[[], object]] = {
    "node_packages": acquire_node_packages,
    "kubelet": _acquire_programs_of_pages,
    "languages": acquire_languages,
}
"""Functions that fetch or build the programs behind fixtures."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fetch and build before the first test, because it can take minutes and no test's time limit covers it."""
    acquire_needed(session, NEEDED)


@pytest.fixture(scope="session")
def node_packages() -> Path:
    """Return the folder with the packages of npm."""
    return acquire_node_packages()


@pytest.fixture(scope="session")
def languages() -> None:
    """Need the interpreters and compilers of the receivers' code."""
