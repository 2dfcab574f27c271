"""The size of a JSON text, in values and in bytes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwright_runtime.exact_json import dumps, loads
from hookwright_runtime.json_size import end_of_value, has_more_values, least_size

VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)
NESTED: object = 1
for _ in range(100):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    "value",
    [[1] * 100, {str(number): number for number in range(100)}, [[]] * 100, [{}] * 100, NESTED, ["a,b"] * 100],
    ids=["elements", "members", "arrays", "objects", "depth", "strings"],
)
def test_values_are_counted_whatever_they_are(value: object) -> None:
    """A text with a hundred values exceeds 99, also if it has no commas."""
    assert has_more_values(json.dumps(value).encode(), 99)
    assert not has_more_values(json.dumps(value).encode(), 201)


@pytest.mark.parametrize("text", [",[{" * 1000, '\\",[' * 1000, "\\" * 1001 + ","])
def test_what_is_in_a_string_does_not_count(text: str) -> None:
    """A long text with commas is one value."""
    assert not has_more_values(json.dumps({"description": text}).encode(), 1)


@pytest.mark.parametrize("text", [b'"' + b"\\" * 200_000, b'"' * 200_001, b'"a\\"' * 50_000 + b"," * 100])
def test_malformed_text_takes_no_longer(text: bytes) -> None:
    """A string without an end ends with the text."""
    assert not has_more_values(text, 100)


@given(VALUES, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_no_value_is_smaller_than_the_least_size_of_its_text(
    value: object,
    ascii_only: bool,  # noqa: FBT001
    indent: str | None,
) -> None:
    """However the text is written."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).replace("/", "\\/").encode()
    compact = dumps(loads(text))
    assert least_size(text) <= len(compact)
    assert least_size(compact) >= len(compact) - compact.count(b"\\") * 5 - sum(compact.count(c) for c in b" \t\n\r")


@given(st.lists(VALUES, max_size=3), st.text(max_size=9))
def test_the_end_of_a_value_is_that_of_its_last_bracket(value: object, following: str) -> None:
    """Brackets in strings do not count."""
    text = json.dumps(value)
    assert end_of_value(f"  {text}{following}", 2, 10_000) == 2 + len(text)


@pytest.mark.parametrize("text", ["[" * 10, "[[],[],[],[],[]]", '["', '{"a', "", "1"])
def test_the_search_for_an_end_is_bounded(text: str) -> None:
    """A value without an end, or with too many brackets, ends with the text."""
    assert end_of_value(text, 0, 5) == len(text)
