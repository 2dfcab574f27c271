"""HTTP/1.1 of one connection: uvicorn's protocol over httptools, with bounds on heads, times and connections.

Every second the server calls `expire` on the connections whose deadline has passed:

- a head must be complete 10 s after its first byte, or after the connection was opened;
- an idle connection is closed after 75 s;
- the rest of a body must arrive within 10 s after the response;
- the client must read: a response that makes no progress for 30 s ends the connection. If clients leave more than
  `MOST_UNREAD` bytes unread, the oldest connections of the address with the most of them end.

The application bounds the time of a body that it reads.
"""

import asyncio
import math
from collections import Counter
from types import SimpleNamespace
from typing import Any, Final

import httptools
from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from hookwright_runtime import refusals
from hookwright_runtime.connections import ConnectionBounds, Connections, Holder
from hookwright_runtime.refusals import (
    HEAD_BYTES,
    HEAD_SECONDS,
    HEADERS,
    PIPELINED,
    REFUSAL,
    UNREAD_CLOSED,
    URL_BYTES,
    Refusal,
    RefusalLog,
)

IDLE_SECONDS: Final = 75.0
"""Longer than the 60 s after which load balancers close idle connections, so that they close first."""
STALL_SECONDS: Final = 30.0
MOST_UNREAD: Final = 96 * 1024 * 1024
"""Bytes of answers that the clients of a listener have not read; answers are in memory until then."""
LINGER_SECONDS: Final = 1.0
MOST_LINGERING: Final = 64
"""Connections beyond the bounds that get an answer at the same time; the others are closed without one."""


class Listener:
    """What the connections of one listener share.

    Attributes:
        connections: the open connections.
        refuse: answers refused requests; its scope has a `Refusal` under `REFUSAL`.
        unread: the bytes that clients which do not read fast enough have not read, the oldest connection first.
        lingering: refused connections that are still open.
    """

    def __init__(self, bounds: ConnectionBounds, refuse: ASGIApp) -> None:
        self.connections: Connections[BoundedProtocol] = Connections(bounds)
        self.refuse = refuse
        self.refused = RefusalLog()
        self.unread: dict[BoundedProtocol, int] = {}
        self.lingering = 0

    def bound_unread(self) -> None:
        """End connections until the others have at most `MOST_UNREAD` unread bytes."""
        while sum(self.unread.values()) > MOST_UNREAD:
            sizes: Counter[str] = Counter()
            for connection, size in self.unread.items():
                sizes[connection.address] += size
            ((largest, _),) = sizes.most_common(1)
            next(connection for connection in self.unread if connection.address == largest).end(UNREAD_CLOSED)


_NO_REQUEST: Final = 0
_HEAD: Final = 1
_BODY: Final = 2
"""What the next byte of a connection belongs to; integers, because an enumeration costs 1 % of a request."""


