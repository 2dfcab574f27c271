"""Pure: the documents of requests, validated, and the 422 for their faults."""

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from hookwright_crds.documents.forms import BEFORE_SINCE, Request
from hookwright_crds.endpoint_fields import (
    CLOUDEVENT_HEADERS_SENTENCE,
    PUSH_ONLY_SENTENCE,
    SIGNATURE_HEADER_SENTENCE,
    URL_OR_PULL_SENTENCE,
)
from hookwright_crds.rules import SENTENCES
from hookwright_runtime.problems import MAX_FAULTS, FieldFault, ProblemError, invalid
from hookwright_runtime.request_body import check_values, parse_json

R = TypeVar("R", bound=Request)

_FIELDS: Final = {
    BEFORE_SINCE: "until",
    CLOUDEVENT_HEADERS_SENTENCE: "headers",
    SIGNATURE_HEADER_SENTENCE: "extra_signature.header",
    URL_OR_PULL_SENTENCE: "url",
}
"""The field to correct, by the sentence of a rule for several fields."""
_PUSH_ONLY: Final = PUSH_ONLY_SENTENCE.removeprefix("{}")
"""The end of a sentence that begins with the field to correct."""
_SUBJECT: Final = re.compile(r"^[A-Z][a-z]+ should ")
"""The beginning of a message of pydantic, whose subject is a Python type."""
_LONGEST: Final = 256
"""Most characters of a name in the path of a fault, which may come from the request."""


def body_of(model: type[R], body: bytes) -> R:
    """Return the document of a body.

    Raises:
        ProblemError: 400, it is no strict JSON; 422 with each fault.
    """
    check_values(body, model.most_values)
    # The reader of pydantic accepts what other readers understand differently, or not at all.
    parse_json(body)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise from_validation(error.errors(include_url=False, include_input=False)) from None


def query_of(model: type[R], query: Mapping[str, Any]) -> R:
    """Return the document of a query; a parameter without a value is absent.

    Raises:
        ProblemError: 422 with each fault.
    """
    # Of thousands of unknown names, few are looked at; one is enough for the refusal.
    pairs = ((name, value) for name, value in query.items() if value not in (None, ""))
    try:
        return model.model_validate(dict(islice(pairs, len(model.model_fields) + MAX_FAULTS)))
    except ValidationError as error:
        raise from_validation(error.errors(include_url=False, include_input=False)) from None


def from_validation(errors: Iterable[Mapping[str, Any]]) -> ProblemError:
    """Return the 422 for pydantic's errors.

    The request's content is never repeated: it may be a password or a URL with a credential.
    """
    reports = list(islice(errors, MAX_FAULTS))
    return invalid(*(_fault(error) for error in reports if not _follows(error, reports)))


def _follows(error: Mapping[str, Any], reports: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a list is too short only because its wrong items do not count."""
    place = tuple(error["loc"])
    return error["type"] == "too_short" and any(
        len(report["loc"]) > len(place) and tuple(report["loc"])[: len(place)] == place for report in reports
    )


def _fault(error: Mapping[str, Any]) -> FieldFault:
    sentence = _sentence(error)
    if sentence.endswith(_PUSH_ONLY):
        return FieldFault(sentence.removesuffix(_PUSH_ONLY), _PUSH_ONLY.strip())
    return FieldFault(_path(error["loc"]) or _FIELDS.get(sentence, ""), sentence)


def _sentence(error: Mapping[str, Any]) -> str:
    if error["type"] == "missing":
        return "is missing"
    if error["type"] == "extra_forbidden":
        return "is unknown; omit it"
    if error["type"] == "string_pattern_mismatch" and (sentence := SENTENCES.get(error["ctx"]["pattern"])):
        return sentence["message"]
    message = str(error["msg"]).removeprefix("Value error, ").partition(" after validation, not ")[0]
    return _SUBJECT.sub("must ", message).replace("valid tuple", "valid list")


def _path(location: Iterable[str | int]) -> str:
    # The last part of a map's wrong name is [key]; the name itself comes before it.
    names = [part for part in location if part not in ("", "[key]")]
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part[:_LONGEST]}" for part in names).lstrip(".")
