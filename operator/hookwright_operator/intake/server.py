"""An ASGI application on a port, started and stopped by whoever owns the process."""

import asyncio
import contextlib
import math
import socket
from collections.abc import Iterator
from typing import Self

import uvicorn
from starlette.types import ASGIApp

_MAX_CONNECTIONS = 4096


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the process's signals to its owner."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self.listening.set()


class Server:
    """A running HTTP server; made by `start`."""

    def __init__(self, server: _Uvicorn, listener: socket.socket) -> None:
        self.port: int = listener.getsockname()[1]
        self._server = server
        self._running = asyncio.create_task(server.serve(sockets=[listener]), name=f"http :{self.port}")

    @classmethod
    async def start(cls, app: ASGIApp, *, host: str, port: int, grace: float = 10.0) -> Self:
        """Listen and serve.

        Args:
            app: what to serve; it gets no lifespan messages.
            host: address to listen on.
            port: 0 takes a free one, told by ``Server.port``.
            grace: seconds that requests under way get at `stop`, rounded up to whole ones.

        Raises:
            OSError: the address is taken or is not ours.
        """
        config = uvicorn.Config(
            app,
            interface="asgi3",
            loop="none",
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=math.ceil(grace),
        )
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=config.backlog)
        server = cls(_Uvicorn(config), listener)
        await server._server.listening.wait()
        return server

    async def stop(self) -> None:
        """Accept nothing more, let requests under way finish within the grace, then cut the rest off."""
        self._server.should_exit = True
        await self._running

    async def wait(self) -> None:
        """Return when the server has ended, and raise what it ended by."""
        await asyncio.shield(self._running)
