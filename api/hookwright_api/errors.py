"""Pure: the API's errors.

::

    HookwrightApiError
    ├── SettingsError            a setting is wrong; the process does not start
    ├── ProblemError             a request is refused
    ├── KubeError                the API server answered with an error
    │   └── KubeUnavailable      it did not answer, or answered 429 or 5xx
    ├── OperatorError            the operator answered with an error
    │   └── OperatorUnavailable  it did not answer, or cannot serve right now
    └── LimitsUnavailable        the counters of the rate limits cannot be reached

Every refusal is a `ProblemError`, an RFC 9457 problem document; ``type`` is always ``about:blank``, so ``title`` is the
phrase of the status code and ``detail`` names the error and the correct form (RFC 9457, 4.2.1).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import to_json

_MAX_FAULTS: Final = 50


class HookwrightApiError(Exception):
    """Base of every error that the API raises on purpose."""


class SettingsError(HookwrightApiError):
    """An error of a setting; the message names the setting and the correct form."""


class KubeError(HookwrightApiError):
    """An error that the API server returned for a request.

    Attributes:
        status: HTTP status code, 0 if there was no answer.
        reason: the ``reason`` of the returned Status object, such as ``AlreadyExists``.
        explanation: its ``message``.
        causes: its ``details.causes``: mappings with ``field`` and ``message``.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        explanation: str = "",
        causes: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.explanation = explanation
        self.causes = causes


class KubeUnavailable(KubeError):  # noqa: N818 - the condition, not a fault of the caller
    """The state that the API server cannot be reached or is overloaded; a later retry may succeed."""


class OperatorError(HookwrightApiError):
    """The refusal of a request by the operator.

    Attributes:
        status: HTTP status code of its answer, 0 if there was none.
        problem: its problem document.
        retry_after: seconds until a retry, if the operator gave them.
    """

    def __init__(
        self, message: str, *, status: int = 0, problem: Mapping[str, Any] | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem or {}
        self.retry_after = retry_after


class OperatorUnavailable(OperatorError):  # noqa: N818
    """The state that the operator cannot be reached or cannot serve right now; a later retry may succeed."""


class LimitsUnavailable(HookwrightApiError):  # noqa: N818
    """The state that the counters of the rate limits cannot be reached and the settings then require a refusal."""


MEDIA_TYPE: Final = "application/problem+json"


RETRY_AFTER_SECONDS: Final = 5
"""Seconds that a client should wait before it retries after a 503."""


TITLES: Final = {
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
    """The fault of one field; ``field`` is its path, such as ``events[1]``."""

    field: str
    message: str


class ProblemError(HookwrightApiError):
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


def unauthenticated() -> ProblemError:
    """Return a 401 with the same text for every reason, so that an answer reveals nothing about a credential."""
    return ProblemError(
        401,
        "a valid credential is needed: an API key as X-Service-Key, or a session token as Authorization: Bearer",
        headers={"WWW-Authenticate": 'Bearer realm="hookwright"'},
    )


def not_found(what: str) -> ProblemError:
    """Return a 404, which is equal for a missing object and for an object of another project."""
    return ProblemError(404, f"{what} does not exist")


def unavailable(detail: str, *, retry_after: int | None = None) -> ProblemError:
    """Return a 503 with Retry-After: the request is correct, and it may succeed later."""
    return ProblemError(503, detail, headers={"Retry-After": str(retry_after or RETRY_AFTER_SECONDS)})


def too_many(detail: str, *, retry_after: int | None = None) -> ProblemError:
    """Return a 429 with Retry-After: too many requests of this kind are in progress."""
    return ProblemError(429, detail, headers={"Retry-After": str(retry_after or RETRY_AFTER_SECONDS)})


def invalid(*faults: FieldFault) -> ProblemError:
    """Return a 422 that names every fault."""
    return ProblemError(422, "the request is not valid; nothing was done", errors=faults)


def from_validation(errors: Iterable[Mapping[str, Any]]) -> ProblemError:
    """Return the problem for pydantic's errors: 400 for malformed JSON, otherwise 422.

    The request's content is never repeated: it may be a password or a URL with a credential.
    """
    faults = []
    for error in errors:
        if error["type"] == "json_invalid":
            return ProblemError(400, f"the body is not JSON: {error.get('ctx', {}).get('error', 'malformed')}")
        faults.append(FieldFault(_path(error["loc"]), _sentence(error)))
    return invalid(*faults[:_MAX_FAULTS])


def _sentence(error: Mapping[str, Any]) -> str:
    if error["type"] == "missing":
        return "is missing"
    if error["type"] == "extra_forbidden":
        return "is unknown; omit it"
    return str(error["msg"]).removeprefix("Value error, ")


def _path(location: Iterable[str | int]) -> str:
    first, *rest = (*location, "")
    parts = [part for part in (rest if first in ("body", "query", "path", "header") else [first, *rest]) if part != ""]
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")
