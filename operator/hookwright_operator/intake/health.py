"""Liveness, readiness and metrics, on a port of their own and never authenticated."""

from collections.abc import Awaitable, Callable

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

Probe = Callable[[], str | None]
"""Tells why something is not well, or None where it is."""


def create_health(*, live: Probe, ready: Probe, registry: CollectorRegistry) -> Starlette:
    """Return an application with /healthz, /readyz and /metrics.

    Args:
        live: what Kubernetes should restart the process for.
        ready: what it should send no requests for.
        registry: the metrics to tell.
    """

    async def metrics(request: Request) -> Response:
        encode, media = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"Content-Type": media})

    return Starlette(
        routes=[Route("/healthz", _answer(live)), Route("/readyz", _answer(ready)), Route("/metrics", metrics)]
    )


def _answer(probe: Probe) -> Callable[[Request], Awaitable[Response]]:
    async def told(_: Request) -> Response:
        reason = probe()
        return PlainTextResponse(reason or "ok", 503 if reason else 200, headers={"Cache-Control": "no-store"})

    return told
