"""HTTP/1.1 (RFC 9112), limited to the needs of a delivery: one request and its response.

:class:`Exchange` parses a response and does no I/O. :class:`Connection` carries one exchange after the other.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, cast

import httptools

from hookwright_operator.delivery.http.error_messages import AttemptError, DeadlineError, Step

HEADERS_LIMIT: Final = 2048
"""How many bytes of a response's headers are kept, names and values together; a header beyond it is left out."""
MOST_HEADERS: Final = 1000
"""Headers of a response. Each one costs the event loop a call, and 20,000 would fit into ``READ_LIMIT``."""
READ_LIMIT: Final = 64 * 1024
"""How many bytes are read in response to a request: interim responses, headers, framing and body together."""

_INVALID: Final = "invalid HTTP answer"
_CLOSED: Final = f"connection closed while {Step.ANSWER}"
_CUT_SHORT: Final = "invalid HTTP answer: the body is malformed or cut short"


class Exchange:
    """Response to one request, parsed as it arrives; parsed parts stay available if the attempt is cut short.

    A response whose body exceeds ``READ_LIMIT`` counts as read. The result does not depend on how the bytes are
    split into pieces.

    Args:
        keep: how many bytes of the body are kept.

    Attributes:
        step: the current step of the attempt.
        status: of the final response, 0 until its headers are complete and if the response is not HTTP.
        coding: its Content-Encoding, '' if it has none.
        retry_after: its Retry-After, '' if it has none.
        headers: its headers, names and values as received, up to ``HEADERS_LIMIT``.
        body: its beginning, as received.
        reusable: whether both sides keep the connection, and no other data than this response arrived.
        waited: seconds for which the attempt waited for this process: for a place in a queue, or while the process
            stood still.
        extension: seconds by which the deadline was moved because this process stood still.
    """

    __slots__ = (
        "_chunked",
        "_done",
        "_headers_left",
        "_headers_seen",
        "_in_head",
        "_keep",
        "_left",
        "_parser",
        "_sized",
        "body",
        "coding",
        "extension",
        "headers",
        "retry_after",
        "reusable",
        "status",
        "step",
        "waited",
    )  # fmt: skip

    def __init__(self, keep: int) -> None:
        self.step = Step.LOOKUP
        self.status = 0
        self.coding = ""
        self.retry_after = ""
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.reusable = False
        self.waited = 0.0
        self.extension = 0.0
        self._keep = keep
        self._left = READ_LIMIT
        self._headers_left = HEADERS_LIMIT
        self._headers_seen = 0
        self._done = False
        self._in_head = True
        self._chunked = False
        self._sized = False
        self._parser: httptools.HttpResponseParser | None = None

    def feed(self, data: bytes) -> bool:
        """Parse received data, and return whether the response is complete.

        Raises:
            AttemptError: the data is no HTTP, or its headers do not end within ``READ_LIMIT`` or ``MOST_HEADERS``.
        """
        parser = self._parser or self._begin()
        beyond = len(data) > self._left
        if beyond:
            data = data[: self._left]
        self._left -= len(data)
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._done:
                raise self._unusable(_INVALID) from error
            self.reusable = False
        if not self._done and not self._left:
            if not self.status:
                raise self._unusable(_INVALID)
            self._done = True
        if beyond:
            self.reusable = False
        if self._done:
            self._parser = None  # the parser refers to this object; this breaks the cycle
        return self._done

    def end(self, *, broken: bool) -> None:
        """Finish the response, because the connection was closed or is broken.

        Raises:
            AttemptError: the response is incomplete.
        """
        if not self.status:
            raise self._unusable(_CLOSED)
        self._done, self._parser = True, None
        if broken or self._chunked or self._sized:
            raise AttemptError(_CUT_SHORT)

    def _begin(self) -> httptools.HttpResponseParser:
        parser = self._parser = httptools.HttpResponseParser(self)
        # Receivers run software of every age. Lenient parsing is safe, because no proxy or cache reads these responses.
        parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        return parser

    def _unusable(self, words: str) -> AttemptError:
        """Reset the fields that were parsed from an invalid response."""
        self._done, self._parser, self.reusable = True, None, False
        self.status, self.coding, self.retry_after, self.body, self.headers = 0, "", "", b"", []
        return AttemptError(words)

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        """Expect a head; no message should begin after the response."""
        if self._done:
            self.reusable = False
            return
        self._in_head, self._chunked, self._sized = True, False, False
        self.coding = self.retry_after = ""
        self.headers, self._headers_left = [], HEADERS_LIMIT

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header, unless it is in the trailers."""
        if self._done or not self._in_head:
            return
        self._headers_seen += 1
        if self._headers_seen > MOST_HEADERS:
            raise ValueError("too many headers")
        room = self._headers_left - len(name) - len(value)
        if room >= 0:
            self.headers.append((name, value))
            self._headers_left = room
        match name.lower():
            case b"content-length":
                self._sized = True
            case b"transfer-encoding":
                self._chunked = value.rpartition(b",")[2].strip().lower() == b"chunked"
            case b"content-encoding":
                self.coding = self.coding or value.decode("utf-8", "surrogateescape")
            case b"retry-after":
                self.retry_after = self.retry_after or value.decode("utf-8", "surrogateescape")

    def on_headers_complete(self) -> None:
        """Store the status, unless it is that of an interim response."""
        if self._done:
            return
        status = cast("httptools.HttpResponseParser", self._parser).get_status_code()
        if status < 100:
            raise ValueError("no HTTP status")
        # A 1xx response precedes the final one (RFC 9110 15.2), except 101, after which there is no HTTP.
        if status < 200 and status != 101:
            return
        self._in_head = False
        self.status, self.step, self._done = status, Step.BODY, status == 101

    def on_body(self, body: bytes) -> None:
        """Store a part of the body, up to the limit."""
        room = self._keep - len(self.body)
        if room > 0 and not self._done:
            self.body += body[:room]

    def on_message_complete(self) -> None:
        """Mark the response as complete, unless it is an interim response."""
        if self._done or self._in_head:
            return
        self._done = True
        self.reusable = cast("httptools.HttpResponseParser", self._parser).should_keep_alive()


class Connection(asyncio.Protocol):
    """Connection to one receiver; carries one request at a time.

    Attributes:
        reusable: whether another request may be sent on it.
        idle_since: when the last request was answered, by the event loop's clock.
        namespace: the namespace of the last request.
        closed: done once the connection is closed.
    """

    def __init__(self) -> None:
        self.reusable = False
        self.idle_since = 0.0
        self.namespace = ""
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._answer: asyncio.Future[None] | None = None
        self._early = b""
        self._over = False
        self._error: Exception | None = None

    async def ask(self, request: Sequence[bytes], exchange: Exchange, deadline: float) -> None:
        """Send a request, head and body, and read its response.

        Args:
            request: all its bytes, in one part or more.
            exchange: receives the response.
            deadline: of the request, by the event loop's clock.

        Raises:
            AttemptError: there was no response, or it was not HTTP.
            DeadlineError: the deadline passed.
            OSError: the connection broke while waiting for the response.
        """
        exchange.step = Step.ANSWER
        self._exchange, self.reusable = exchange, False
        answer = self._answer = self._loop.create_future()
        timer = self._loop.call_at(deadline, self._expire, answer)
        try:
            self._write(request)
            await answer
        finally:
            timer.cancel()

    def abort(self) -> None:
        """Abort the transport; pending and later `ask` calls fail."""
        self.reusable, self._over = False, True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Pass received data to the current exchange."""
        exchange, answer = self._exchange, self._answer
        if exchange is None or answer is None:
            self._early += data
        elif answer.done():
            # Data without a request: it could not be distinguished from the next response.
            self.reusable = False
        else:
            try:
                if exchange.feed(data):
                    self._settle(exchange, answer)
            except AttemptError as error:
                answer.set_exception(error)

    def eof_received(self) -> None:
        """End the exchange, because the receiver sends no more; the transport then closes itself."""
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange, because the connection is closed."""
        self._end(exc)
        if not self.closed.done():
            self.closed.set_result(None)

    def _write(self, request: Sequence[bytes]) -> None:
        if not self._over:
            transport = cast("asyncio.Transport", self._transport)
            for part in request:
                transport.write(part)
        # Some receivers send a response or close before the request arrives.
        if self._early:
            early, self._early = self._early, b""
            self.data_received(early)
        if self._over:
            self._end(self._error)

    def _settle(self, exchange: Exchange, answer: "asyncio.Future[None]") -> None:
        """Finish the exchange; do not reuse the connection if a part of the request is still unsent."""
        is_written = cast("asyncio.Transport", self._transport).get_write_buffer_size() == 0
        self.reusable = exchange.reusable and is_written and not self._over
        answer.set_result(None)

    def _end(self, error: Exception | None) -> None:
        self.reusable, self._over, self._error = False, True, self._error or error
        exchange, answer = self._exchange, self._answer
        if exchange is None or answer is None or answer.done():
            return
        if error is not None and not exchange.status:
            answer.set_exception(error)
            return
        try:
            exchange.end(broken=error is not None)
        except AttemptError as fault:
            answer.set_exception(fault)
        else:
            answer.set_result(None)

    def _expire(self, answer: "asyncio.Future[None]") -> None:
        if not answer.done():
            answer.set_exception(DeadlineError())
