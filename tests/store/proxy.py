"""A TCP proxy before a PostgreSQL server that can cut connections, at COMMIT or altogether."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum

from sqlalchemy import make_url


class Cut(Enum):
    """Where the next COMMIT is cut off."""

    BEFORE = "before the server gets it"
    AFTER = "when the server has answered it"


@dataclass(slots=True)
class Proxy:
    """What is forwarded, and what is cut.

    Attributes:
        cut: what happens at the next COMMIT, once.
        closed: nothing comes through, and nothing new is connected.
        cuts: how many connections were cut off at a COMMIT.
    """

    host: str
    port: int
    cut: Cut | None = None
    closed: bool = False
    cuts: int = 0
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection."""
        if self.closed:
            writer.close()
            return
        with suppress(OSError):
            up_reader, up_writer = await asyncio.open_connection(self.host, self.port)
            self.writers |= {writer, up_writer}
            answering = asyncio.create_task(self._answer(up_reader, writer))
            await self._ask(reader, up_reader, up_writer, answering)
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
    ) -> None:
        while asked := await reader.read(65536):
            if self.cut is not None and b"COMMIT" in asked:
                self.cuts += 1
                cut, self.cut = self.cut, None
                if cut is Cut.AFTER:
                    answering.cancel()
                    await asyncio.wait([answering])
                    up_writer.write(asked)
                    await up_reader.read(65536)
                return
            up_writer.write(asked)

    async def _answer(self, up_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while answer := await up_reader.read(65536):
            writer.write(answer)
        writer.close()

    def close(self) -> None:
        """Cut everything, and let nothing through."""
        self.closed = True
        for writer in self.writers:
            writer.transport.abort()


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[tuple[Proxy, str]]:
    """Stand before the server that a URL names, and give the URL that leads through the proxy."""
    parsed = make_url(url)
    assert parsed.host is not None
    assert parsed.port is not None
    proxy = Proxy(parsed.host, parsed.port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield proxy, str(parsed.set(port=port).render_as_string(hide_password=False))
    finally:
        server.close()
        proxy.close()
        await server.wait_closed()
