"""An ASGI application on a port, started and stopped by the owner of the process."""

import asyncio
import contextlib
import math
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, Self, cast

import uvicorn
from starlette.types import ASGIApp

from hookwright_runtime.connections import ConnectionBounds
from hookwright_runtime.protocol import BoundedProtocol, Listener
from hookwright_runtime.refusals import answer_refusal

HEALTH_BOUNDS: Final = ConnectionBounds(total=64, per_address=64)
"""Of a listener for health and metrics: few clients, and descriptors that no other listener uses."""
BACKLOG: Final = 512
"""Connections that wait to be accepted."""


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the process's signals to its owner."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and set ``listening``."""
        await super().startup(sockets)
        self.listening.set()

    async def on_tick(self, counter: int) -> bool:
        """Expire connections every second; uvicorn calls this every 100 ms."""
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in tuple(self.server_state.connections):
                cast("BoundedProtocol", connection).expire(now)
        return await super().on_tick(counter)


class Server:
    """A running HTTP server; made by `start`."""

    def __init__(self, server: _Uvicorn, listener: socket.socket) -> None:
        self.port: int = listener.getsockname()[1]
        self._server = server
        self._running = asyncio.create_task(server.serve(sockets=[listener]), name=f"http :{self.port}")

    @classmethod
    async def start(
        cls,
        app: ASGIApp,
        *,
        host: str,
        port: int,
        bounds: ConnectionBounds,
        refuse: ASGIApp = answer_refusal,
        grace: float = 10.0,
    ) -> Self:
        """Listen and serve.

        Args:
            app: what to serve; it gets no lifespan messages.
            host: address to listen on.
            port: 0 takes a free one; ``Server.port`` has it.
            bounds: of the connections.
            refuse: answers what the server itself refuses; its scope has a `refusals.Refusal`.
            grace: seconds that requests under way get at `stop`, rounded up to whole ones.

        Raises:
            OSError: the address is taken or is not ours.
        """
        protocol: Any = partial(BoundedProtocol, listener=Listener(bounds, refuse))
        config = uvicorn.Config(
            app,
            interface="asgi3",
            loop="none",
            http=protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            # Which X-Forwarded-For counts is a setting of the API, judged where requests are counted.
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=math.ceil(grace),
        )
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=config.backlog)
        server = cls(_Uvicorn(config), listener)
        await server._server.listening.wait()
        return server

    async def stop(self) -> None:
        """Accept no more connections, let requests under way finish within the grace, then close the others."""
        self._server.should_exit = True
        await self._running
