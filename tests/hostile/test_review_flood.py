"""Callers without a credential use up the connections for reviews; the leader's other requests are still sent."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from support.kubeconfig import write_kubeconfig
from support.polling import until

from hookwright_operator import metrics
from hookwright_operator.intake.auth import TOKEN_REVIEWS
from hookwright_operator.leader import gauges
from hookwright_operator.process import API_SERVER, Operator
from hookwright_operator.settings import OperatorSettings
from hookwright_operator.store.store import Store
from hookwright_runtime import bounds
from hookwright_runtime.kubernetes import KubernetesClient

LEASE = "/apis/coordination.k8s.io/v1/namespaces/hookwright-system/leases/hookwright-operator"
EVENTS = "/v1alpha1/namespaces/acme/projects/billing/events"


class SlowApiServer:
    """An API server that answers no review before it is opened; every other request gets an empty object.

    Attributes:
        reviews: how many reviews have arrived.
    """

    def __init__(self) -> None:
        self.reviews = 0
        self.open = asyncio.Event()

    async def serve(self, request: web.Request) -> web.Response:
        """Answer one request."""
        if request.path == TOKEN_REVIEWS:
            self.reviews += 1
            await self.open.wait()
        return web.json_response({})


@pytest.fixture
async def api_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SlowApiServer]:
    """Yield a running server, which the kubeconfig names."""
    server, app = SlowApiServer(), web.Application()
    app.router.add_route("*", "/{path:.*}", server.serve)
    async with TestServer(app) as running:
        write_kubeconfig(tmp_path / "kubeconfig", str(running.make_url("/")), "t")
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        yield server
        server.open.set()


@pytest.mark.slow
async def test_reviews_leave_the_connections_of_the_lease_free(
    api_server: SlowApiServer, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While unknown tokens wait in all connections for reviews, a request for the Lease is answered at once."""
    monkeypatch.setattr(metrics.LEADER, "set_function", lambda _: None)
    kube = await KubernetesClient.connect("hookwright-operator")
    store = await Store.open(f"sqlite:///{database}", instance="test", lease_ms=60_000, clock=lambda: 0)
    settings = OperatorSettings(intake_host="127.0.0.1", intake_port=0, health_host="127.0.0.1", health_port=0)
    operator = Operator(settings, kube, store)
    await operator.start()
    operator._changes.synced.set()
    senders = [
        httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(local_address=f"127.0.0.{number}"), timeout=30)
        for number in (1, 2)
    ]
    url = f"http://127.0.0.1:{operator.intake_port}{EVENTS}"
    asks = [
        asyncio.create_task(sender.post(url, headers={"Authorization": f"Bearer {number}.a.b"}, json={}))
        for number, sender in enumerate(senders * bounds.TOKEN_REVIEWS.each)
    ]
    try:
        await until(lambda: api_server.reviews >= API_SERVER)
        # It would fail after 3 s if it had to wait for a connection.
        assert await kube.get(LEASE) == {}
        assert api_server.reviews == API_SERVER
    finally:
        api_server.open.set()
        await asyncio.gather(*asks, return_exceptions=True)
        for sender in senders:
            await sender.aclose()
        await operator.stop()
        await store.close()
        await kube.close()
        gauges.show()
