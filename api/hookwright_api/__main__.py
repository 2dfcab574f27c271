"""``hookwright-api``: serves /v1 and, on another port, health and metrics, until SIGTERM."""

import asyncio
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
import uvicorn
from starlette.types import ASGIApp

from hookwright_api.app import create_app
from hookwright_api.errors import HookwrightApiError, SettingsError
from hookwright_api.health import create_health
from hookwright_api.logs import set_up
from hookwright_api.settings import Settings, load

log = structlog.get_logger(__name__)


class Server(uvicorn.Server):
    """Leaves signals to this module, for there are two servers in one process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def _server(app: ASGIApp, settings: Settings) -> Server:
    return Server(
        uvicorn.Config(
            app,
            access_log=False,
            log_config=None,
            # Whose X-Forwarded-For counts is our own setting, and judged where requests are counted.
            proxy_headers=False,
            server_header=False,
            loop="uvloop",
            http="httptools",
            ws="none",
            timeout_graceful_shutdown=int(settings.api_shutdown_grace),
        )
    )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=2048)


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT: then not ready, requests under way finish, and it returns."""
    app = create_app(settings)
    api = _server(app, settings)

    def not_ready() -> str | None:
        if api.should_exit:
            return "shutting down"
        services = getattr(app.state, "services", None)
        return None if services is not None and services.view.ready else "the view is not complete yet"

    health = _server(create_health(not_ready), settings)

    def stop() -> None:
        log.info("stopping")
        api.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    with (
        _listen(settings.api_host, settings.api_port) as public,
        _listen(settings.api_health_host, settings.api_health_port) as private,
    ):
        log.info("listening", port=public.getsockname()[1], health_port=private.getsockname()[1])
        beside = asyncio.create_task(health.serve(sockets=[private]))
        await api.serve(sockets=[public])
        health.should_exit = True
        await beside
    if not api.started:
        raise SettingsError("the API could not start; the log says why")
    log.info("stopped")


def main() -> int:
    """Run the process and return its exit code."""
    try:
        settings = load()
    except SettingsError as error:
        sys.stderr.write(f"hookwright-api: {error}\n")
        return 2
    set_up(settings)
    try:
        with asyncio.Runner(loop_factory=_loop_factory) as runner:
            runner.run(serve(settings))
    except (HookwrightApiError, OSError) as error:
        log.error("cannot serve", error=str(error))  # noqa: TRY400 - the sentence says it all
        return 1
    return 0


def _loop_factory() -> asyncio.AbstractEventLoop:
    import uvloop  # noqa: PLC0415 - only the process itself needs it

    return uvloop.new_event_loop()


if __name__ == "__main__":
    sys.exit(main())
