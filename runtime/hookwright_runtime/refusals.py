"""Requests and connections that the server itself refuses, before an application sees them."""

from dataclasses import dataclass
from typing import Final

import structlog
from prometheus_client import Counter
from starlette.types import Receive, Scope, Send

from hookwright_runtime.log_bounds import LogBound
from hookwright_runtime.problems import CLOSE, ProblemError, send_problem

log = structlog.get_logger(__name__)

REFUSAL: Final = "hookwright.refusal"
"""Key of the ASGI scope of a refused request: its `Refusal`."""

HTTP_REFUSALS: Final = Counter(
    "hookwright_http_refusals",
    "Requests and connections that the HTTP server ended before any application saw them, by reason; "
    "makes_room (an idle connection, or one with an incomplete request) was closed for a new one, and unread_answer "
    "because its client did not read.",
    ["reason"],
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the server refuses a request or a connection.

    Attributes:
        reason: value of the metric's label.
        problem: the answer, after which the connection is closed.
    """

    reason: str
    problem: ProblemError


def _refusal(reason: str, status: int, detail: str) -> Refusal:
    HTTP_REFUSALS.labels(reason)
    return Refusal(reason, ProblemError(status, detail, headers=CLOSE))


HEAD_BYTES: Final = 64 * 1024
URL_BYTES: Final = 8 * 1024
HEADERS: Final = 256
HEAD_SECONDS: Final = 10.0
"""Bounds of the head of a request: bytes of all, bytes of the URL, number of headers, seconds until it is complete."""

HEAD_TOO_LARGE: Final = _refusal(
    "head_too_large",
    431,
    f"the head of a request has at most {HEAD_BYTES} bytes and {HEADERS} headers",
)
URL_TOO_LONG: Final = _refusal("url_too_long", 414, f"a URL has at most {URL_BYTES} bytes")
PIPELINED: Final = 16
"""Requests of one connection that may wait for the answer to the one before them."""
PIPELINE_FULL: Final = _refusal(
    "pipelined",
    503,
    f"more than {PIPELINED} requests were sent on one connection without waiting for their answers",
)
MALFORMED: Final = _refusal("malformed", 400, "the request is not valid HTTP/1.1")
TRAILERS_TOO_LARGE: Final = _refusal(
    "trailers_too_large", 400, f"trailers and chunk extensions have at most {HEAD_BYTES} bytes"
)
HEAD_TOO_SLOW: Final = _refusal(
    "head_too_slow", 408, f"the head of a request must be complete within {HEAD_SECONDS:g} s"
)
CONNECTIONS_FULL: Final = _refusal(
    "connections",
    503,
    "too many connections of this client address, or of all, have a request under way; reuse connections, or try again "
    "later",
)
ROOM_CLOSED: Final = "makes_room"
UNREAD_CLOSED: Final = "unread_answer"
for _reason in (ROOM_CLOSED, UNREAD_CLOSED):
    HTTP_REFUSALS.labels(_reason)


class RefusalLog:
    """Counts refusals in the metric, and logs the number of each reason once a second."""

    def __init__(self) -> None:
        self._bound = LogBound(burst=0, rate=0, report=self._report)

    def note(self, reason: str) -> None:
        """Count one refusal; its log line comes within a second."""
        HTTP_REFUSALS.labels(reason).inc()
        self._bound.allow(reason)

    def _report(self, reason: str, count: int) -> None:
        log.warning("http requests refused by the server", reason=reason, requests=count)


async def answer_refusal(scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer a refused request with its problem document; an ASGI application."""
    refusal: Refusal = scope[REFUSAL]
    await send_problem(send, refusal.problem)
