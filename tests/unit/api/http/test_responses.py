"""The answers to callers for refusals of the operator and of the API server."""

from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from hookwright_api.http.responses import from_kube
from hookwright_api.operator_client import refusal_of
from hookwright_crds.documents.key_bodies import KeyRequest
from hookwright_runtime.errors import KubeError, KubeUnavailable
from hookwright_runtime.validation import from_validation


def kube(status: int, **more: Any) -> KubeError:
    """Return a refusal of the API server."""
    return KubeError("POST /secret/path: refused", status=status, **more)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        pytest.param(KubeUnavailable("away"), 503, id="away"),
        pytest.param(kube(422, causes=[{"field": "spec.url", "message": "no"}]), 422, id="refused by the CRD"),
        pytest.param(kube(403, explanation="exceeded quota: q"), 409, id="quota used up"),
        pytest.param(kube(403, causes=[{"reason": "NamespaceTerminating"}]), 409, id="organization being deleted"),
        pytest.param(kube(404), 409, id="organization gone"),
        pytest.param(kube(409), 409, id="changed at the same time"),
        pytest.param(kube(403, explanation="RBAC"), 503, id="our permissions lack something"),
        pytest.param(kube(401), 503, id="our token is refused"),
    ],
)
def test_a_refused_write_is_a_problem_that_tells_nothing_of_the_inside(error: KubeError, status: int) -> None:
    """The answer has no internal paths or names. A fault that the caller cannot correct is a 503 with Retry-After."""
    problem = from_kube(error, "the webhook")
    assert problem.status == status
    assert b"/secret/path" not in problem.body()
    assert b"RBAC" not in problem.body()
    assert ("Retry-After" in problem.headers) is (status == 503)


@pytest.mark.parametrize(
    ("answer", "status", "retry_after"),
    [
        pytest.param(httpx.Response(500), 503, "5", id="away"),
        pytest.param(httpx.Response(503, headers={"Retry-After": "7"}), 503, "7", id="says when to come back"),
        pytest.param(httpx.Response(429, headers={"Retry-After": "9"}), 429, "9", id="too many of a kind"),
        pytest.param(httpx.Response(404), 404, None, id="not there"),
        pytest.param(httpx.Response(409, json={"detail": "pending"}), 409, None, id="conflict"),
    ],
)
def test_a_refusal_of_the_operator_keeps_its_meaning(
    answer: httpx.Response, status: int, retry_after: str | None
) -> None:
    """A 429 is about limits of the caller, such as tests of one endpoint; an overloaded operator is a 503."""
    problem = refusal_of(answer, "the delivery", writes=True)
    assert problem.status == status
    assert problem.headers.get("Retry-After") == retry_after


def test_only_an_unknown_outcome_is_not_called_nothing() -> None:
    """The answer then says how the request can be repeated."""
    away = httpx.Response(500)
    for problem in (from_kube(KubeUnavailable("away"), "it"), refusal_of(away, "it", writes=False)):
        assert problem.detail.endswith("is unavailable; nothing was done")
    responses = (
        from_kube(KubeUnavailable("away", outcome_unknown=True), "it"),
        refusal_of(away, "it", writes=True),
    )
    for problem in responses:
        assert "is unavailable; it is not known whether the request was done. " in problem.detail
        assert "with the same" in problem.detail
        assert "nothing" not in problem.detail
        assert problem.headers["Retry-After"]


def test_the_operators_faults_are_passed_on_by_field() -> None:
    """A producer gets the index of the wrong event of a batch."""
    document = {
        "detail": "nothing was accepted",
        "code": "event_id_reused",
        "errors": [{"field": "[3].type", "message": "is unknown"}],
    }
    problem = refusal_of(httpx.Response(422, json=document), "the project", writes=True)
    assert [(fault.field, fault.message) for fault in problem.errors] == [("[3].type", "is unknown")]


@pytest.mark.parametrize(
    ("scopes", "faults"),
    [
        (["write"], [("scopes[0]", "must be 'send', 'read', 'manage' or 'pull'")]),
        ([], [("scopes", "must have at least 1 item")]),
        (3, [("scopes", "must be a valid list")]),
    ],
)
def test_a_fault_has_the_words_of_json(scopes: object, faults: list[tuple[str, str]]) -> None:
    """No message has a type of Python, and a list with a wrong item is not also called empty."""
    with pytest.raises(ValidationError) as error:
        KeyRequest.model_validate({"name": "CI", "scopes": scopes})
    problem = from_validation(error.value.errors(include_url=False))
    assert [(fault.field, fault.message) for fault in problem.errors] == faults
