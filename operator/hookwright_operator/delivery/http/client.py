"""HTTP client of the sender: connections to receivers, kept for the next attempt.

The client does only what a delivery needs: no redirects, no cookies, no retries.
The guard checks every address when its socket is created.
"""

import asyncio
import errno
import heapq
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import chain
from typing import Final, NamedTuple

import aiohappyeyeballs

from hookwright_operator.delivery.http.connection import Connection, Exchange
from hookwright_operator.delivery.http.egress_proxy import EgressProxy
from hookwright_operator.delivery.http.error_messages import AttemptError, DeadlineError, Step, lookup_words, own_fault
from hookwright_operator.delivery.http.guard import Guard, is_literal
from hookwright_operator.delivery.http.resolver import GuardedResolver
from hookwright_operator.delivery.http.sockets import connect
from hookwright_operator.delivery.http.tls_contexts import TlsContexts
from hookwright_operator.registry import TlsIdentity
from hookwright_runtime.errors import RefusedAddressError

KEEPALIVE: Final = 4.0
"""Seconds; less than 5, after which Node, uvicorn and Apache close an idle connection and could break an attempt."""
_SWEEP: Final = 0.5
"""Seconds between checks how long connections have been idle."""
_CLOSED_AT_ONCE: Final = 16
"""Idle connections to close if no descriptor is left for a new one."""
_RESET: Final = struct.pack("ii", 1, 0)
_NO_RESET: Final = struct.pack("ii", 0, 0)
"""Values of ``SO_LINGER``, see socket(7)."""
_RECEIVE_BUFFER: Final = 128 * 1024
"""Bytes that one connection can receive in one turn of the event loop, records of TLS without data included."""
_STALL: Final = 0.1
"""Seconds by which a deadline must be late to show that this process stood still."""


class Origin(NamedTuple):
    """Target of requests; a connection serves one origin, so also one TLS identity."""

    tls: bool
    host: str
    port: int
    identity: TlsIdentity | None = None


