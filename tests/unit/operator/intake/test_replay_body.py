"""Bodies of requests that begin a replay: the refusals name the fields of the route, and stay small."""

import json

import pytest

from hookwright_operator.intake.replay_body import replay_of
from hookwright_runtime.problems import FieldFault, ProblemError


def refusal(body: object) -> ProblemError:
    """Return the refusal of a body."""
    with pytest.raises(ProblemError) as refused:
        replay_of(json.dumps(body).encode(), now_ms=0)
    assert refused.value.status == 422
    return refused.value


def test_a_body_that_is_no_object_is_told_the_fields_of_the_route() -> None:
    """The only fault is that of the whole body; it says nothing of times."""
    problem = refusal([])
    fields = "{since, until?, state?, types?, dry_run?}"
    assert problem.detail == f"the body must be a JSON object {fields}"
    assert problem.errors == (FieldFault("", f"must be a JSON object {fields}"),)


def test_unknown_fields_are_named_up_to_a_bound() -> None:
    """The answer to hundreds of long names stays small."""
    problem = refusal({f"{number:03}{'x' * 100}": 1 for number in range(300)})
    assert len(problem.errors) == 50
    assert {len(fault.field) for fault in problem.errors} == {64}
