"""What the chaos tests share. ``HOOKWRIGHT_CHAOS=long`` runs the long form, as `make chaos` does."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import uvloop
from chaos.site import Site

from hookwright_dev.cluster import Cluster
from hookwright_dev.installation import install
from hookwright_dev.receiver import Receiver


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run on uvloop, as the operator does."""
    return {"uvloop": uvloop.new_event_loop}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the long form its time."""
    if os.environ.get("HOOKWRIGHT_CHAOS") == "long":
        for item in items:
            if "chaos" in item.path.parts:
                item.add_marker(pytest.mark.timeout(1800))


@pytest.fixture(scope="session")
def long() -> bool:
    """Whether this is the long form."""
    return os.environ.get("HOOKWRIGHT_CHAOS") == "long"


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver on loopback that answers 200 until told otherwise."""
    async with Receiver() as receiver:
        yield receiver


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where the test's store is."""
    return tmp_path / "deliveries.db"


@pytest.fixture(scope="session")
def installed(control_plane: Cluster) -> Cluster:
    """The session's cluster with what an installation needs."""
    install(control_plane)
    return control_plane


@pytest.fixture
async def site(installed: Cluster, namespace: str, tmp_path: Path) -> AsyncIterator[Site]:
    """An operator of this test's own, not started yet, that serves this test's namespace."""
    site = Site.of(installed, namespace, tmp_path / "operator")
    yield site
    await site.close()