class IdleConnections:
    """Connections without a request, by origin and by the namespace that used them last.

    If the bound is exceeded, the namespaces with the most idle connections lose their oldest ones. So a tenant with
    thousands of receivers cannot use up the file descriptors, and other tenants lose no connections because of it.

    Args:
        limit: how many are kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._by_origin: dict[Origin, list[Connection]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def take(self, origin: Origin, now: float) -> Connection | None:
        """Return the connection that was used last and can carry a request, so that surplus connections expire."""
        idle = self._by_origin.get(origin)
        while idle:
            connection = idle.pop()
            self._count -= 1
            if connection.reusable and connection.idle_since > now - KEEPALIVE:
                return connection
            connection.abort()
        return None

    def add(self, origin: Origin, namespace: str, connection: Connection, now: float) -> None:
        """Keep a connection on which a request of a namespace ended."""
        connection.idle_since, connection.namespace = now, namespace
        self._by_origin.setdefault(origin, []).append(connection)
        self._count += 1
        if self._count > self._limit:
            # Several at once, because the selection reads all of them.
            self.close(1 + self._limit // 8)

    def sweep(self, now: float) -> bool:
        """Close connections that are idle for too long, and drop closed ones; return whether any are left."""
        oldest = now - KEEPALIVE
        self._drop(
            {connection for connection in self._all() if not (connection.reusable and connection.idle_since > oldest)}
        )
        return bool(self._by_origin)

    def close(self, number: int) -> set[Connection]:
        """Close a number of connections, each time the oldest one of the namespace with the most; return them."""
        by_namespace: dict[str, list[Connection]] = {}
        for connection in sorted(self._all(), key=lambda one: one.idle_since, reverse=True):
            by_namespace.setdefault(connection.namespace, []).append(connection)
        sizes = [(-len(idle), namespace) for namespace, idle in by_namespace.items()]
        heapq.heapify(sizes)
        closing = set()
        for _ in range(min(number, self._count)):
            size, namespace = sizes[0]
            closing.add(by_namespace[namespace].pop())
            heapq.heapreplace(sizes, (size + 1, namespace))
        self._drop(closing)
        return closing

    def clear(self) -> None:
        """Forget all connections without closing them."""
        self._by_origin.clear()
        self._count = 0

    def _all(self) -> Iterator[Connection]:
        return chain.from_iterable(self._by_origin.values())

    def _drop(self, closing: set[Connection]) -> None:
        for connection in closing:
            connection.abort()
        for origin, idle in tuple(self._by_origin.items()):
            remaining = [connection for connection in idle if connection not in closing]
            if remaining:
                self._by_origin[origin] = remaining
            else:
                del self._by_origin[origin]
        self._count -= len(closing)


class Client:
    """Connections to all receivers, as many as there are attempts at once.

    Args:
        guard: checks every address before a connection to it.
        resolver: finds addresses.
        tls: contexts for https.
        idle: maximum number of connections without a request.
        proxy: makes the connections to receivers; None for direct ones.
    """

    def __init__(
        self, guard: Guard, resolver: GuardedResolver, tls: TlsContexts, idle: int, proxy: EgressProxy | None = None
    ) -> None:
        self._guard, self._resolver, self._tls, self._proxy = guard, resolver, tls, proxy
        self._loop = asyncio.get_running_loop()
        self._open: set[Connection] = set()
        self._idle = IdleConnections(idle)
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False

    async def post(
        self, origin: Origin, request: Sequence[bytes], exchange: Exchange, deadline: float, *, namespace: str
    ) -> None:
        """Send a request and read its response into ``exchange``.

        Args:
            origin: host and port to send to.
            request: all its bytes, head and body, in one part or more.
            exchange: receives the response, the step that the attempt has reached, and how long it waited for this
                process.
            deadline: of the whole request, by the event loop's clock; the wait for this process is added to it.
            namespace: the endpoint's namespace.

        Raises:
            AttemptError: the name was not found, or there was no HTTP response.
            DeadlineError: the deadline passed.
            RefusedAddressError: the guard refuses the address.
            NoPlaceError: there was no place for the name look-up.
            ProxyError: the egress proxy failed.
            OSError: no connection could be made, or it broke; ``ssl.SSLError`` too.
        """
        if self._closed:
            raise RuntimeError("the client is closed")
        connection = self._idle.take(origin, self._loop.time())
        if connection is None:
            connection = await self._connect(origin, exchange, deadline, namespace)
        try:
            await connection.ask(request, exchange, deadline + exchange.waited + exchange.extension)
        finally:
            self._give_back(origin, namespace, connection)

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

    def _give_back(self, origin: Origin, namespace: str, connection: Connection) -> None:
        if not connection.reusable:
            connection.abort()
            return
        self._idle.add(origin, namespace, connection, self._loop.time())
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(_SWEEP, self._sweep)

    def _sweep(self) -> None:
        has_idle = self._idle.sweep(self._loop.time())
        self._sweeping = self._loop.call_later(_SWEEP, self._sweep) if has_idle else None

    async def _connect(self, origin: Origin, exchange: Exchange, deadline: float, namespace: str) -> Connection:
        literal = is_literal(origin.host)
        if not literal:
            exchange.waited = await self._resolver.wait_for_place(namespace, origin.host, origin.port)
        began = self._loop.time()
        context = await self._tls.context_of(origin.identity, namespace) if origin.tls else None
        exchange.waited += self._loop.time() - began
        try:
            async with asyncio.timeout(None) as limit, self._expiring(limit, exchange, deadline):
                addresses = [origin.host] if literal else await self._addresses(origin, namespace)
                connection = await self._connected_somehow(origin, addresses, context, exchange)
        except TimeoutError as error:
            # The network's own ETIMEDOUT is a TimeoutError too.
            if self._proxy is not None and limit.expired() and exchange.step is Step.PROXY:
                raise self._proxy.silence() from None
            raise DeadlineError if limit.expired() else error from None
        self._open.add(connection)
        connection.closed.add_done_callback(lambda _: self._open.discard(connection))
        if self._closed:
            connection.abort()
        return connection

    @asynccontextmanager
    async def _expiring(self, limit: asyncio.Timeout, exchange: Exchange, deadline: float) -> AsyncIterator[None]:
        """Let a limit expire at a deadline, unless this process stood still at the deadline.

        Then the attempt goes on for as long as the deadline was late, but no longer than its timeout. After a stall,
        the event loop calls timers before it continues tasks. So a connection that was made in time would look like a
        receiver that does not answer.
        """
        end = deadline + exchange.waited
        remaining = end - self._loop.time()

        def expire() -> None:
            now = self._loop.time()
            if (late := now - end) > _STALL:
                exchange.waited += late
                exchange.extension = min(late, remaining)
            limit.reschedule(now + exchange.extension)

        timer = self._loop.call_at(end, expire)
        try:
            yield
        finally:
            timer.cancel()

    async def _addresses(self, origin: Origin, namespace: str) -> list[str]:
        try:
            return await self._resolver.resolve(namespace, origin.host, origin.port)
        except RefusedAddressError:
            raise
        except OSError as error:
            if own_fault(error):
                raise
            raise AttemptError(lookup_words(error, origin.host)) from error

    async def _connected_somehow(
        self, origin: Origin, addresses: list[str], context: ssl.SSLContext | None, exchange: Exchange
    ) -> Connection:
        """Connect; if no descriptor is left, close idle connections and try once more."""
        try:
            return await self._connected(origin, addresses, context, exchange)
        except OSError as error:
            if own_fault(error) != "descriptors" or not (closing := self._idle.close(_CLOSED_AT_ONCE)):
                raise
        await asyncio.gather(*(connection.closed for connection in closing))
        return await self._connected(origin, addresses, context, exchange)

    async def _connected(
        self, origin: Origin, addresses: list[str], context: ssl.SSLContext | None, exchange: Exchange
    ) -> Connection:
        """Connect to the first address that accepts, with TLS if there is a context."""
        proxy = self._proxy if self._proxy is not None and self._proxy.serves(origin.host, addresses) else None
        while True:
            if proxy is None:
                sock, address = await self._direct_socket(origin, addresses, exchange)
            else:
                sock, address = await self._tunnel(proxy, origin, addresses, exchange)
            try:
                return await self._established(origin, sock, context)
            except OSError:
                addresses = [other for other in addresses if other != address]
                if not addresses:
                    raise

    async def _direct_socket(
        self, origin: Origin, addresses: list[str], exchange: Exchange
    ) -> tuple[socket.socket, str]:
        """Return a socket that is connected to one of the addresses, and that address."""
        own_faults: list[OSError] = []
        address_of: dict[socket.socket, str] = {}

        def guarded_socket(info: aiohappyeyeballs.AddrInfoType) -> socket.socket:
            exchange.step = Step.CONNECT
            family, kind, protocol, _, sockaddr = info
            self._guard.check(str(sockaddr[0]), origin.host)
            try:
                sock = _Socket(family, kind, protocol, own_faults=own_faults)
            except OSError as error:
                own_faults.append(error)
                raise
            address_of[sock] = sockaddr[0]
            return sock

        try:
            sock = await connect(addresses, origin.port, guarded_socket)
        except OSError as error:
            # If addresses fail for different reasons, aiohappyeyeballs raises one error without an errno.
            raise (own_faults[0] if own_faults else error) from None
        return sock, address_of[sock]

    async def _tunnel(
        self, proxy: EgressProxy, origin: Origin, addresses: list[str], exchange: Exchange
    ) -> tuple[socket.socket, str]:
        """Return a socket whose bytes the proxy forwards to one of the addresses, and that address."""
        for address in addresses:
            self._guard.check(address, origin.host)
        for address in addresses:
            try:
                return await proxy.tunnel(origin.host, address, origin.port, exchange), address
            except AttemptError as error:
                fault = error
        raise fault

    async def _established(self, origin: Origin, sock: socket.socket, context: ssl.SSLContext | None) -> Connection:
        """Make a connection of a socket, with TLS if there is a context; the socket is closed if that fails."""
        _close_if_reset(sock)
        # A port of a connection that this process closes is in use for 60 s, unless the close is a reset. A
        # tenant whose handshakes fail could otherwise use all ports towards a receiver of another tenant.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        _, connection = await self._loop.create_connection(
            Connection,
            sock=sock,
            ssl=context,
            # Certificates contain names without a trailing dot.
            server_hostname=origin.host.rstrip(".") if context else None,
        )
        with suppress(OSError):  # the receiver may have closed it meanwhile
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_RESET)
        return connection


class _Socket(socket.socket):
    """Socket that records errors of connecting that this process caused, not the receiver.

    Args:
        own_faults: list to which such errors are added.
    """

    def __init__(self, family: int, kind: int, protocol: int, *, own_faults: list[OSError]) -> None:
        super().__init__(family, kind, protocol)
        self.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        self._own_faults = own_faults

    def connect(self, address: tuple[object, ...]) -> None:  # type: ignore[override]
        """Begin to connect; without a route of the address family the error is ``ENETUNREACH``."""
        try:
            super().connect(address)
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL and not _has_route(self.family, address):
                raise OSError(errno.ENETUNREACH, "no route of this address family") from None
            if own_fault(error):
                self._own_faults.append(error)
            raise


def _close_if_reset(sock: socket.socket) -> None:
    """Close a socket that the peer has reset since it was connected, and raise OSError; ``ENOTCONN`` on Linux."""
    try:
        sock.getpeername()
    except OSError:
        sock.close()
        raise


def _has_route(family: int, address: tuple[object, ...]) -> bool:
    """Return whether a datagram socket, which needs no TCP port, can be connected to an address; sends nothing."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return True
