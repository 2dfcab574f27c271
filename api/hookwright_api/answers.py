"""Pure: answers that are not checked again: they are made here, and hot paths have no time for it."""

from typing import Any

from fastapi import Response
from pydantic_core import to_json

from hookwright_api.errors import KubeError, KubeUnavailable, OperatorError, OperatorUnavailable
from hookwright_api.problems import FieldFault, ProblemError, invalid, not_found, too_many, unavailable


def answer(document: Any, status: int = 200, **headers: str) -> Response:
    """Return JSON."""
    return raw_answer(to_json(document), status, **headers)


def raw_answer(body: bytes, status: int = 200, **headers: str) -> Response:
    """Return what is JSON already."""
    return Response(body, status, headers, media_type="application/json")


def list_answer(items: list[bytes]) -> Response:
    """Return ``{data: [...]}`` of items that are JSON already."""
    return raw_answer(b'{"data":[%s]}' % b",".join(items))


def from_operator(error: OperatorError, what: str) -> ProblemError:
    """Return the problem that a refusal of the operator amounts to; ``what`` was asked about."""
    if isinstance(error, OperatorUnavailable) or error.status == 0:
        return unavailable("the operator is away or not ready; nothing was done", retry_after=error.retry_after)
    detail = str(error.problem.get("detail", ""))
    if error.status == 404:
        return not_found(what)
    if error.status == 429:
        return too_many(detail or "too many requests of this kind are under way", retry_after=error.retry_after)
    faults = tuple(
        FieldFault(str(fault.get("field", "")), str(fault.get("message", "")))
        for fault in error.problem.get("errors") or ()
    )
    return ProblemError(error.status, detail, errors=faults)


def from_kube(error: KubeError, what: str) -> ProblemError:
    """Return the problem that a refusal of a write by the API server amounts to; ``what`` was written."""
    if isinstance(error, KubeUnavailable):
        return unavailable("the API server is away; nothing was done")
    if error.status == 422:
        causes = [FieldFault(str(cause.get("field", "")), str(cause.get("message", ""))) for cause in error.causes]
        return invalid(*causes)
    if error.status == 403 and "exceeded quota" in error.explanation:
        return ProblemError(409, f"{what}: the organization's quota is used up")
    if error.status == 404 or _terminating(error):
        return ProblemError(409, f"{what}: the organization is being deleted")
    if error.status == 409:
        return ProblemError(409, f"{what}: it was changed at the same time; try again")
    # What is left is an installation that lacks permissions: nothing that the caller could mend.
    return unavailable("the API may not do this in the cluster right now; nothing was done")


def _terminating(error: KubeError) -> bool:
    return any(cause.get("reason") == "NamespaceTerminating" for cause in error.causes)