class _RefusedError(Exception):
    """Stops the parser."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection of a client."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        listener: Listener,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.url = b""
        self.headers = []
        self.deadline = math.inf
        self.write_deadline = math.inf
        self._listener = listener
        self._holder: Holder[BoundedProtocol] | None = None
        self._reading = _NO_REQUEST
        # Bytes since a head was complete or a piece of a body came.
        self._without_progress = 0
        self._refusal: Refusal | None = None
        self._lingers = False
        # The head of an answer, until it is written; None before there is one.
        self._head: bytes | None = None

    # ---- connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit the connection, or refuse it."""
        super().connection_made(transport)
        # The transport of answers, whose end does not reset the connection.
        self._answering = SimpleNamespace(write=self._write, is_closing=transport.is_closing, close=self._close)
        self.deadline = self.loop.time() + HEAD_SECONDS
        self._holder, leaving = self._listener.connections.add(self, self.client[0] if self.client else None)
        if leaving is not None:
            leaving._holder = None  # noqa: SLF001 - an instance of the same class
            leaving.end(refusals.ROOM_CLOSED)
        if self._holder is not None:
            return
        self._listener.lingering += 1
        if self._listener.lingering > MOST_LINGERING:
            self._refusal = refusals.CONNECTIONS_FULL
            self.end(self._refusal.reason)
        else:
            self._refuse(refusals.CONNECTIONS_FULL)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the place of the connection."""
        self._listener.unread.pop(self, None)
        if self._holder is not None:
            self._listener.connections.remove(self, self._holder)
            self._holder = None
        elif self._refusal is refusals.CONNECTIONS_FULL:
            self._listener.lingering -= 1
        super().connection_lost(exc)

    @property
    def address(self) -> str:
        """What the connections of this client are counted under; empty if the connection was refused."""
        return self._holder.address if self._holder is not None else ""

    def end(self, reason: str) -> None:
        """Close the connection at once, without an answer."""
        self._listener.unread.pop(self, None)
        self._listener.refused.note(reason)
        self.transport.abort()

    def pause_writing(self) -> None:
        """Note that the client does not read fast enough."""
        super().pause_writing()
        self.write_deadline = self.loop.time() + STALL_SECONDS
        self._listener.unread[self] = self.transport.get_write_buffer_size()
        self._listener.bound_unread()

    def resume_writing(self) -> None:
        """Note that the client has read."""
        super().resume_writing()
        self._listener.unread.pop(self, None)
        self.write_deadline = math.inf

    def expire(self, now: float) -> None:
        """End the connection if a deadline has passed; a head that is too slow is answered 408."""
        if now >= self.write_deadline:
            self.transport.abort()
        elif now < self.deadline:
            return
        elif self._reading is _HEAD and self._refusal is None and not self.transport.is_closing():
            self._refuse(refusals.HEAD_TOO_SLOW)
        elif self.transport.is_closing() or self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    # ---- reading

    def data_received(self, data: bytes) -> None:
        """Parse the received bytes, at most `HEAD_BYTES` at once."""
        if len(data) <= HEAD_BYTES:
            self._feed(data)
            return
        for start in range(0, len(data), HEAD_BYTES):
            self._feed(data[start : start + HEAD_BYTES])

    def _feed(self, data: bytes) -> None:
        if self._refusal is not None or self._lingers or self.parser is None:
            return
        self._without_progress += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse(cause.args[0] if isinstance(cause, _RefusedError) else refusals.MALFORMED)
        else:
            if self._without_progress > HEAD_BYTES:
                self._refuse(self._too_large())

    def _too_large(self) -> Refusal:
        if self._reading is _BODY:
            return refusals.TRAILERS_TOO_LARGE
        return refusals.URL_TOO_LONG if len(self.url) > URL_BYTES else refusals.HEAD_TOO_LARGE

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Read the body of a request that asks for another protocol, as RFC 9110, section 7.8, allows.

        The parser takes the bytes after such a head for the other protocol. A new parser that is given the framing
        of the request reads them as its body. The connection ends with the response.
        """
        self.cycle.keep_alive = False
        framing = [(name, value) for name, value in self.scope["headers"] if name in _FRAMING]
        self.parser = httptools.HttpRequestParser(
            SimpleNamespace(on_body=self.on_body, on_message_complete=self.on_message_complete)
        )
        head = b"POST / HTTP/1.1\r\n" + b"".join(b"%b: %b\r\n" % pair for pair in framing) + b"\r\n"
        try:
            self.parser.feed_data(head)
        except httptools.HttpParserError:
            # The first parser does not check the framing of such a request.
            self._refuse(refusals.MALFORMED)
        else:
            if rest:
                self._feed(rest)

    def on_message_begin(self) -> None:
        """Begin a head."""
        super().on_message_begin()
        self._reading = _HEAD
        self.deadline = self.loop.time() + HEAD_SECONDS

    def on_headers_complete(self) -> None:
        """Start the application, unless the head is too large."""
        if len(self.url) > URL_BYTES:
            raise _RefusedError(refusals.URL_TOO_LONG)
        if len(self.pipeline) >= PIPELINED:
            raise _RefusedError(refusals.PIPELINE_FULL)
        if len(self.headers) > HEADERS or (self._without_progress > HEAD_BYTES and self._head_size() > HEAD_BYTES):
            raise _RefusedError(refusals.HEAD_TOO_LARGE)
        super().on_headers_complete()
        self.cycle.transport = self._answering  # type: ignore[assignment]
        self._reading = _BODY
        self._without_progress = 0
        self.deadline = math.inf
        if self._holder is not None:
            self._holder.idle.pop(self, None)
            self._holder.arriving[self] = None
        # Trailers are read into this list, which no application sees.
        self.headers = []

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def on_body(self, body: bytes) -> None:
        """Hand a piece of the body to the application."""
        self._without_progress = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the body, unless it is still to be read because the parser stopped at an upgrade."""
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        if self._holder is not None:
            self._holder.arriving.pop(self, None)
        self._reading = _NO_REQUEST
        self._without_progress = 0
        if self.cycle.response_complete:
            self._rest()

    def on_response_complete(self) -> None:
        """Start the next pipelined request, or wait for the client."""
        self._flush_head()
        self._head = None
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            self.deadline = self.loop.time() + HEAD_SECONDS
            return
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        else:
            # Not before: each read may hold thousands of small requests.
            self.flow.resume_reading()
            self._rest()

    def _rest(self) -> None:
        """Wait for the next request, or for the rest of a message, until the deadline.

        The connection counts as idle also while a body is missing, because its request is answered.
        """
        if self._reading is _BODY:
            self.deadline = self.loop.time() + (LINGER_SECONDS if self._lingers else HEAD_SECONDS)
        elif self._reading is _NO_REQUEST:
            self.deadline = self.loop.time() + IDLE_SECONDS
        if self._holder is not None:
            self._holder.arriving.pop(self, None)
            self._holder.idle[self] = None

    # ---- writing

    def _write(self, data: bytes) -> None:
        """Write a piece of an answer, the head with the body's first piece: each write is a call of the system."""
        if self._head is None and not data.startswith(_CONTINUE):
            self._head = data
            return
        if self._head:
            data, self._head = self._head + data, b""
        self.transport.write(data)

    def _flush_head(self) -> None:
        if self._head:
            self.transport.write(self._head)
            self._head = b""

    # ---- refusing

    def _refuse(self, refusal: Refusal) -> None:
        """Refuse a request; no later bytes of the client are parsed."""
        self._refusal = refusal
        self._listener.refused.note(refusal.reason)
        self.deadline = self.loop.time() + HEAD_SECONDS
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self._answer(refusal)
        elif self._reading is _BODY and not self.pipeline and not cycle.response_started:
            # The application learns that the client is gone, and the refusal is the answer.
            cycle.disconnected = True
            cycle.message_event.set()
            self._answer(refusal)
        else:
            # An earlier request is answered before the connection is closed.
            cycle.keep_alive = False
            if self._reading is not _BODY:
                self.deadline = math.inf

    def _answer(self, refusal: Refusal) -> None:
        self.flow.resume_reading()
        scope: Any = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": "http",
            "method": "",
            "root_path": "",
            "path": self.url[:URL_BYTES].decode("latin-1"),
            "raw_path": self.url[:URL_BYTES],
            "query_string": b"",
            "headers": list(self.headers),
            "state": {},
            REFUSAL: refusal,
        }
        self.cycle = RequestResponseCycle(
            scope=scope,
            transport=self._answering,  # type: ignore[arg-type]
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=False,
            on_response=lambda: None,
        )
        self._start_asgi_task(self.cycle, self._listener.refuse)  # type: ignore[arg-type]

    def _close(self) -> None:
        """Close the connection after an answer; while the client may still send, discard its bytes for a second.

        Closing a socket that holds unread bytes resets the connection, and the client would not read the answer
        (RFC 9112, section 9.6).
        """
        self._flush_head()
        if self.transport.is_closing() or (self._reading is not _BODY and self._refusal is None):
            self.transport.close()
            return
        self.transport.write_eof()
        self._lingers = True
        self.deadline = self.loop.time() + LINGER_SECONDS


_CONTINUE: Final = b"HTTP/1.1 100 "
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})
