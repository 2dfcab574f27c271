"""Liveness, readiness and metrics, on a separate port and without authentication."""

from collections.abc import Awaitable, Callable

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

Probe = Callable[[], str | None]
"""A check that returns the fault as a text, or None if there is no fault."""


def create_health(*, live: Probe, ready: Probe, registry: CollectorRegistry) -> Starlette:
    """Return an application with /healthz, /readyz and /metrics.

    Args:
        live: the check after whose failure Kubernetes restarts the process.
        ready: the check after whose failure Kubernetes sends no requests.
        registry: the metrics to return.
    """

    async def metrics(request: Request) -> Response:
        encode, media = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"Content-Type": media})

    return Starlette(
        routes=[Route("/healthz", _answer(live)), Route("/readyz", _answer(ready)), Route("/metrics", metrics)]
    )


def _answer(probe: Probe) -> Callable[[Request], Awaitable[Response]]:
    async def state(_: Request) -> Response:
        reason = probe()
        return PlainTextResponse(reason or "ok", 503 if reason else 200, headers={"Cache-Control": "no-store"})

    return state
