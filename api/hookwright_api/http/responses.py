"""Pure: answers without validation, because this package creates them and hot paths need the time."""

from typing import Any, Final

from fastapi import Response
from pydantic_core import to_json

from hookwright_runtime.errors import KubeError, KubeUnavailable
from hookwright_runtime.problems import (
    NOTHING_DONE,
    OUTCOME_UNKNOWN,
    Code,
    FieldFault,
    ProblemError,
    invalid,
    unavailable,
)

_REPEAT_WRITE: Final = (
    "It can be repeated with the same Idempotency-Key; if it had none, look at the present state before you repeat it"
)


def answer(document: Any, status: int = 200, **headers: str) -> Response:
    """Return JSON."""
    return raw_answer(to_json(document), status, **headers)


def raw_answer(body: bytes, status: int = 200, **headers: str) -> Response:
    """Return a body that is already JSON."""
    return Response(body, status, headers, media_type="application/json")


def list_answer(items: list[bytes], following: str | None) -> Response:
    """Return ``{data: [...], next}`` of items that are already JSON; ``following`` is the cursor of the next page."""
    return raw_answer(b'{"data":[%b],"next":%b}' % (b",".join(items), to_json(following)))


def from_kube(error: KubeError, subject: str) -> ProblemError:
    """Return the problem for a write of ``subject`` that the API server refused."""
    if isinstance(error, KubeUnavailable):
        outcome = f"{OUTCOME_UNKNOWN}. {_REPEAT_WRITE}" if error.outcome_unknown else NOTHING_DONE
        return unavailable(f"the API server is unavailable; {outcome}")
    if error.status == 422:
        causes = [FieldFault(str(cause.get("field", "")), str(cause.get("message", ""))) for cause in error.causes]
        return invalid(*causes)
    if error.status == 403 and "exceeded quota" in error.explanation:
        return ProblemError(409, f"{subject}: the organization's quota is used up", code=Code.QUOTA_EXCEEDED)
    if error.status == 404 or _terminating(error):
        return ProblemError(409, f"{subject}: the organization is being deleted")
    if error.status == 409:
        return ProblemError(409, f"{subject}: it was changed at the same time; retry")
    # The remaining cause is a missing permission of the installation, which the caller cannot correct.
    return unavailable("the API lacks a permission in the cluster for this; nothing was done")


def _terminating(error: KubeError) -> bool:
    return any(cause.get("reason") == "NamespaceTerminating" for cause in error.causes)
