"""``hookwright-api``: serve /v1 and, on another port, health and metrics, until SIGTERM."""

import asyncio
import signal
import sys
from typing import Final

import structlog
from fastapi import FastAPI
from prometheus_client import REGISTRY
from starlette.types import ASGIApp

from hookwright_api.app import create_app
from hookwright_api.console.console_app import end_live_streams
from hookwright_api.http.middleware import Middleware
from hookwright_api.operator_client import OPERATOR_CONNECTIONS
from hookwright_api.settings import ApiSettings
from hookwright_runtime import logs
from hookwright_runtime.connections import ConnectionBounds
from hookwright_runtime.descriptors import TooFewDescriptorsError, connections_that_fit, raise_descriptor_limit
from hookwright_runtime.errors import HookwrightError, SettingsError
from hookwright_runtime.health import create_health
from hookwright_runtime.refusals import answer_refusal
from hookwright_runtime.server import HEALTH_BOUNDS, Server

log = structlog.get_logger(__name__)


_OTHER_DESCRIPTORS: Final = 320
"""Descriptors for health, refused connections, the API server and name resolution."""

_QUIET: Final = ("httpx", "httpcore", "uvicorn.access")
"""httpx logs each request with its URL."""


def _bounds(settings: ApiSettings) -> ConnectionBounds:
    """Return the limits of connections to /v1, which are below the limit of descriptors.

    Raises:
        TooFewDescriptorsError: the system allows too few open files.
    """
    # Each request in progress may use a connection to the counters' server.
    each = 1 if settings.rate_limit_url.startswith("memory:") else 2
    beside = OPERATOR_CONNECTIONS + _OTHER_DESCRIPTORS
    total = connections_that_fit(settings.api_connections, beside=beside, each=each)
    per_address = min(settings.api_connections_per_address, total // 2)
    return ConnectionBounds(total, per_address, settings.trusted_proxies)


def _refusals(app: FastAPI, settings: ApiSettings) -> ASGIApp:
    """Return what answers refusals of the HTTP server: they count and have headers like every answer."""
    return Middleware(answer_refusal, limiter=lambda: app.state.services.limiter, trusted=settings.trusted_proxies)


async def serve(settings: ApiSettings, bounds: ConnectionBounds) -> None:
    """Serve until SIGTERM or SIGINT; then become not ready, finish requests in progress, and return.

    Args:
        settings: of the API.
        bounds: of the connections to /v1.
    """
    app = create_app(settings)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)

    def not_ready() -> str | None:
        if ended.is_set():
            return "shutting down"
        services = getattr(app.state, "services", None)
        return None if services is not None and services.view.ready else "the view is not yet complete"

    async with app.router.lifespan_context(app):
        api = await Server.start(
            app,
            host=settings.api_host,
            port=settings.api_port,
            bounds=bounds,
            refuse=_refusals(app, settings),
            grace=settings.api_shutdown_grace,
        )
        probes = create_health(live=lambda: None, ready=not_ready, registry=REGISTRY)
        health = await Server.start(
            probes, host=settings.api_health_host, port=settings.api_health_port, bounds=HEALTH_BOUNDS
        )
        log.info("listening", port=api.port, health_port=health.port)
        await ended.wait()
        log.info("stopping")
        app.state.services.ending.set()
        end_live_streams(app)
        await api.stop()
    await health.stop()
    log.info("stopped")


def main() -> int:
    """Run the process and return its exit code."""
    try:
        settings = ApiSettings.load()
        raise_descriptor_limit()
        bounds = _bounds(settings)
    except (SettingsError, TooFewDescriptorsError) as error:
        sys.stderr.write(f"hookwright-api: {error}\n")
        return 2
    logs.configure(form=settings.log_format, level=settings.log_level, quiet=_QUIET)
    try:
        with asyncio.Runner(loop_factory=_loop_factory) as runner:
            runner.run(serve(settings, bounds))
    except (HookwrightError, OSError) as error:
        log.error("cannot serve", error=str(error))  # noqa: TRY400 - the message is complete
        return 1
    return 0


def _loop_factory() -> asyncio.AbstractEventLoop:
    import uvloop  # noqa: PLC0415 - only the process itself needs it

    return uvloop.new_event_loop()


if __name__ == "__main__":
    sys.exit(main())
