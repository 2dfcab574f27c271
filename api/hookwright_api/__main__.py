"""``hookwright-api``: serve /v1 and, on another port, health and metrics, until SIGTERM."""

import asyncio
import signal
import sys
from typing import Final

import structlog
from prometheus_client import REGISTRY

from hookwright_api.app import assemble, running
from hookwright_api.http.request_checks import Middleware
from hookwright_api.operator_client import OPERATOR_CONNECTIONS
from hookwright_api.settings import ApiSettings
from hookwright_runtime import logs
from hookwright_runtime.connections import ConnectionBounds
from hookwright_runtime.descriptors import ensure_open_files
from hookwright_runtime.errors import HookwrightError, SettingsError
from hookwright_runtime.health import create_health
from hookwright_runtime.refusals import answer_refusal
from hookwright_runtime.server import HEALTH_BOUNDS, Server

log = structlog.get_logger(__name__)


_OTHER_DESCRIPTORS: Final = 320
"""Descriptors for health, refused connections, the API server and name resolution."""

_QUIET: Final = ("httpx", "httpcore", "uvicorn.access")
"""httpx logs each request with its URL."""


def open_files(settings: ApiSettings) -> int:
    """Return how many files the API has open if each use of file descriptors is at its bound."""
    # Each request in progress may use a connection to the counters' server.
    connections = 1 if settings.rate_limit_url.startswith("memory:") else 2
    return connections * settings.api_connections + OPERATOR_CONNECTIONS + _OTHER_DESCRIPTORS


async def serve(settings: ApiSettings) -> None:
    """Serve until SIGTERM or SIGINT; then become not ready, finish requests in progress, and return."""
    per_address = min(settings.api_connections_per_address, settings.api_connections // 2)
    bounds = ConnectionBounds(settings.api_connections, per_address, settings.trusted_proxies)
    app = assemble(settings)
    # Refusals of the HTTP server count and have headers like every answer.
    refuse = Middleware(answer_refusal, lambda: app.state.services.limiter, settings.trusted_proxies)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)

    def not_ready() -> str | None:
        if stopping.is_set():
            return "shutting down"
        services = getattr(app.state, "services", None)
        return None if services is not None and services.view.ready else "the view is not yet complete"

    async with running(settings) as app.state.services:
        api = await Server.start(
            app,
            host=settings.api_host,
            port=settings.api_port,
            bounds=bounds,
            refuse=refuse,
            grace=settings.api_shutdown_grace,
        )
        probes = create_health(live=lambda: None, ready=not_ready, registry=REGISTRY)
        health = await Server.start(
            probes, host=settings.api_health_host, port=settings.api_health_port, bounds=HEALTH_BOUNDS
        )
        log.info("listening", port=api.port, health_port=health.port)
        await stopping.wait()
        log.info("stopping")
        app.state.services.ending.set()
        await api.stop()
    await health.stop()
    log.info("stopped")


def main() -> int:
    """Run the process and return its exit code."""
    try:
        settings = ApiSettings.load()
        ensure_open_files(open_files(settings), bounds="HOOKWRIGHT_API_CONNECTIONS")
    except SettingsError as error:
        sys.stderr.write(f"hookwright-api: {error}\n")
        return 2
    logs.configure(form=settings.log_format, level=settings.log_level, quiet=_QUIET)
    try:
        with asyncio.Runner(loop_factory=_loop_factory) as runner:
            runner.run(serve(settings))
    except (HookwrightError, OSError) as error:
        log.error("cannot serve", error=str(error))  # noqa: TRY400 - the message is complete
        return 1
    return 0


def _loop_factory() -> asyncio.AbstractEventLoop:
    import uvloop  # noqa: PLC0415 - only the process itself needs it

    return uvloop.new_event_loop()


if __name__ == "__main__":
    sys.exit(main())
