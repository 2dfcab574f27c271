"""The installation's proxy for deliveries: a tunnel to a receiver for each connection, by CONNECT (RFC 9110 9.3.6)."""

import asyncio
import re
import socket
from base64 import b64encode
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_network
from typing import Final
from urllib.parse import unquote, urlsplit

import structlog

from hookwright_operator.delivery.http.connection import Exchange
from hookwright_operator.delivery.http.error_messages import AttemptError, NoPlaceError, ProxyError, Step, own_fault
from hookwright_operator.delivery.http.guard import Guard, host_suffix, is_literal
from hookwright_operator.delivery.http.resolver import GuardedResolver, Lookup
from hookwright_operator.delivery.http.sockets import connect
from hookwright_runtime.errors import RefusedAddressError
from hookwright_runtime.log_bounds import LogBound

log = structlog.get_logger(__name__)

_URL: Final = re.compile(r"http://([^/?#@\s:]+(:[^/?#@\s]*)?@)?(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?/?")
_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")
_HEAD_LIMIT: Final = 16 * 1024
"""Bytes of the proxy's answer."""
_EVERYWHERE: Final = ("0.0.0.0/0", "::/0")


def check_proxy_url(url: str) -> str:
    """Return the URL of a proxy.

    Raises:
        ValueError: it has another form; the message does not repeat it, because it may have a password.
    """
    if url and not _URL.fullmatch(url):
        raise ValueError(
            "is no URL of a proxy; write http://proxy.example.com:3128, or http://user:password@proxy.example.com:3128 "
            "with special characters percent-encoded"
        )
    return url


def proxy_exception(text: str) -> str:
    """Return a host or network that is reached without the proxy, in its usual form.

    Raises:
        ValueError: it is neither a network, an address nor a domain.
    """
    try:
        return str(ip_network(text)) if "/" in text or is_literal(text) else host_suffix(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is neither a network nor a domain; write 10.0.0.0/8, or internal.example.com without scheme, "
            "port and path"
        ) from None


class EgressProxy:
    """The proxy; one for the process, created in the event loop that sends.

    Args:
        url: ``http://host:port``, with ``user:password@`` before the host if the proxy wants them.
        exceptions: domains and networks of receivers that are reached without it.
        lookup: finds the addresses of the proxy, which the guard of deliveries does not judge.
    """

    def __init__(self, url: str, exceptions: Iterable[str], lookup: Lookup) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        credentials = b""
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            credentials = b"Proxy-Authorization: Basic %b\r\n" % b64encode(pair)
        self._credentials = credentials
        names = tuple(exceptions)
        networks = [name for name in names if "/" in name]
        # What this guard refuses is an exception.
        self._exceptions = Guard(_EVERYWHERE, networks, denied_hosts=[name for name in names if "/" not in name])
        self._resolver = GuardedResolver(Guard(_EVERYWHERE), lookup)
        self._log_bound = LogBound(burst=1, rate=1 / 60)

    async def close(self) -> None:
        """Begin no more look-ups."""
        await self._resolver.close()

    def serves(self, host: str, addresses: Iterable[str]) -> bool:
        """Return whether the proxy reaches a receiver: its host and one of its addresses are no exception."""
        try:
            self._exceptions.check_host(host)
        except RefusedAddressError:
            return False
        return not all(self._is_exception(address) for address in addresses)

    def _is_exception(self, address: str) -> bool:
        try:
            self._exceptions.check(address)
        except RefusedAddressError:
            return True
        return False

    async def tunnel(self, host: str, address: str, port: int, exchange: Exchange) -> socket.socket:
        """Return a socket whose bytes go to an address.

        Args:
            host: of the receiver, which some proxies judge.
            address: of the receiver, which the guard allows.
            port: of the receiver.
            exchange: its step becomes CONNECT when the proxy has accepted the connection.

        Raises:
            ProxyError: the proxy cannot be reached, refuses the credentials, or does not answer in HTTP.
            AttemptError: the proxy refuses the address, or cannot connect to it.
            OSError: this process lacks a resource for the connection.
        """
        exchange.step = Step.PROXY
        try:
            sock = await self._connect()
        except OSError as error:
            if own_fault(error):
                raise
            raise self._fault("cannot be reached") from None
        except NoPlaceError:
            raise self._fault("cannot be looked up now") from None
        exchange.step = Step.CONNECT
        try:
            await self._ask(sock, host, f"[{address}]:{port}" if ":" in address else f"{address}:{port}")
        except BaseException:
            sock.close()
            raise
        return sock

    def silence(self) -> ProxyError:
        """Return the fault of a proxy that accepts no connection in time."""
        return self._fault("does not accept a connection")

    async def _connect(self) -> socket.socket:
        addresses = [self._host]
        if not is_literal(self._host):
            addresses = await self._resolver.resolve("", self._host, self._port)
        return await connect(addresses, self._port)

    async def _ask(self, sock: socket.socket, host: str, target: str) -> None:
        loop = asyncio.get_running_loop()
        head = b""
        with suppress(OSError):  # it may have closed the connection; then there is no complete answer
            await loop.sock_sendall(
                sock, f"CONNECT {target} HTTP/1.1\r\nHost: {host}\r\n".encode() + self._credentials + b"\r\n"
            )
            while b"\r\n\r\n" not in head and len(head) < _HEAD_LIMIT and (piece := await loop.sock_recv(sock, 4096)):
                head += piece
        answer, end, rest = head.partition(b"\r\n\r\n")
        status = _STATUS.match(answer + b"\r") if end else None
        if status is None:
            raise self._fault("closed the connection without an answer in HTTP")
        code = int(status[1])
        if code in {401, 407}:  # tinyproxy answers 401 to a wrong password
            raise self._fault(f"refuses the credentials of HOOKWRIGHT_PROXY_URL (HTTP {code})")
        if not 200 <= code < 300:
            raise AttemptError(f"the egress proxy cannot connect, or refuses: HTTP {code}")
        if rest:
            raise AttemptError("invalid HTTP answer: it came before the request")

    def _fault(self, words: str) -> ProxyError:
        if self._log_bound.take("proxy"):
            log.warning("egress proxy failed", fault=words)
        return ProxyError(f"the egress proxy {words}")
