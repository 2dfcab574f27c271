"""A TCP proxy before a PostgreSQL server that can delay and reset connections, at COMMIT or at any moment."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum

from sqlalchemy import make_url
from support.receivers import reset


class Cut(Enum):
    """The moment at which the next COMMIT is cut off."""

    BEFORE = "before the server gets it"
    AFTER = "when the server has answered it"


@dataclass(slots=True)
class Proxy:
    """A proxy whose connections can be delayed and cut.

    Attributes:
        cut: the moment of the next COMMIT's cut, once.
        closed: no data pass, and no new connection is accepted.
        delay: returns how many seconds a piece of data is delayed, in either direction; called for every piece.
        flowing: if cleared, connections stay open and no data pass.
        cuts: how many connections were cut off at a COMMIT.
    """

    host: str
    port: int
    cut: Cut | None = None
    closed: bool = False
    delay: Callable[[], float] | None = None
    flowing: asyncio.Event = field(default_factory=asyncio.Event)
    cuts: int = 0
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.flowing.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection."""
        if self.closed:
            writer.close()
            return
        with suppress(OSError):
            up_reader, up_writer = await asyncio.open_connection(self.host, self.port)
            self.writers |= {writer, up_writer}
            answering = asyncio.create_task(self._answer(up_reader, writer))
            with suppress(OSError):
                if await self._ask(reader, up_reader, up_writer, answering):
                    reset(up_writer)
                    reset(writer)
            answering.cancel()
            await asyncio.wait([answering])
            self.writers -= {writer, up_writer}
            up_writer.close()
        writer.close()

    async def _ask(
        self,
        reader: asyncio.StreamReader,
        up_reader: asyncio.StreamReader,
        up_writer: asyncio.StreamWriter,
        answering: "asyncio.Task[None]",
    ) -> bool:
        """Forward requests; return True if a COMMIT must be cut."""
        while data := await reader.read(65536):
            if self.cut is not None and b"COMMIT" in data:
                self.cuts += 1
                cut, self.cut = self.cut, None
                if cut is Cut.AFTER:
                    answering.cancel()
                    await asyncio.wait([answering])
                    up_writer.write(data)
                    await up_reader.read(65536)
                return True
            await self._pass_on(data, up_writer)
        return False

    async def _answer(self, up_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while answer := await up_reader.read(65536):
                await self._pass_on(answer, writer)
        writer.close()

    async def _pass_on(self, piece: bytes, writer: asyncio.StreamWriter) -> None:
        if self.delay is not None:
            # PostgreSQL's protocol waits for answers, so data that one side sends meanwhile can be collected.
            await asyncio.sleep(self.delay())
        await self.flowing.wait()
        writer.write(piece)

    def reset(self) -> None:
        """Reset all connections on both sides; new connections are accepted."""
        for writer in self.writers:
            if not writer.is_closing():
                reset(writer)

    def close(self) -> None:
        """Abort all connections, and accept no new ones."""
        self.closed = True
        for writer in self.writers:
            writer.transport.abort()
        self.flowing.set()


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[tuple[Proxy, str]]:
    """Start a proxy for the server of a URL, and yield it with the URL that leads through it."""
    address = make_url(url)
    assert address.host is not None
    assert address.port is not None
    proxy = Proxy(address.host, address.port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield proxy, str(address.set(port=port).render_as_string(hide_password=False))
    finally:
        server.close()
        proxy.close()
        await server.wait_closed()
