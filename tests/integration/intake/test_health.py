"""Liveness, readiness and metrics over real HTTP, and their server."""

import asyncio
import signal
from collections.abc import AsyncIterator

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter
from starlette.types import Receive, Scope, Send
from support.polling import PATIENCE

from hookwright_runtime.health import create_health
from hookwright_runtime.server import HEALTH_BOUNDS, Server


class Wellbeing:
    """The results of the probes."""

    def __init__(self) -> None:
        self.dying: str | None = None
        self.unready: str | None = None


@pytest.fixture
def wellbeing() -> Wellbeing:
    """Return probes without faults."""
    return Wellbeing()


@pytest.fixture
async def client(wellbeing: Wellbeing) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of a health server with one metric."""
    registry = CollectorRegistry()
    Counter("hookwright_things", "Things.", registry=registry).inc(3)
    app = create_health(live=lambda: wellbeing.dying, ready=lambda: wellbeing.unready, registry=registry)
    server = await Server.start(app, host="127.0.0.1", port=0, bounds=HEALTH_BOUNDS)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as client:
        yield client
    await server.stop()


async def test_probes_tell_what_is_wrong(client: httpx.AsyncClient, wellbeing: Wellbeing) -> None:
    """A probe answers 200 without a fault, else 503 with the reason; the two are independent."""
    assert [(await client.get(path)).status_code for path in ("/healthz", "/readyz")] == [200, 200]
    wellbeing.unready = "stopping"
    answer = await client.get("/readyz")
    assert (answer.status_code, answer.text) == (503, "stopping")
    assert (await client.get("/healthz")).status_code == 200
    wellbeing.dying = "loop ended"
    answer = await client.get("/healthz")
    assert (answer.status_code, answer.text) == (503, "loop ended")


async def test_metrics_are_told_in_the_format_that_is_asked_for(client: httpx.AsyncClient) -> None:
    """The format is Prometheus text by default, and OpenMetrics if Accept requests it."""
    plain = await client.get("/metrics")
    assert "hookwright_things_total 3.0" in plain.text
    assert plain.headers["content-type"].startswith("text/plain")
    modern = await client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert modern.headers["content-type"].startswith("application/openmetrics-text")
    assert modern.text.endswith("# EOF\n")


async def test_a_server_leaves_the_processes_signals_alone(client: httpx.AsyncClient) -> None:
    """The owner of the process handles SIGTERM."""
    assert (await client.get("/healthz")).status_code == 200
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_a_port_that_is_taken_is_an_error_at_once() -> None:
    """The start fails instead of a server that never answers."""
    app = create_health(live=lambda: None, ready=lambda: None, registry=CollectorRegistry())
    first = await Server.start(app, host="127.0.0.1", port=0, bounds=HEALTH_BOUNDS)
    with pytest.raises(OSError, match="in use"):
        await Server.start(app, host="127.0.0.1", port=first.port, bounds=HEALTH_BOUNDS)
    await first.stop()


async def test_a_request_that_never_ends_is_cut_off_after_the_grace() -> None:
    """The stop waits for the grace time, but not longer."""
    begin = asyncio.Event()

    async def hang(_scope: Scope, _receive: Receive, _send: Send) -> None:
        begin.set()
        await asyncio.Event().wait()

    server = await Server.start(hang, host="127.0.0.1", port=0, bounds=HEALTH_BOUNDS, grace=1)
    async with httpx.AsyncClient(trust_env=False) as client:
        request = asyncio.create_task(client.get(f"http://127.0.0.1:{server.port}/"))
        await begin.wait()
        async with asyncio.timeout(PATIENCE):
            await server.stop()
        assert (await request).status_code == 500
