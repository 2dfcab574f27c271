"""Pure: answers without validation, because this package creates them and hot paths need the time."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fastapi import Response
from pydantic_core import to_json

from hookwright_api.operator_client import OperatorError, OperatorUnavailable
from hookwright_runtime.errors import KubeError, KubeUnavailable
from hookwright_runtime.problems import FieldFault, ProblemError, invalid, not_found, too_many, unavailable

_MAX_FAULTS: Final = 50
"""Faults that one answer names."""


def answer(document: Any, status: int = 200, **headers: str) -> Response:
    """Return JSON."""
    return raw_answer(to_json(document), status, **headers)


def raw_answer(body: bytes, status: int = 200, **headers: str) -> Response:
    """Return a body that is already JSON."""
    return Response(body, status, headers, media_type="application/json")


def list_answer(items: list[bytes]) -> Response:
    """Return ``{data: [...]}`` of items that are already JSON."""
    return raw_answer(b'{"data":[%s]}' % b",".join(items))


def from_operator(error: OperatorError, what: str) -> ProblemError:
    """Return the problem for an error of the operator about the object ``what``."""
    if isinstance(error, OperatorUnavailable) or error.status == 0:
        return unavailable("the operator is unavailable or not ready; nothing was done", retry_after=error.retry_after)
    detail = str(error.problem.get("detail", ""))
    if error.status == 404:
        return not_found(what)
    if error.status == 429:
        return too_many(detail or "too many requests of this kind are in progress", retry_after=error.retry_after)
    faults = tuple(
        FieldFault(str(fault.get("field", "")), str(fault.get("message", "")))
        for fault in error.problem.get("errors") or ()
    )
    return ProblemError(error.status, detail, errors=faults)


def from_kube(error: KubeError, what: str) -> ProblemError:
    """Return the problem for a write of ``what`` that the API server refused."""
    if isinstance(error, KubeUnavailable):
        return unavailable("the API server is unavailable; nothing was done")
    if error.status == 422:
        causes = [FieldFault(str(cause.get("field", "")), str(cause.get("message", ""))) for cause in error.causes]
        return invalid(*causes)
    if error.status == 403 and "exceeded quota" in error.explanation:
        return ProblemError(409, f"{what}: the organization's quota is used up")
    if error.status == 404 or _terminating(error):
        return ProblemError(409, f"{what}: the organization is being deleted")
    if error.status == 409:
        return ProblemError(409, f"{what}: it was changed at the same time; retry")
    # The remaining cause is a missing permission of the installation, which the caller cannot correct.
    return unavailable("the API lacks a permission in the cluster for this; nothing was done")


def _terminating(error: KubeError) -> bool:
    return any(cause.get("reason") == "NamespaceTerminating" for cause in error.causes)


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
