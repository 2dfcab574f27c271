"""Pure: refusals of HTTP requests as RFC 9457 problem documents.

Every refusal is a `ProblemError`. ``code`` is one of `Code`, and ``type`` is the URL of its description in the
documentation. ``title`` is the phrase of the status code. ``detail`` names the error and the correct form.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pydantic_core import to_json
from starlette.types import Send

from hookwright_runtime.errors import HookwrightError

MEDIA_TYPE: Final = "application/problem+json"
STORE_FAILED: Final = "the store cannot read or write now"
"""Detail of the operator's 503 that may come after a commit. Its other 503s come before anything was written."""
NOTHING_DONE: Final = "nothing was done"
OUTCOME_UNKNOWN: Final = "it is not known whether the request was done"
MAX_FAULTS: Final = 50
"""Faults that one answer names; a body could have thousands."""
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
    412: "Precondition Failed",
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


TYPE_BASE: Final = "https://hookwright.dev/docs/problems/#"
"""Beginning of every ``type``: the page docs/problems.md, which has a section for each code."""


class Code(StrEnum):
    """The kind of a problem. A code keeps its meaning; a later version may add codes."""

    BAD_REQUEST = "bad_request"
    MALFORMED_JSON = "malformed_json"
    SEVERAL_CREDENTIALS = "several_credentials"
    UNAUTHENTICATED = "unauthenticated"
    LOGIN_FAILED = "login_failed"
    FORBIDDEN = "forbidden"
    WRONG_CREDENTIAL = "wrong_credential"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    REQUEST_TIMEOUT = "request_timeout"
    CONFLICT = "conflict"
    QUOTA_EXCEEDED = "quota_exceeded"
    EVENT_ID_REUSED = "event_id_reused"
    PRECONDITION_FAILED = "precondition_failed"
    CONTENT_TOO_LARGE = "content_too_large"
    URI_TOO_LONG = "uri_too_long"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    INVALID_REQUEST = "invalid_request"
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused"
    TOO_MANY_REQUESTS = "too_many_requests"
    RATE_LIMITED = "rate_limited"
    HEADERS_TOO_LARGE = "headers_too_large"
    INTERNAL_ERROR = "internal_error"
    UNAVAILABLE = "unavailable"


CODES: Final[dict[Code, tuple[int, str]]] = {
    Code.BAD_REQUEST: (400, "The request is not valid HTTP/1.1, or its body is missing or incomplete."),
    Code.MALFORMED_JSON: (
        400,
        "The body is not strict JSON (byte order mark, repeated name, NaN, 1e999); `detail` has the place, if known.",
    ),
    Code.SEVERAL_CREDENTIALS: (400, "The request has more than one credential, or one of them twice."),
    Code.UNAUTHENTICATED: (401, "The credential is missing, unknown, revoked or expired: one wording for all."),
    Code.LOGIN_FAILED: (401, "The email or the password is wrong."),
    Code.FORBIDDEN: (403, "The caller lacks the permission, the role or the scope."),
    Code.WRONG_CREDENTIAL: (403, "The route does not accept this kind of credential."),
    Code.NOT_FOUND: (404, "The path or the object does not exist, or the object belongs to another project."),
    Code.METHOD_NOT_ALLOWED: (405, "The path does not accept this method; the header `Allow` lists those it accepts."),
    Code.REQUEST_TIMEOUT: (408, "The head or the body of the request was not complete in time."),
    Code.CONFLICT: (409, "The request contradicts the present state of the object."),
    Code.QUOTA_EXCEEDED: (409, "The quota of the organization is used up."),
    Code.EVENT_ID_REUSED: (409, "An event's `id` was accepted within 24 hours with other content."),
    Code.PRECONDITION_FAILED: (412, "`If-Match` has the ETag of another state."),
    Code.CONTENT_TOO_LARGE: (413, "The body, or one event in it, is too large."),
    Code.URI_TOO_LONG: (414, "The URL is too long."),
    Code.UNSUPPORTED_MEDIA_TYPE: (415, "The body has another media type, or a content encoding."),
    Code.INVALID_REQUEST: (422, "A field is not valid; `errors` names each one, and nothing was done."),
    Code.IDEMPOTENCY_KEY_REUSED: (422, "The `Idempotency-Key` was used within 24 hours for another request."),
    Code.TOO_MANY_REQUESTS: (429, "Too many requests of this kind are in progress. Wait for `Retry-After`."),
    Code.RATE_LIMITED: (429, "A rate limit is used up. Wait for `Retry-After`."),
    Code.HEADERS_TOO_LARGE: (431, "The head of the request is too large, or has too many headers."),
    Code.INTERNAL_ERROR: (500, "An error of the service; `trace_id` leads to its log."),
    Code.UNAVAILABLE: (503, "A service that the request needs is unavailable. Wait for `Retry-After`."),
}
"""Status and meaning of each code. The first code of a status is that of every problem without a special one."""

