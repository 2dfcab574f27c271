"""Sends one signed attempt to one endpoint, and tells plainly what became of it.

One :class:`Sender` serves all endpoints: it holds the one guarded HTTP client of the process, with
its connections, its TLS context and its name look-ups.
"""

import asyncio
import socket
import ssl
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Final, Self

import aiohttp
import structlog
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from yarl import URL

from hookwright_crds.resources import RESERVED_HEADERS
from hookwright_operator.delivery.answers import excerpt, retry_after_ms
from hookwright_operator.delivery.faults import Step, fault_words, status_words, timeout_words
from hookwright_operator.delivery.guard import Guard, GuardedResolver, Lookup, system_lookup
from hookwright_operator.delivery.outcome import Outcome
from hookwright_operator.delivery.signing import signature_headers
from hookwright_operator.errors import RefusedAddressError
from hookwright_operator.registry import Endpoint

log = structlog.get_logger(__name__)

RESPONSE_LIMIT: Final = 4096
"""How many bytes of an answer are kept unless told otherwise."""
READ_LIMIT: Final = 64 * 1024
"""How many bytes of an answer are read so that its connection can be used again."""

_KEEPALIVE: Final = 4.0
"""Seconds, below the 5 after which Node, uvicorn and Apache close an idle connection and could cut an attempt short."""
_PREPARED: Final = 4096
_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)
"""aiohttp's own timeouts stay off: theirs are rounded up to seconds, and one deadline covers all."""


class Sender:
    """The one guarded client. Use it as an async context manager, or start and close it.

    Args:
        guard: judges every address before it is connected to.
        user_agent: value of the User-Agent header, ``Hookwright/<version>``.
        allow_http: whether plain ``http://`` URLs may be sent to.
        tls: context for https, the system's trust store by default.
        lookup: finds a name's addresses; blocks, and is called in a thread.
        response_limit: how many bytes of an answer are kept, counted after decompression.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        user_agent: str,
        allow_http: bool,
        tls: ssl.SSLContext | None = None,
        lookup: Lookup = system_lookup,
        response_limit: int = RESPONSE_LIMIT,
    ) -> None:
        self._guard = guard
        self._user_agent = user_agent
        self._allow_http = allow_http
        self._tls = tls
        self._lookup = lookup
        self._response_limit = response_limit
        self._target = lru_cache(maxsize=_PREPARED)(self._prepare)
        self._session: aiohttp.ClientSession | None = None
        self._resolver: GuardedResolver | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Make the client; needs the running loop that will send."""
        self._resolver = GuardedResolver(self._guard, self._lookup)
        self._session = aiohttp.ClientSession(
            connector=_GuardedConnector(self._guard, self._resolver, self._tls or _default_tls()),
            headers={
                "User-Agent": self._user_agent,
                "Content-Type": "application/json",
                "Accept": "*/*",
                "Accept-Encoding": "identity",
            },
            timeout=_NO_TIMEOUT,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
        )

    async def close(self) -> None:
        """Close all connections; attempts in flight fail."""
        if self._session is not None:
            await self._session.close()
        if self._resolver is not None:
            await self._resolver.close()

    async def send(self, endpoint: Endpoint, *, message_id: str, body: bytes, now: Callable[[], float]) -> Outcome:
        """Make one attempt; whatever fails is told in the outcome and not raised.

        Args:
            endpoint: where to, how long (``timeout`` covers the whole attempt) and signed with what.
            message_id: ``webhook-id``, constant over all attempts of a delivery.
            body: the exact bytes that are signed and sent.
            now: the clock, in seconds since the epoch.
        """
        started, clock = now(), asyncio.get_running_loop().time
        begun = clock()
        attempt = _Attempt()
        fault = ""
        try:
            async with asyncio.timeout(endpoint.timeout) as deadline:
                await self._exchange(attempt, endpoint, message_id, int(started), body)
        except Exception as error:  # noqa: BLE001 - every failure becomes an outcome
            fault = timeout_words(endpoint.timeout, attempt.step) if deadline.expired() else _words(error, attempt)
        return Outcome(
            status_code=attempt.status,
            error=(status_words(attempt.status) if attempt.status else "") or fault,
            response=excerpt(attempt.kept, attempt.coding, self._response_limit) if attempt.kept else "",
            duration_ms=int((clock() - begun) * 1000) + 1,
            started_ms=int(started * 1000),
            retry_after_ms=retry_after_ms(attempt.retry_after, now()) if attempt.retry_after else None,
        )

    async def _exchange(
        self, attempt: "_Attempt", endpoint: Endpoint, message_id: str, timestamp: int, body: bytes
    ) -> None:
        if self._session is None:
            raise RuntimeError("the sender was not started")
        target = self._target(endpoint)
        attempt.host = target.host
        _current.set(attempt)
        try:
            signatures = signature_headers(endpoint.secrets, message_id, timestamp, body)
        except ValueError as error:
            raise _UnsendableError(str(error)) from error
        answer = await self._session.post(
            target.url, data=body, headers={**target.headers, **signatures}, allow_redirects=False
        )
        try:
            attempt.answered(answer)
            await self._read(answer.content, attempt)
        finally:
            # A complete answer has already handed its connection back; any other takes it along.
            answer.close()

    async def _read(self, content: aiohttp.StreamReader, attempt: "_Attempt") -> None:
        seen = 0
        while seen < READ_LIMIT and (chunk := await content.readany()):
            seen += len(chunk)
            room = self._response_limit - len(attempt.kept)
            if room > 0:
                attempt.kept += chunk[:room]

    def _prepare(self, endpoint: Endpoint) -> "_Target":
        if not endpoint.secrets:
            raise _UnsendableError("the endpoint has no signing secret yet")
        url = _url(endpoint.url)
        if url.scheme != "https" and not (url.scheme == "http" and self._allow_http):
            raise _UnsendableError(f"{url.scheme} URL refused: only https is allowed")
        host = url.raw_host or ""
        self._guard.check_host(host)
        static = {name: value for name, value in endpoint.headers if name.lower() not in RESERVED_HEADERS}
        return _Target(url, host, static)


