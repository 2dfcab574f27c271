"""Bodies of requests that begin a replay: the refusals name the fields of their route, and stay small."""

import json
from collections.abc import Callable

import pytest

from hookwright_operator.intake.replay_body import replay_of, span_of
from hookwright_runtime.problems import FieldFault, ProblemError

ROUTES = [
    pytest.param(span_of, "{since, until?}", id="recover"),
    pytest.param(replay_of, "{since, until?, state?, types?, dry_run?}", id="replays"),
]


def refusal(read: Callable[..., object], body: object) -> ProblemError:
    """Return the refusal of a body."""
    with pytest.raises(ProblemError) as refused:
        read(json.dumps(body).encode(), now_ms=0)
    assert refused.value.status == 422
    return refused.value


@pytest.mark.parametrize(("read", "fields"), ROUTES)
def test_a_body_that_is_no_object_is_told_the_fields_of_its_route(read: Callable[..., object], fields: str) -> None:
    """The only fault is that of the whole body; it says nothing of times."""
    problem = refusal(read, [])
    assert problem.detail == f"the body must be a JSON object {fields}"
    assert problem.errors == (FieldFault("", f"must be a JSON object {fields}"),)


@pytest.mark.parametrize(("read", "_fields"), ROUTES)
def test_unknown_fields_are_named_up_to_a_bound(read: Callable[..., object], _fields: str) -> None:
    """The answer to hundreds of long names stays small."""
    problem = refusal(read, {f"{number:03}{'x' * 100}": 1 for number in range(300)})
    assert len(problem.errors) == 50
    assert {len(fault.field) for fault in problem.errors} == {64}
