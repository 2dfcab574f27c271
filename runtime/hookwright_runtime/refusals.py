"""Requests and connections that the server itself refuses, before an application sees them."""

import json
import time
from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog
from prometheus_client import Counter
from starlette.types import Receive, Scope, Send

log = structlog.get_logger(__name__)

REFUSAL: Final = "hookwright.refusal"
"""Key of the ASGI scope of a refused request: its `Refusal`."""
RETRY_AFTER_SECONDS: Final = 5
_LOG_SECONDS: Final = 1.0

HTTP_REFUSALS: Final = Counter(
    "hookwright_http_refusals",
    "Requests and connections that the HTTP server ended before any application saw them, by reason; "
    "idle_connection is an idle one that was closed to make room.",
    ["reason"],
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the server refuses a request or a connection.

    Attributes:
        reason: value of the metric's label.
        status: HTTP status code.
        title: phrase of the status code (RFC 9110, RFC 6585).
        detail: the fault, and the correct form.
    """

    reason: str
    status: int
    title: str
    detail: str

    def body(self) -> bytes:
        """Return the problem document (RFC 9457) as JSON."""
        document = {"type": "about:blank", "title": self.title, "status": self.status, "detail": self.detail}
        return json.dumps(document, separators=(",", ":")).encode()

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of the answer, after which the connection is closed."""
        headers = [
            (b"content-type", b"application/problem+json"),
            (b"content-length", b"%d" % len(self.body())),
            (b"connection", b"close"),
        ]
        return [*headers, (b"retry-after", b"%d" % RETRY_AFTER_SECONDS)] if self.status == 503 else headers


HEAD_BYTES: Final = 64 * 1024
URL_BYTES: Final = 8 * 1024
HEADERS: Final = 256
HEAD_SECONDS: Final = 10.0
"""Bounds of the head of a request: bytes of all, bytes of the URL, number of headers, seconds until it is complete."""

HEAD_TOO_LARGE: Final = Refusal(
    "head_too_large",
    431,
    "Request Header Fields Too Large",
    f"the head of a request has at most {HEAD_BYTES} bytes and {HEADERS} headers",
)
URL_TOO_LONG: Final = Refusal("url_too_long", 414, "URI Too Long", f"a URL has at most {URL_BYTES} bytes")
PIPELINED: Final = 16
"""Requests of one connection that may wait for the answer to the one before them."""
PIPELINE_FULL: Final = Refusal(
    "pipelined",
    503,
    "Service Unavailable",
    f"more than {PIPELINED} requests were sent on one connection without waiting for their answers",
)
MALFORMED: Final = Refusal("malformed", 400, "Bad Request", "the request is not valid HTTP/1.1")
TRAILERS_TOO_LARGE: Final = Refusal(
    "trailers_too_large", 400, "Bad Request", f"trailers and chunk extensions have at most {HEAD_BYTES} bytes"
)
HEAD_TOO_SLOW: Final = Refusal(
    "head_too_slow", 408, "Request Timeout", f"the head of a request must be complete within {HEAD_SECONDS:g} s"
)
ADDRESS_FULL: Final = Refusal(
    "connections_of_address",
    503,
    "Service Unavailable",
    "this client address has too many connections with a request under way; reuse connections, or try again later",
)
TOTAL_FULL: Final = Refusal(
    "connections", 503, "Service Unavailable", "too many connections have a request under way; try again later"
)
IDLE_CLOSED: Final = "idle_connection"

for _refusal in (
    HEAD_TOO_LARGE,
    URL_TOO_LONG,
    PIPELINE_FULL,
    MALFORMED,
    TRAILERS_TOO_LARGE,
    HEAD_TOO_SLOW,
    ADDRESS_FULL,
    TOTAL_FULL,
):
    HTTP_REFUSALS.labels(_refusal.reason)
HTTP_REFUSALS.labels(IDLE_CLOSED)


class OncePerSecond:
    """Lets one log line a second pass, so that a client without a credential cannot fill the log.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = float("-inf")

    def passes(self) -> bool:
        """Return whether a line may be written now."""
        now = self._clock()
        if now < self._next:
            return False
        self._next = now + _LOG_SECONDS
        return True


class RefusalLog:
    """Counts refusals in the metric, and writes at most one log line a second with the counts since the last one."""

    def __init__(self) -> None:
        self._since: Tally[str] = Tally()
        self._often = OncePerSecond()

    def note(self, reason: str) -> None:
        """Count one refusal."""
        HTTP_REFUSALS.labels(reason).inc()
        self._since[reason] += 1
        if self._often.passes():
            log.warning("http requests refused by the server", reasons=dict(self._since))
            self._since.clear()


async def answer_refusal(scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer a refused request with its problem document; an ASGI application."""
    refusal: Refusal = scope[REFUSAL]
    await send({"type": "http.response.start", "status": refusal.status, "headers": refusal.headers()})
    await send({"type": "http.response.body", "body": refusal.body()})
