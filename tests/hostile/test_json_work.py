"""JSON bodies that are chosen to cost CPU on an event loop. Each test counts the work; none measures time."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from hookwright_api import idempotency
from hookwright_crds.documents.event_bodies import EVENTS_BODY_LIMIT, MAX_EVENT_VALUES, MAX_VALUES
from hookwright_crds.events import MAX_EVENTS
from hookwright_operator.intake.parsing import Mode, parse
from hookwright_runtime import exact_json
from hookwright_runtime.places import finished
from hookwright_runtime.problems import ProblemError


def with_event_ids(body: bytes, key: str) -> bytes:
    """Return the events with ids, made without a pause."""
    return finished(idempotency.event_ids_in_pieces(body, key))


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


def test_a_body_of_very_many_events_gets_no_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API parses as many events as a request may have.

    Before, 350,000 empty events took 8 s and made a body of 19 MB.
    """
    scan = Counted(idempotency._scan)
    derived = Counted(idempotency.derived_id)
    monkeypatch.setattr(idempotency, "_scan", scan)
    monkeypatch.setattr(idempotency, "derived_id", derived)
    body = filled("[{}", ",{}", "]", MAX_VALUES // 2 - 1)
    with pytest.raises(idempotency.EventsShapeError):
        with_event_ids(body, "key")
    assert (scan.calls, derived.calls) == (MAX_EVENTS, 0)


@pytest.mark.parametrize(
    "body",
    [filled('{"a":[{}', ",{}", "]}"), filled("[{}", ",{}", "]"), filled('[{"a":1', ',"a":1', "}]")],
    ids=["one event", "many events", "members"],
)
def test_a_body_of_very_many_values_is_not_decoded_for_ids(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    """The body is forwarded unchanged, and the operator refuses the number of values.

    Before, the API decoded 350,000 empty objects of one event, and encoded them again for the id.
    """
    monkeypatch.setattr(idempotency, "_objects", lambda _: pytest.fail("decoded the body"))
    with pytest.raises(idempotency.EventsShapeError):
        with_event_ids(body, "key")
    with pytest.raises(ProblemError, match=f"has more than {MAX_VALUES} values"):
        parse(Mode.PLAIN, body, {})


@pytest.mark.parametrize("form", ["%s", "[%s]", "[{},%s]"])
def test_an_event_of_very_many_values_is_not_decoded_for_ids(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """The body is forwarded unchanged; before, one event kept the event loop of the API busy as long as a body may."""
    event = filled('{"a":1', ',"a":1.5', "}", MAX_EVENT_VALUES).decode()
    scan = Counted(idempotency._scan)
    monkeypatch.setattr(idempotency, "_scan", scan)
    with pytest.raises(idempotency.EventsShapeError):
        with_event_ids((form % event).encode(), "key")
    assert scan.calls == form.count("{}")


@pytest.mark.parametrize("member", [',"b":1', ',"b":"\\""', ' , "" : null', ',"b":-1.5e3'])
def test_members_before_a_null_id_are_not_visited_one_by_one(monkeypatch: pytest.MonkeyPatch, member: str) -> None:
    """One pass of a regular expression finds the null."""
    scan = Counted(idempotency._scan)
    monkeypatch.setattr(idempotency, "_scan", scan)
    made = with_event_ids(filled('{"a":1', member, ',"id":null}', MAX_EVENT_VALUES - 2), "key")
    assert made.endswith(b'"}')
    assert scan.calls == 2


def test_one_decimal_number_does_not_make_the_serialiser_visit_each_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole body beside one decimal number is one call of the standard library.

    Before, it was a call for each value: 3.7 s.
    """
    body = filled("[1.5", ",1,true,null", "]")
    value = exact_json.loads(body)
    dumped, visited = Counted(json.dumps), Counted(exact_json._text)
    monkeypatch.setattr(json, "dumps", dumped)
    monkeypatch.setattr(exact_json, "_text", visited)
    assert exact_json.dumps(value) == body
    assert (dumped.calls, visited.calls) == (0, 1)
