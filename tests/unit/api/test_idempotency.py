"""Names and ids that are derived from an Idempotency-Key."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookwright_api.idempotency import (
    REQUEST_ANNOTATION,
    EventsShapeError,
    check_key,
    check_same,
    derived_id,
    event_ids_in_pieces,
    expired,
    request_digest,
)
from hookwright_crds.events import MAX_EVENTS
from hookwright_runtime.places import finished
from hookwright_runtime.problems import ProblemError


def with_event_ids(body: bytes, key: str) -> bytes:
    """Return the events with ids, made without a pause."""
    return finished(event_ids_in_pieces(body, key))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
EVENTS = st.dictionaries(st.text(max_size=4), JSON, max_size=4)


@settings(max_examples=30)
@given(st.lists(EVENTS, max_size=4), st.sampled_from([None, 1]))
def test_every_event_gets_an_id_and_keeps_all_else(events: list[dict[str, object]], indent: int | None) -> None:
    """Events without an id get one; the rest of the JSON stays equal."""
    given_ids = [event.get("id") for event in events]
    changed = json.loads(with_event_ids(json.dumps(events, indent=indent).encode(), "key"))
    assert all("id" in event for event in changed)
    for before, after, given_id in zip(events, changed, given_ids, strict=True):
        assert {name: value for name, value in after.items() if name != "id"} == {
            name: value for name, value in before.items() if name != "id"
        }
        assert after["id"] is not None
        if given_id is not None:
            assert after["id"] == given_id
    ids = [after["id"] for before, after in zip(events, changed, strict=True) if before.get("id") is None]
    assert len(set(ids)) == len(ids)


@settings(max_examples=30)
@given(EVENTS)
def test_one_event_is_treated_like_a_list_of_it(event: dict[str, object]) -> None:
    """A single object gets an id as well, the same each time."""
    body = json.dumps(event).encode()
    assert with_event_ids(body, "key") == with_event_ids(body, "key")
    assert "id" in json.loads(with_event_ids(body, "key"))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"id":null,"n":1.10}', b'{"id":"ID","n":1.10}'),
        (b'[ {"a": {"id": null}, "id" : null } ]', b'[ {"a": {"id": null}, "id" : "ID" } ]'),
        (
            b'{"":[],"i":"","a":-1.5e3, "b":[{"id":1}],"id":null}',
            b'{"":[],"i":"","a":-1.5e3, "b":[{"id":1}],"id":"ID"}',
        ),
        (b'{"i\\u0065":"\\"","c":{},"\\u0069d" :\n null}', b'{"i\\u0065":"\\"","c":{},"\\u0069d" :\n "ID"}'),
        (b'{"a":[{"id":null}],"b":"\\"id\\":null,"}', b'{"id":"ID","a":[{"id":null}],"b":"\\"id\\":null,"}'),
    ],
)
def test_a_null_id_is_no_id(body: bytes, expected: bytes) -> None:
    """Many serializers write null for a field without a value; only the null of the event is replaced."""
    assert re.sub(rb'"idem-[^"]+"', b'"ID"', with_event_ids(body, "key")) == expected


def test_numbers_keep_their_text() -> None:
    """Signed and sent numbers have the producer's text."""
    body = b'[{"type":"delivered","messageId":"m","price":1.10,"big":12345678901234567890123}]'
    assert b'"price":1.10,"big":12345678901234567890123}]' in with_event_ids(body, "key")


def test_the_id_follows_from_key_place_and_content() -> None:
    """The order of fields does not change the id; every other difference does."""

    def id_of(body: bytes, key: str = "k") -> str:
        return str(json.loads(with_event_ids(body, key))["id"])

    assert id_of(b'{"a":1,"b":2}') == id_of(b'{ "b": 2, "a": 1 }')
    assert id_of(b'{"a":1}') != id_of(b'{"a":2}')
    assert id_of(b'{"a":1}') != id_of(b'{"a":1}', "other")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"12345678901234567.89", b"12345678901234567.88"),
        (b"1e400", b"2e400"),
        (b"1", b"1.0"),
        (b"-0", b"0"),
        (b"1", b'"1"'),
        (b"1.5", b'"1.5"'),
        (b"1", b"true"),
    ],
)
def test_two_numbers_give_two_ids(one: bytes, other: bytes) -> None:
    """A number counts as its text, also if both are the same float; a number is no string."""
    bodies = [b'{"n":[%b],"id":null}' % value for value in (one, other)]
    changed = [with_event_ids(body, "k") for body in bodies]
    assert json.loads(changed[0])["id"] != json.loads(changed[1])["id"]
    assert [re.sub(rb'"idem-[^"]+"', b"null", text) for text in changed] == bodies


@pytest.mark.parametrize("body", [b"", b"7", b'"x"', b"[1]", b"{", b"[{}", b"\xff", b"[" * 100_000])
def test_what_is_no_event_is_left_to_the_operator(body: bytes) -> None:
    """The body is forwarded without ids, and the operator names the fault."""
    with pytest.raises(EventsShapeError):
        with_event_ids(body, "key")


@pytest.mark.parametrize("body", [b'{"id":"x","id":null}', b'[{},{"a":[],"id":{},"id":null}]'])
def test_an_event_with_two_ids_is_left_to_the_operator(body: bytes) -> None:
    """The operator refuses a repeated name, and its message has the position in the producer's text."""
    with pytest.raises(EventsShapeError):
        with_event_ids(body, "key")


def test_more_events_than_a_request_may_have_are_left_to_the_operator() -> None:
    """The largest number of events gets ids; one more is forwarded unchanged."""
    events = [b"{}"] * MAX_EVENTS
    assert len(json.loads(with_event_ids(b"[" + b",".join(events) + b"]", "key"))) == MAX_EVENTS
    with pytest.raises(EventsShapeError):
        with_event_ids(b"[" + b",".join([*events, b"{}"]) + b"]", "key")


def test_derived_ids_are_lower_case_names_without_visible_order() -> None:
    """Derived ids are valid names of Kubernetes objects."""
    ids = {derived_id(12, "a", str(number)) for number in range(1000)}
    assert len(ids) == 1000
    assert all(len(made) == 12 and made.isalnum() and made == made.lower() for made in ids)


@pytest.mark.parametrize("written", ["", " a", "a ", "\u00e4", "a" * 256, "a\nb"])
def test_a_key_that_is_no_printable_text_is_refused(written: str) -> None:
    """The answer is a 422 that names the header."""
    with pytest.raises(ProblemError) as caught:
        check_key(written)
    assert caught.value.status == 422


def test_a_key_is_taken_as_it_is() -> None:
    """UUIDs and all other printable texts are accepted."""
    assert check_key("8e03978e-40d5 x") == "8e03978e-40d5 x"
    assert check_key(None) is None


def test_another_request_with_the_same_key_is_refused() -> None:
    """The created object has the digest of the request."""
    digest = request_digest({"a": 1, "b": 2})
    check_same({REQUEST_ANNOTATION: digest}, request_digest({"b": 2, "a": 1}))
    with pytest.raises(ProblemError):
        check_same({REQUEST_ANNOTATION: digest}, request_digest({"a": 1}))
    with pytest.raises(ProblemError):
        check_same({}, digest)


def test_a_key_is_good_for_a_day() -> None:
    """A key expires after a day, to the second."""
    made = datetime(2026, 1, 1, tzinfo=UTC)
    assert not expired(made, made + timedelta(hours=24, seconds=-1))
    assert expired(made, made + timedelta(hours=24))
