"""The HTTP client behind the sender: connections to receivers, kept for the next attempt.

It does what a delivery needs and no more: no redirects, no proxies, no cookies, no repeating of its own.
Every address is judged when its socket is made.
"""

import asyncio
import socket
import ssl
from typing import Final, NamedTuple

import aiohappyeyeballs

from hookwright_operator.delivery.faults import AttemptError, DeadlineError, Step, lookup_words
from hookwright_operator.delivery.guard import Guard, GuardedResolver, is_literal
from hookwright_operator.delivery.http1 import Connection, Exchange
from hookwright_operator.errors import RefusedAddressError

_KEEPALIVE: Final = 4.0
"""Seconds, below the 5 after which Node, uvicorn and Apache close an idle connection and could cut an attempt short."""
_SWEEP: Final = 0.5
"""Seconds between looks at how long connections have been idle."""
_NEXT_ADDRESS: Final = 0.25
"""Seconds after which the next address is tried beside one that does not answer (RFC 8305 5)."""


class Origin(NamedTuple):
    """Where requests go; a connection serves one origin."""

    tls: bool
    host: str
    port: int


class Client:
    """Connections to all receivers, as many as there are attempts at once.

    Args:
        guard: judges every address before it is connected to.
        resolver: finds addresses.
        tls: context for https.
    """

    def __init__(self, guard: Guard, resolver: GuardedResolver, tls: ssl.SSLContext) -> None:
        self._guard = guard
        self._resolver = resolver
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._open: set[Connection] = set()
        self._idle: dict[Origin, list[Connection]] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False

    async def post(self, origin: Origin, request: bytes, exchange: Exchange, deadline: float) -> None:
        """Send a request and read its answer into ``exchange``.

        Args:
            origin: where to.
            request: all its bytes, head and body.
            exchange: takes the answer, and how far the attempt has come.
            deadline: of all of it, by the loop's clock.

        Raises:
            AttemptError: the name was not found, or there was no answer that is HTTP.
            DeadlineError: the time is up.
            RefusedAddressError: the guard refuses the address.
            OSError: no connection could be made, or it broke; ``ssl.SSLError`` too.
        """
        if self._closed:
            raise RuntimeError("the client is closed")
        connection = self._take(origin) or await self._connect(origin, exchange, deadline)
        try:
            await connection.ask(request, exchange, deadline)
        finally:
            self._give_back(origin, connection)

    async def close(self) -> None:
        """Close all connections; requests under way fail."""
        self._closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._idle.clear()
        leaving = tuple(self._open)
        for connection in leaving:
            connection.abort()
        await asyncio.gather(*(connection.closed for connection in leaving))

    def _take(self, origin: Origin) -> Connection | None:
        idle = self._idle.get(origin)
        while idle:
            # The one used last, so that what is not needed grows old.
            connection = idle.pop()
            if connection.reusable and connection.idle_since > self._loop.time() - _KEEPALIVE:
                return connection
            connection.abort()
        return None

    def _give_back(self, origin: Origin, connection: Connection) -> None:
        if not connection.reusable:
            connection.abort()
            return
        connection.idle_since = self._loop.time()
        self._idle.setdefault(origin, []).append(connection)
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(_SWEEP, self._sweep)

    def _sweep(self) -> None:
        """Close what has been idle for too long."""
        oldest = self._loop.time() - _KEEPALIVE
        for origin, idle in tuple(self._idle.items()):
            kept = [connection for connection in idle if connection.reusable and connection.idle_since > oldest]
            for connection in set(idle).difference(kept):
                connection.abort()
            if kept:
                self._idle[origin] = kept
            else:
                del self._idle[origin]
        self._sweeping = self._loop.call_later(_SWEEP, self._sweep) if self._idle else None

    async def _connect(self, origin: Origin, exchange: Exchange, deadline: float) -> Connection:
        try:
            async with asyncio.timeout_at(deadline) as limit:
                connection = await self._connected(origin, await self._addresses(origin), exchange)
        except TimeoutError as error:
            # The network's own ETIMEDOUT is one as well.
            raise DeadlineError if limit.expired() else error from None
        self._open.add(connection)
        connection.closed.add_done_callback(lambda _: self._open.discard(connection))
        if self._closed:
            connection.abort()
        return connection

    async def _addresses(self, origin: Origin) -> list[str]:
        if is_literal(origin.host):
            return [origin.host]
        try:
            return await self._resolver.resolve(origin.host, origin.port)
        except RefusedAddressError:
            raise
        except OSError as error:
            raise AttemptError(lookup_words(error, origin.host)) from error

    async def _connected(self, origin: Origin, addresses: list[str], exchange: Exchange) -> Connection:
        """Connect to the first address that lets us, in TLS if that is asked for."""

        def guarded_socket(info: aiohappyeyeballs.AddrInfoType) -> socket.socket:
            exchange.step = Step.CONNECT
            family, kind, protocol, _, sockaddr = info
            self._guard.check(str(sockaddr[0]), origin.host)
            return socket.socket(family, kind, protocol)

        left = [_addr_info(address, origin.port) for address in addresses]
        while True:
            connected = await aiohappyeyeballs.start_connection(
                left, happy_eyeballs_delay=_NEXT_ADDRESS, interleave=1, socket_factory=guarded_socket
            )
            peer = connected.getpeername()[0]
            try:
                _, connection = await self._loop.create_connection(
                    Connection,
                    sock=connected,
                    ssl=self._tls if origin.tls else None,
                    # Certificates hold names without the dot that may end one.
                    server_hostname=origin.host.rstrip(".") if origin.tls else None,
                )
            except OSError:
                others = [info for info in left if info[4][0] != peer]
                if len(others) in (0, len(left)):
                    raise
                left = others
            else:
                return connection


def _addr_info(address: str, port: int) -> aiohappyeyeballs.AddrInfoType:
    if ":" in address:
        return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)
