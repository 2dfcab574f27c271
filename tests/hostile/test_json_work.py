"""JSON bodies that are chosen to cost CPU on an event loop. Each test counts the work; none measures time."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from hookwright_crds.documents.event_bodies import EVENTS_BODY_LIMIT, MAX_VALUES
from hookwright_operator.intake.parsing import Mode, parse
from hookwright_runtime import exact_json
from hookwright_runtime.problems import ProblemError


class Counted:
    """A function that counts its calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.calls = 0

    def __call__(self, *given: Any, **options: Any) -> Any:
        """Count a call, and make it."""
        self.calls += 1
        return self.function(*given, **options)


def filled(first: str, repeated: str, last: str, most: int = EVENTS_BODY_LIMIT) -> bytes:
    """Return the largest body of this form that a request may have, with at most so many repetitions."""
    times = min((EVENTS_BODY_LIMIT - len(first) - len(last)) // len(repeated), most)
    return (first + repeated * times + last).encode()


@pytest.mark.parametrize(
    "body",
    [filled('{"a":[{}', ",{}", "]}"), filled("[{}", ",{}", "]"), filled('[{"a":1', ',"a":1', "}]")],
    ids=["one event", "many events", "members"],
)
def test_a_body_of_very_many_values_is_not_decoded(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    """The number of values is refused before."""
    monkeypatch.setattr(exact_json, "_DECODER", None)  # to decode would be an AttributeError
    with pytest.raises(ProblemError, match=f"has more than {MAX_VALUES} values"):
        parse(Mode.PLAIN, body, {})


def test_one_decimal_number_does_not_make_the_serialiser_visit_each_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole body beside one decimal number is one call of the standard library.

    Before, it was a call for each value: 3.7 s.
    """
    body = filled("[1.5", ",1,true,null", "]")
    value = exact_json.loads(body)
    dumped, visits = Counted(json.dumps), Counted(exact_json._text)
    monkeypatch.setattr(json, "dumps", dumped)
    monkeypatch.setattr(exact_json, "_text", visits)
    assert exact_json.dumps(value) == body
    assert (dumped.calls, visits.calls) == (0, 1)