@dataclass(frozen=True, slots=True)
class _Target:
    """What stays the same over all attempts at one state of an endpoint."""

    url: URL
    host: str
    headers: dict[str, str]


class _UnsendableError(Exception):
    """Nothing can be sent to an endpoint as it is; the message is fit for the delivery log."""


class _Attempt:
    """How far an attempt has come, so that one that is cut short can say so."""

    __slots__ = ("coding", "host", "kept", "retry_after", "status", "step")

    def __init__(self) -> None:
        self.step = Step.LOOKUP
        self.host = ""
        self.status = 0
        self.kept = b""
        self.coding = ""
        self.retry_after = ""

    def answered(self, answer: aiohttp.ClientResponse) -> None:
        self.step = Step.BODY
        self.status = answer.status
        self.coding = answer.headers.get("Content-Encoding", "")
        if answer.status in (429, 503):
            self.retry_after = answer.headers.get("Retry-After", "")


_current: ContextVar[_Attempt] = ContextVar("attempt")


class _GuardedConnector(aiohttp.TCPConnector):
    """Connects to what the guard lets through, and notes how far the current attempt has come."""

    def __init__(self, guard: Guard, resolver: GuardedResolver, tls: ssl.SSLContext) -> None:
        super().__init__(
            resolver=resolver,
            ttl_dns_cache=10,
            ssl=tls,
            limit=0,
            keepalive_timeout=_KEEPALIVE,
            socket_factory=self._guarded_socket,
        )
        self._guard = guard

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - theirs
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        _current.get().step = Step.ANSWER
        return connection

    def _guarded_socket(self, found: aiohttp.AddrInfoType) -> socket.socket:
        """Make the socket for one address, after the last look at that address."""
        attempt = _current.get()
        attempt.step = Step.CONNECT
        family, kind, protocol, _, sockaddr = found
        self._guard.check(str(sockaddr[0]), attempt.host)
        return socket.socket(family, kind, protocol)


def _url(text: str) -> URL:
    # As it was written, byte for byte, where it needs no encoding: some receivers sign their query.
    as_written = text.isascii() and text.isprintable() and " " not in text
    try:
        url = URL(text, encoded=as_written)
        complete = bool(url.raw_host and url.port)
    except ValueError:
        complete = False
    if not complete:
        raise _UnsendableError("invalid URL")
    return url


def _default_tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _words(error: Exception, attempt: _Attempt) -> str:
    match error:
        case _UnsendableError():
            return str(error)
        case RefusedAddressError():
            return f"address refused: {error}"
    words = fault_words(error, attempt.step)
    if not words:
        # Without the exception's text, which may quote a header or the URL.
        stack = "".join(traceback.format_tb(error.__traceback__))
        log.error("attempt.internal_error", error=type(error).__name__, stack=stack)
        words = f"internal error: {type(error).__name__}"
    return words
