"""A TCP proxy before a PostgreSQL server that can slow connections down and reset them, at COMMIT or at any moment."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum

from delivery.receivers import reset
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
        delay: for how many seconds each piece is under way, in either direction; asked for every piece.
        flowing: cleared where connections stay and nothing comes through.
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
        """Forward what is asked; True where a COMMIT was to be cut."""
        while asked := await reader.read(65536):
            if self.cut is not None and b"COMMIT" in asked:
                self.cuts += 1
                cut, self.cut = self.cut, None
                if cut is Cut.AFTER:
                    answering.cancel()
                    await asyncio.wait([answering])
                    up_writer.write(asked)
                    await up_reader.read(65536)
                return True
            await self._pass_on(asked, up_writer)
        return False

    async def _answer(self, up_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while answer := await up_reader.read(65536):
                await self._pass_on(answer, writer)
        writer.close()

    async def _pass_on(self, piece: bytes, writer: asyncio.StreamWriter) -> None:
        if self.delay is not None:
            # PostgreSQL's protocol waits for answers: what one side sends meanwhile loses nothing by being gathered.
            await asyncio.sleep(self.delay())
        await self.flowing.wait()
        writer.write(piece)

    def reset(self) -> None:
        """Reset every connection on both sides, whatever is under way; new ones may be made."""
        for writer in self.writers:
            if not writer.is_closing():
                reset(writer)

    def close(self) -> None:
        """Cut everything, and let nothing through."""
        self.closed = True
        for writer in self.writers:
            writer.transport.abort()
        self.flowing.set()


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