_CODE_OF: Final = {status: code for code, (status, _) in reversed(CODES.items())}


def code_of(status: int) -> Code:
    """Return the code of the problems of a status that have no special one."""
    return _CODE_OF.get(status, Code.INTERNAL_ERROR if status >= 500 else Code.BAD_REQUEST)


def known_code(code: object) -> Code | None:
    """Return the code of a problem document of another process; None if this version does not know it."""
    return Code(code) if isinstance(code, str) and code in CODES else None


@dataclass(frozen=True, slots=True)
class FieldFault:
    """The fault of one field; ``field`` is its path, such as ``[3].type`` or ``data.messageId``."""

    field: str
    message: str


class ProblemError(HookwrightError):
    """The refusal of a request.

    Attributes:
        status: HTTP status code.
        code: the kind of the problem.
        errors: the single faults, if several are named.
        headers: further headers of the answer.
        trace: the request's id in the log; empty if the log has no further details.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: Code | None = None,
        errors: tuple[FieldFault, ...] = (),
        headers: Mapping[str, str] | None = None,
        trace: str = "",
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code or code_of(status)
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})
        self.trace = trace

    def body(self) -> bytes:
        """Return the problem document as JSON."""
        document: dict[str, object] = {
            "type": f"{TYPE_BASE}{self.code}",
            "title": TITLES.get(self.status, "Error"),
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        if self.errors:
            document["errors"] = [{"field": fault.field, "message": fault.message} for fault in self.errors]
        if self.trace:
            document["trace_id"] = self.trace
        return to_json(document)


async def send_problem(send: Send, problem: ProblemError, *, has_more: bool = False) -> None:
    """Answer a request with a problem document; with ``has_more``, the caller ends the answer."""
    body = problem.body()
    headers = {"Content-Type": MEDIA_TYPE, "Content-Length": str(len(body)), **problem.headers}
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": has_more})


def not_found(subject: str) -> ProblemError:
    """Return a 404 for an object that does not exist or that the caller may not see: ``subject`` names it."""
    return ProblemError(404, f"{subject} does not exist")


def unavailable(detail: str, *, retry_after: int | None = None) -> ProblemError:
    """Return a 503 with Retry-After: the request is correct, and it may succeed later."""
    return ProblemError(503, detail, headers={"Retry-After": str(retry_after or RETRY_AFTER_SECONDS)})


def too_many(detail: str, *, retry_after: int | None = None, code: Code | None = None) -> ProblemError:
    """Return a 429 with Retry-After: the caller has used up its own limit."""
    return ProblemError(429, detail, code=code, headers={"Retry-After": str(retry_after or RETRY_AFTER_SECONDS)})


def too_large(detail: str) -> ProblemError:
    """Return a 413 before the body was read completely, so the connection must be closed."""
    return ProblemError(413, detail, headers=CLOSE)


def malformed_json(detail: str) -> ProblemError:
    """Return a 400 for a body that is not strict JSON; ``detail`` has the place of the error."""
    return ProblemError(400, f"the body is not a JSON text: {detail}", code=Code.MALFORMED_JSON)


def invalid(*faults: FieldFault, code: Code | None = None) -> ProblemError:
    """Return a 422 that names every fault."""
    return ProblemError(422, "the request is not valid; nothing was done", code=code, errors=faults)
