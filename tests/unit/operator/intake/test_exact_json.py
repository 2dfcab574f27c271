"""JSON keeps its values in the intake."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwright_operator.intake.exact_json import JsonError, dumps, loads

NUMBERS = [
    "0",
    "-1",
    "18446744073709551616",
    "123456789012345678901234567890",
    "0.1",
    "1.0",
    "12345678901234567.89",
    "0.12345678901234567",
    "9.812415868344979",
    "1.23456789012345678901234567890",
    "1e400",
    "-1E+400",
    "1e-400",
    "1.2345e-320",
    "1e0000000400",
    "5e-324",
    "0." + "0" * 400 + "1",
    "9" * 400 + ".5",
]


def exactly(raw: bytes) -> Any:
    """Parse JSON with every number as a Decimal."""
    return json.loads(raw, parse_float=Decimal, parse_int=Decimal)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_keeps_its_value_beyond_what_a_float_holds(number: str) -> None:
    """Amounts and large ids reach the receiver exactly."""
    raw = f'{{"a":[{number}],"b":1.5}}'.encode()
    assert exactly(dumps(loads(raw))) == exactly(raw)


@given(
    digits=st.integers(min_value=0, max_value=10**40),
    point=st.integers(min_value=0, max_value=40),
    exponent=st.one_of(st.none(), st.integers(min_value=-400, max_value=400)),
)
def test_every_decimal_keeps_its_value(digits: int, point: int, exponent: int | None) -> None:
    """Numbers of every length keep their value in the fast parser or in the exact one."""
    padded = str(digits).zfill(point + 1)
    number = (padded[:-point] + "." + padded[-point:] if point else str(digits)) + (
        "" if exponent is None else f"e{exponent}"
    )
    if point:
        number = number.lstrip("0")
        number = "0" + number if number.startswith(".") else number
    raw = f"[{number}]".encode()
    assert exactly(dumps(loads(raw))) == exactly(raw)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON_VALUES, st.booleans())
def test_every_json_value_comes_back(value: Any, exact: bool) -> None:  # noqa: FBT001 - drawn by hypothesis
    """Both parsers return the same value."""
    document = [value, 12345678901234567890123] if exact else [value]
    assert json.loads(dumps(loads(json.dumps(document).encode()))) == document


def test_text_stays_utf8_and_is_not_escaped() -> None:
    """A receiver gets the producer's characters from both parsers."""
    text = '{"a":"é\u2028😀\\u0001\\"","b":%s}'
    for number in ("1", "1.00000000000000000001"):
        assert dumps(loads((text % number).encode())) == (text % number).encode()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b'{"a":1,}',
        b'{"a":1} x',
        b"{'a':1}",
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":01}',
        b'{"a":"\xff"}',
        b'{"a":"\\ud800"}',
        b'{"\\udc00":1}',
        b'{"a":"\x01"}',
        '{"a":1}'.encode("utf-16"),
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a":' * 300 + b"12345678901234567890" + b"}" * 300,
        b"[" + b"9" * 100_000 + b"]",
    ],
)
def test_what_is_no_json_text_is_refused(raw: bytes) -> None:
    """Malformed, not UTF-8, NaN, half a surrogate pair, or too deep: one error, no crash."""
    with pytest.raises(JsonError):
        loads(raw)


def test_of_a_name_given_twice_the_last_counts() -> None:
    """Both parsers send the value that was validated."""
    assert dumps(loads(b'{"a":1,"a":2}')) == b'{"a":2}'
    assert dumps(loads(b'{"a":1,"a":2.00000000000000000001}')) == b'{"a":2.00000000000000000001}'
