"""Pure: refusals of HTTP requests as RFC 9457 problem documents.

Every refusal is a `ProblemError`. ``type`` is always ``about:blank``, so ``title`` is the phrase of the status code.
``detail`` names the error and the correct form (RFC 9457, 4.2.1).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic_core import to_json
from starlette.types import Send

from hookwright_runtime.errors import HookwrightError

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER_SECONDS: Final = 5
"""Seconds that a client should wait before it retries after a 503."""
CLOSE: Final = {"Connection": "close"}
"""Headers of an answer that ends the connection, because the request was not read completely."""

TITLES: Final = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    414: "URI Too Long",
    415: "Unsupported Media Type",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
"""Phrases of the status codes (RFC 9110, RFC 6585)."""


@dataclass(frozen=True, slots=True)
class FieldFault:
    """The fault of one field; ``field`` is its path, such as ``[3].type`` or ``data.messageId``."""

    field: str
    message: str


class ProblemError(HookwrightError):
    """The refusal of a request.

    Attributes:
        status: HTTP status code.
        errors: the single faults, if several are named.
        headers: further headers of the answer.
        trace: the request's id in the log; empty if the log has no further details.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: tuple[FieldFault, ...] = (),
        headers: Mapping[str, str] | None = None,
        trace: str = "",
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})
        self.trace = trace

    def body(self) -> bytes:
        """Return the problem document as JSON."""
        document: dict[str, object] = {
            "type": "about:blank",
            "title": TITLES.get(self.status, "Error"),
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            document["errors"] = [{"field": fault.field, "message": fault.message} for fault in self.errors]
        if self.trace:
            document["traceId"] = self.trace
        return to_json(document)


async def send_problem(send: Send, problem: ProblemError, *, more: bool = False) -> None:
    """Answer a request with a problem document; with ``more``, the caller ends the answer."""
    body = problem.body()
    headers = {"Content-Type": MEDIA_TYPE, "Content-Length": str(len(body)), **problem.headers}
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": more})


def not_found(what: str) -> ProblemError:
    """Return a 404 for an object that does not exist or that the caller may not see: ``what`` names it."""
    return ProblemError(404, f"{what} does not exist")


def unavailable(detail: str, *, retry_after: int | None = None) -> ProblemError:
    """Return a 503 with Retry-After: the request is correct, and it may succeed later."""
    return ProblemError(503, detail, headers={"Retry-After": str(retry_after or RETRY_AFTER_SECONDS)})


def too_many(detail: str, *, retry_after: int | None = None) -> ProblemError:
    """Return a 429 with Retry-After: the caller has used up its own limit."""
    return ProblemError(429, detail, headers={"Retry-After": str(retry_after or RETRY_AFTER_SECONDS)})


def too_large(detail: str) -> ProblemError:
    """Return a 413 before the body was read completely, so the connection must be closed."""
    return ProblemError(413, detail, headers=CLOSE)


def invalid(*faults: FieldFault) -> ProblemError:
    """Return a 422 that names every fault."""
    return ProblemError(422, "the request is not valid; nothing was done", errors=faults)
