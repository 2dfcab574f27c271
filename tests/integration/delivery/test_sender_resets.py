"""Connections that a receiver resets before a request is sent."""

import asyncio
import socket
from typing import Any

import aiohappyeyeballs
import pytest
from aiohappyeyeballs import AddrInfoType
from support import receivers
from support.attempts import endpoint, loopback, send
from support.polling import until
from support.receivers import answers, serve


def is_reset(connected: socket.socket) -> bool:
    """Return whether the peer has reset the connection of a socket."""
    try:
        connected.getpeername()
    except OSError:
        return True
    return False


@pytest.mark.parametrize(
    ("addresses", "words"), [(["127.0.0.2", "127.0.0.1"], ""), (["127.0.0.2"], "connection reset")]
)
@pytest.mark.both_loops
async def test_an_address_that_resets_a_new_connection_is_passed_over(
    addresses: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel then has no peer for the socket; the next address is tried, and the socket is closed."""
    creations: list[socket.socket] = []
    connect = aiohappyeyeballs.start_connection

    async def connect_and_wait(left: list[AddrInfoType], **how: Any) -> socket.socket:
        connection = await connect(left, **how)
        if not creations:
            creations.append(connection)
            await until(lambda: is_reset(connection))
        return connection

    async def resets_at_once(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        receivers.reset(writer)

    monkeypatch.setattr(aiohappyeyeballs, "start_connection", connect_and_wait)
    async with serve(answers(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as good:
        port = int(good.url.rpartition(":")[2].partition("/")[0])
        async with (
            serve(resets_at_once, host="127.0.0.2", port=port),
            loopback(lookup=lambda _host, _port: addresses) as sender,
        ):
            outcome = await send(sender, endpoint(f"http://hooks.example.com:{port}/"))
    assert outcome.error == words
    assert creations[0].fileno() == -1
