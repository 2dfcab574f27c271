"""Pure: answers without validation, because this package creates them and hot paths need the time."""

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from fastapi import Response
from pydantic_core import to_json

from hookwright_api.operator_client import OperatorError, OperatorUnavailable
from hookwright_crds.endpoint_fields import CLOUDEVENT_HEADERS_SENTENCE, PUSH_ONLY_SENTENCE, URL_OR_PULL_SENTENCE
from hookwright_crds.rules import SENTENCES
from hookwright_runtime.errors import KubeError, KubeUnavailable
from hookwright_runtime.problems import (
    MAX_FAULTS,
    Code,
    FieldFault,
    ProblemError,
    invalid,
    known_code,
    not_found,
    too_many,
    unavailable,
)

_FIELDS: Final = {
    CLOUDEVENT_HEADERS_SENTENCE: "headers",
    PUSH_ONLY_SENTENCE: "pull",
    URL_OR_PULL_SENTENCE: "url",
}
"""The field to correct, by the sentence of a rule for several fields."""
_SUBJECT: Final = re.compile(r"^[A-Z][a-z]+ should ")
"""The beginning of a message of pydantic, whose subject is a Python type."""
_NOTHING_DONE: Final = "nothing was done"
_UNKNOWN: Final = "it is not known whether the request was done"
_REPEAT_TO_OPERATOR: Final = (
    "Events can be sent again with the same ids or the same Idempotency-Key; before you repeat another request, look "
    "at the present state"
)
_REPEAT_WRITE: Final = (
    "It can be repeated with the same Idempotency-Key; if it had none, look at the present state before you repeat it"
)
_LONGEST: Final = 256
"""Most characters of a name in the path of a fault, which may come from the request."""


def answer(document: Any, status: int = 200, **headers: str) -> Response:
    """Return JSON."""
    return raw_answer(to_json(document), status, **headers)


def raw_answer(body: bytes, status: int = 200, **headers: str) -> Response:
    """Return a body that is already JSON."""
    return Response(body, status, headers, media_type="application/json")


def list_answer(items: list[bytes], following: str | None) -> Response:
    """Return ``{data: [...], next}`` of items that are already JSON; ``following`` is the cursor of the next page."""
    return raw_answer(b'{"data":[%b],"next":%b}' % (b",".join(items), to_json(following)))


def from_operator(error: OperatorError, what: str) -> ProblemError:
    """Return the problem for an error of the operator about the object ``what``."""
    detail = str(error.problem.get("detail", ""))
    if isinstance(error, OperatorUnavailable) or error.status == 0:
        outcome = f"{_UNKNOWN}. {_REPEAT_TO_OPERATOR}" if error.outcome_unknown else _NOTHING_DONE
        away = f"the operator, or a service that it needs, is unavailable; {outcome}"
        return unavailable(detail or away, retry_after=error.retry_after)
    if error.status == 404:
        return not_found(what)
    code = known_code(error.problem.get("code"))
    if error.status == 429:
        text = detail or "too many requests of this kind are in progress"
        return too_many(text, retry_after=error.retry_after, code=code)
    faults = tuple(
        FieldFault(str(fault.get("field", "")), str(fault.get("message", "")))
        for fault in error.problem.get("errors") or ()
    )
    return ProblemError(error.status, detail, code=code, errors=faults)


def from_kube(error: KubeError, what: str) -> ProblemError:
    """Return the problem for a write of ``what`` that the API server refused."""
    if isinstance(error, KubeUnavailable):
        outcome = f"{_UNKNOWN}. {_REPEAT_WRITE}" if error.outcome_unknown else _NOTHING_DONE
        return unavailable(f"the API server is unavailable; {outcome}")
    if error.status == 422:
        causes = [FieldFault(str(cause.get("field", "")), str(cause.get("message", ""))) for cause in error.causes]
        return invalid(*causes)
    if error.status == 403 and "exceeded quota" in error.explanation:
        return ProblemError(409, f"{what}: the organization's quota is used up", code=Code.QUOTA_EXCEEDED)
    if error.status == 404 or _terminating(error):
        return ProblemError(409, f"{what}: the organization is being deleted")
    if error.status == 409:
        return ProblemError(409, f"{what}: it was changed at the same time; retry")
    # The remaining cause is a missing permission of the installation, which the caller cannot correct.
    return unavailable("the API lacks a permission in the cluster for this; nothing was done")


def _terminating(error: KubeError) -> bool:
    return any(cause.get("reason") == "NamespaceTerminating" for cause in error.causes)


def from_validation(errors: Iterable[Mapping[str, Any]]) -> ProblemError:
    """Return the 422 for pydantic's errors.

    The request's content is never repeated: it may be a password or a URL with a credential.
    """
    listed = list(islice(errors, MAX_FAULTS))
    return invalid(*(_fault(error) for error in listed if not _follows(error, listed)))


def _follows(error: Mapping[str, Any], listed: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a list is too short only because its wrong items do not count."""
    place = tuple(error["loc"])
    return error["type"] == "too_short" and any(
        len(one["loc"]) > len(place) and tuple(one["loc"])[: len(place)] == place for one in listed
    )


def _fault(error: Mapping[str, Any]) -> FieldFault:
    sentence = _sentence(error)
    return FieldFault(_path(error["loc"]) or _FIELDS.get(sentence, ""), sentence)


def _sentence(error: Mapping[str, Any]) -> str:
    if error["type"] == "missing":
        return "is missing"
    if error["type"] == "extra_forbidden":
        return "is unknown; omit it"
    if error["type"] == "string_pattern_mismatch" and (known := SENTENCES.get(error["ctx"]["pattern"])):
        return known["message"]
    said = str(error["msg"]).removeprefix("Value error, ").partition(" after validation, not ")[0]
    return _SUBJECT.sub("must ", said).replace("valid tuple", "valid list")


def _path(location: Iterable[str | int]) -> str:
    # The last part of a map's wrong name is [key]; the name itself comes before it.
    first, *rest = (*location, "")
    parts = rest if first in ("body", "query", "path", "header") else [first, *rest]
    named = [part for part in parts if part not in ("", "[key]")]
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part[:_LONGEST]}" for part in named).lstrip(".")
