"""Fixtures of the chaos tests. ``HOOKWRIGHT_CHAOS=long`` runs the long form, as `make chaos` does."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest
import uvloop
from _pytest.terminal import TerminalReporter
from chaos.site import Site

from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.cluster.postgres import FAST, PostgresServer, postgres_server
from hookwright_dev.receiver import Receiver

LONG = os.environ.get("HOOKWRIGHT_CHAOS") == "long"
LEASE_SECONDS = 40 if LONG else 300
"""Long form: a short claim lease that outlives a timeout of 30 s, because tests wait for its expiry.

Short form: longer than any test's deadline, so that a test fails if its deliveries wait for a claim lease to expire.
"""
PROMPT = {"wal_retrieve_retry_interval": "500ms", "wal_receiver_status_interval": "1s"}
"""While its primary is down, a standby checks this often for its promotion; a current standby reports this often."""


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run on uvloop, as the operator does."""
    return {"uvloop": uvloop.new_event_loop}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the long form more time."""
    if LONG:
        for item in items:
            if "chaos" in item.path.parts:
                item.add_marker(pytest.mark.timeout(1800))


@pytest.fixture(scope="session")
def long() -> bool:
    """Return whether this is the long form."""
    return LONG


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """Start a receiver on loopback that answers 200 by default."""
    async with Receiver() as receiver:
        yield receiver


@pytest.fixture
async def site(control_plane: Cluster, namespace: str, tmp_path: Path) -> AsyncIterator[Site]:
    """Return an operator for this test and its namespace; it is not started yet."""
    site = Site.of(control_plane, namespace, tmp_path / "operator")
    yield site
    await site.close()


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    """Start a PostgreSQL server for this test only, because the test may kill it."""
    with postgres_server({**FAST, **PROMPT}) as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> str:
    """Create an empty database on the test's server."""
    return postgres.new_database("hookwright")


def on_postgres(site: Site, url: str) -> Site:
    """Configure a site to store its deliveries in a PostgreSQL database, which more replicas may share."""
    site.operator.settings = {
        **site.operator.settings,
        "HOOKWRIGHT_DATABASE_URL": url,
        "HOOKWRIGHT_INSTANCE": "replica-0",
        "HOOKWRIGHT_LEASE": str(LEASE_SECONDS),
    }
    return site


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print the measured cost of the faults."""
    lines = [
        f"{report.nodeid.partition('::')[2]}: {name} {value}"
        for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
        for name, value in report.user_properties
    ]
    if lines:
        terminalreporter.section("what it cost")
        terminalreporter.write("\n".join([*lines, ""]))
