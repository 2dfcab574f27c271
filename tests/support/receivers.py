"""Receivers that misbehave, each a real server on loopback."""

import asyncio
import socket
import ssl
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hookwright_dev.cluster.certificates import Authority

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Handler of one connection; the connection is closed afterwards."""


@dataclass
class Served:
    """A running server.

    Attributes:
        url: where to post to.
        connections: how many were accepted so far.
    """

    url: str
    connections: int = 0


@asynccontextmanager
async def serve(
    behaviour: Behaviour, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[Served]:
    """Run a server that behaves like this on every connection."""
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.connections += 1
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await behaviour(reader, writer)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        finally:
            writer.transport.abort()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(accept(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accepted, host, port, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    name = f"[{host}]" if ":" in host else host
    served = Served(f"{'https' if tls else 'http'}://{name}:{port}/hooks")
    try:
        yield served
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Read one request and return its body, which is empty without a Content-Length."""
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = (line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    length = next(lengths, b"content-length: 0")
    return await reader.readexactly(int(length.partition(b":")[2]))


def answers(answer: bytes) -> Behaviour:
    """Return a behaviour that answers these bytes once, then closes."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer)
        await writer.drain()

    return behave


def keeps_answering(answer: bytes) -> Behaviour:
    """Return a behaviour that answers these bytes to every request, as long as the connection is kept."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(answer)
            await writer.drain()

    return behave


async def hangs(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Read the request and never answer."""
    await read_request(reader)
    await asyncio.Event().wait()


async def resets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reset the connection (RST) instead of answering."""
    await read_request(reader)
    reset(writer)


async def resets_within_the_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Promise 1,000 bytes, send 10, reset the connection."""
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n0123456789")
    await writer.drain()
    for _ in range(10):  # the reset may overtake the bytes otherwise; the sender reads between two turns of the loop
        await asyncio.sleep(0.005)
    reset(writer)


async def half_closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close the sending direction at once, keep the other one open."""
    writer.write_eof()
    await reader.read()


async def drips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer 200 at once, then send the body one byte at a time without end."""
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.02)


async def drips_headers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send the header section one byte at a time without end."""
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while True:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.02)


async def sends_headers_without_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send one header after another as fast as they are read."""
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\n")
    number = 0
    while True:
        number += 1
        writer.write(b"X-Header-%d: %b\r\n" % (number, b"x" * 1000))
        await writer.drain()


async def sends_informational_answers_without_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send one 103 after another (RFC 8297)."""
    await read_request(reader)
    while True:
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.01)


class AnswersMuch:
    """Answers 200 with a body of ``size`` bytes, and counts how many of them were sent."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.sent = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % self.size)
        while self.sent < self.size:
            writer.write(b"x" * 65536)
            await writer.drain()
            self.sent += 65536


def coded(coding: str, body: bytes) -> bytes:
    """Return a complete 200 response with a content coding."""
    return b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n%b" % (
        coding.encode(),
        len(body),
        body,
    )


def bomb(size: int, wbits: int) -> bytes:
    """Return ``size`` zero bytes compressed (``wbits``: 31 gzip, 15 zlib, -15 raw deflate)."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, wbits)
    return compressor.compress(b"0" * size) + compressor.flush()


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection with RST and not FIN."""
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def certificate(folder: Path, *, name: str = "127.0.0.1", valid_days: int = 1) -> ssl.SSLContext:
    """Return a server's TLS context with a new certificate, whose authority is ``server.pem`` in ``folder``.

    Args:
        folder: gets the authority, so that a client can trust it.
        name: host name or address of the certificate.
        valid_days: from now; negative for an expired one.
    """
    authority, ends_at = Authority(), datetime.now(UTC) + timedelta(days=valid_days)
    (folder / "server.pem").write_bytes(authority.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("receiver", hosts=[name], ends_at=ends_at).write(folder, "receiver"))
    return context
