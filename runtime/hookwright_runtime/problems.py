"""Pure: refusals of HTTP requests as RFC 9457 problem documents.

Every refusal is a `ProblemError`. ``code`` is one of `Code`, and ``type`` is the URL of its description in the
documentation. ``title`` is the phrase of the status code. ``detail`` names the error and the correct form.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Final, Self

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
"""Seconds that a client should wait before it retries after a 429 or 503 without another time."""
CLOSE: Final = {"Connection": "close"}
"""Headers of an answer that ends the connection, because the request was not read completely."""

TITLES: Final = {status.value: status.phrase for status in HTTPStatus} | {
    413: "Content Too Large",
    414: "URI Too Long",
    422: "Unprocessable Content",
}
"""Phrases of the status codes (RFC 9110); older versions of Python have some of earlier documents."""
TYPE_BASE: Final = "https://hookwright.dev/docs/problems/#"
"""Beginning of every ``type``: the page docs/problems.md, which has a section for each code."""


class Code(StrEnum):
    """The kind of a problem. A code keeps its meaning; a later version may add codes.

    The first code of a status is that of every problem without a special one.
    """

    status: int
    meaning: str

    def __new__(cls, name: str, status: int, meaning: str) -> Self:
        """Return a code with its status and its meaning."""
        code = str.__new__(cls, name)
        code._value_, code.status, code.meaning = name, status, meaning
        return code

    BAD_REQUEST = "bad_request", 400, "The request is not valid HTTP/1.1, or its body is missing or incomplete."
    MALFORMED_JSON = "malformed_json", 400, "The body is not strict JSON, for example by NaN, 1e999 or a repeated name."
    SEVERAL_CREDENTIALS = "several_credentials", 400, "The request has more than one credential, or one of them twice."
    UNAUTHENTICATED = "unauthenticated", 401, "The credential is missing, unknown, revoked or expired."
    LOGIN_FAILED = "login_failed", 401, "The email or the password is wrong."
    FORBIDDEN = "forbidden", 403, "The caller lacks the permission, the role or the scope."
    WRONG_CREDENTIAL = "wrong_credential", 403, "The route does not accept this kind of credential."
    NOT_FOUND = "not_found", 404, "The path or the object does not exist, or the object belongs to another project."
    METHOD_NOT_ALLOWED = "method_not_allowed", 405, "The path does not accept this method, only those in `Allow`."
    REQUEST_TIMEOUT = "request_timeout", 408, "The head or the body of the request was not complete in time."
    CONFLICT = "conflict", 409, "The request contradicts the present state of the object."
    QUOTA_EXCEEDED = "quota_exceeded", 409, "The quota of the organization is used up."
    EVENT_ID_REUSED = "event_id_reused", 409, "An event's `id` was accepted within 24 hours with other content."
    PRECONDITION_FAILED = "precondition_failed", 412, "`If-Match` has the ETag of another state."
    CONTENT_TOO_LARGE = "content_too_large", 413, "The body, or one event in it, is too large."
    URI_TOO_LONG = "uri_too_long", 414, "The URL is too long."
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type", 415, "The body has another media type, or a content encoding."
    INVALID_REQUEST = "invalid_request", 422, "A field is not valid; `errors` names each one, and nothing was done."
    TOO_MANY_DELIVERIES = "too_many_deliveries", 422, "The events have too many deliveries. Send fewer in a request."
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused", 422, "The key was used within 24 hours for another request."
    TOO_MANY_REQUESTS = "too_many_requests", 429, "Too many of these requests are in progress. Wait for `Retry-After`."
    RATE_LIMITED = "rate_limited", 429, "A rate limit is used up. Wait for `Retry-After`."
    HEADERS_TOO_LARGE = "headers_too_large", 431, "The head of the request is too large, or has too many headers."
    INTERNAL_ERROR = "internal_error", 500, "An error of the service; `trace_id` leads to its log."
    UNAVAILABLE = "unavailable", 503, "A service that the request needs is unavailable. Wait for `Retry-After`."


_CODE_OF: Final = {code.status: code for code in reversed(Code)}


def code_of(status: int) -> Code:
    """Return the code of the problems of a status that have no special one."""
    return _CODE_OF.get(status, Code.INTERNAL_ERROR if status >= 500 else Code.BAD_REQUEST)


def known_code(code: object) -> Code | None:
    """Return the code of a problem document of another process; None if this version does not know it."""
    return next((known for known in Code if known == code), None)


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
        headers: further headers of the answer; those of a 429 or 503 have Retry-After, of ``retry_after`` or 5 seconds.
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
        retry_after: int | None = None,
        trace: str = "",
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code or code_of(status)
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})
        if status in (429, 503):
            self.headers["Retry-After"] = str(retry_after or RETRY_AFTER_SECONDS)
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


async def send_problem(send: Send, problem: ProblemError) -> None:
    """Answer a request with a problem document."""
    body = problem.body()
    headers = {"Content-Type": MEDIA_TYPE, "Content-Length": str(len(body)), **problem.headers}
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def not_found(subject: str) -> ProblemError:
    """Return a 404 for an object that does not exist or that the caller may not see: ``subject`` names it."""
    return ProblemError(404, f"{subject} does not exist")


def unavailable(detail: str, *, retry_after: int | None = None) -> ProblemError:
    """Return a 503: the request is correct, and it may succeed later."""
    return ProblemError(503, detail, retry_after=retry_after)


def malformed_json(detail: str) -> ProblemError:
    """Return a 400 for a body that is not strict JSON; ``detail`` names the error."""
    return ProblemError(400, f"the body is not a JSON text: {detail}", code=Code.MALFORMED_JSON)


def invalid(*faults: FieldFault, code: Code | None = None) -> ProblemError:
    """Return a 422 that names every fault."""
    return ProblemError(422, "the request is not valid; nothing was done", code=code, errors=faults)
