"""The number of values of a JSON text."""

import json

import pytest

from hookwright_runtime.json_size import has_more_values

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
