"""Pure: the intake's errors as RFC 9457 problem documents.

Every refusal is a `ProblemError`. ``type`` is always ``about:blank``, so ``title`` is the phrase of the status code.
``detail`` names the error and the correct form (RFC 9457, 4.2.1).
"""

from dataclasses import dataclass
from typing import Final

from pydantic_core import to_json

from hookwright_runtime.errors import HookwrightError

MEDIA_TYPE: Final = b"application/problem+json"
RETRY_AFTER_SECONDS: Final = 5
"""Seconds that a client should wait before it retries after a 503."""

_TITLES: Final = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


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
        headers: tuple[tuple[str, str], ...] = (),
        trace: str = "",
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = errors
        self.headers = headers
        self.trace = trace

    @property
    def title(self) -> str:
        """The phrase of the status code, from RFC 9110."""
        return _TITLES.get(self.status, "Error")

    def body(self) -> bytes:
        """Return the problem document as JSON."""
        document: dict[str, object] = {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            document["errors"] = [{"field": fault.field, "message": fault.message} for fault in self.errors]
        if self.trace:
            document["traceId"] = self.trace
        return to_json(document)


def unauthenticated() -> ProblemError:
    """Return a 401 with the same text for every reason, so that an answer reveals nothing about a token."""
    return ProblemError(
        401,
        "a valid ServiceAccount token for the audience hookwright is needed, as Authorization: Bearer <token>",
        headers=(("WWW-Authenticate", "Bearer"),),
    )


def not_found(what: str) -> ProblemError:
    """Return a 404 for an object that does not exist or that the caller may not see: ``what`` names it."""
    return ProblemError(404, f"{what} does not exist")


def unavailable(detail: str) -> ProblemError:
    """Return a 503 with Retry-After: the request is correct, and it may succeed later."""
    return ProblemError(503, detail, headers=(("Retry-After", str(RETRY_AFTER_SECONDS)),))


def too_many(detail: str) -> ProblemError:
    """Return a 429 with Retry-After: the caller has used up its own limit."""
    return ProblemError(429, detail, headers=(("Retry-After", str(RETRY_AFTER_SECONDS)),))


def too_large(detail: str) -> ProblemError:
    """Return a 413 before the body was read completely, so the connection must be closed."""
    return ProblemError(413, detail, headers=(("Connection", "close"),))
