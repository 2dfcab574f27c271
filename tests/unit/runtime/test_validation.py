"""Documents of requests: the refusals name the fields, and stay small."""

import json

import pytest
from pydantic import ValidationError

from hookwright_crds.documents.delivery_bodies import DeliveryConditions
from hookwright_crds.documents.forms import Request
from hookwright_crds.documents.message_bodies import AckRequest, NackRequest
from hookwright_crds.documents.replay_bodies import ReplayRequest
from hookwright_crds.documents.webhook_bodies import SigningSecret, WebhookRequest
from hookwright_runtime.problems import MAX_FAULTS, FieldFault, ProblemError
from hookwright_runtime.validation import body_of, from_validation, query_of


def refusal(model: type[Request], body: object) -> ProblemError:
    """Return the refusal of a body."""
    with pytest.raises(ProblemError) as error:
        body_of(model, json.dumps(body).encode())
    assert error.value.status == 422
    return error.value


def test_an_answer_names_a_bounded_number_of_unknown_names() -> None:
    """The answer to hundreds of unknown names stays small, and shows the beginning of a long name."""
    problem = refusal(NackRequest, {"ids": ["x"], "x" * 1000: 1, **{str(number): 1 for number in range(500)}})
    assert len(problem.errors) == MAX_FAULTS
    assert problem.errors[0].field == "x" * 256


def test_unknown_names_hide_no_other_fault() -> None:
    """A fault of a known field is named too."""
    problem = refusal(AckRequest, {"other": 1, "delay": "1s"})
    assert [fault.field for fault in problem.errors] == ["ids", "other", "delay"]


def test_a_body_that_is_no_object_has_one_fault() -> None:
    """It is that of the whole body."""
    assert refusal(ReplayRequest, []).errors == (FieldFault("", "must be an object"),)


@pytest.mark.parametrize("model", [ReplayRequest, DeliveryConditions])
def test_an_end_before_the_begin_is_a_fault_of_the_end(model: type[Request]) -> None:
    """The rule concerns two fields, and one of them is named."""
    with pytest.raises(ProblemError) as error:
        query_of(model, {"since": "2026-02-01T00:00:00Z", "until": "2026-01-31T23:59:60+00:00"})
    assert error.value.errors == (FieldFault("until", "is before since"),)


def test_a_field_that_limits_requests_to_a_url_is_named_beside_pull() -> None:
    """The rule concerns pull too, and the other field is to be omitted."""
    fault = FieldFault("max_attempts", "limits requests to a url; omit it for an endpoint with pull")
    with pytest.raises(ValidationError) as error:
        WebhookRequest.model_validate({"pull": {}, "events": ["*"], "max_attempts": 3})
    assert from_validation(error.value.errors(include_url=False)).errors == (fault,)


@pytest.mark.parametrize("name", ["body", "query", "path", "header"])
def test_an_unknown_name_is_named_whatever_it_is(name: str) -> None:
    """FastAPI's own names for the parts of a request are names like others in a document."""
    assert refusal(ReplayRequest, {"since": "2026-02-01T00:00:00Z", name: 1}).errors[0].field == name


def test_the_error_of_an_answer_does_not_repeat_it() -> None:
    """An operator of another version may answer otherwise, and the error is logged."""
    with pytest.raises(ValidationError) as error:
        SigningSecret.model_validate_json(b'{"secret":"whsec_x","rotation":1}')
    assert "whsec_x" not in str(error.value)
