"""The strict JSON reader keeps every value, and refuses what parsers read in different ways."""

import json
from json.encoder import encode_basestring
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwright_runtime import exact_json
from hookwright_runtime.exact_json import JsonError, digest, dumps, items, loads

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
    "1e2",
    "0.1000",
    "-0",
    "-0.0",
    "1e308",
    "-1E+308",
    "1e-400",
    "1.2345e-320",
    "1e0000000300",
    "5e-324",
    "0." + "0" * 400 + "1",
    "9" * 300 + ".5",
]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_keeps_its_value_beyond_what_a_float_holds(number: str) -> None:
    """Amounts and large ids reach the receiver byte for byte."""
    raw = f'{{"a":[{number}],"b":1.50}}'.encode()
    assert dumps(loads(raw)) == raw


@given(
    digits=st.integers(min_value=0, max_value=10**40),
    point=st.integers(min_value=0, max_value=40),
    exponent=st.one_of(st.none(), st.integers(min_value=-400, max_value=250)),
)
def test_every_decimal_keeps_its_value(digits: int, point: int, exponent: int | None) -> None:
    """Numbers of every length keep their text."""
    padded = str(digits).zfill(point + 1)
    number = (padded[:-point] + "." + padded[-point:] if point else str(digits)) + (
        "" if exponent is None else f"e{exponent}"
    )
    if point:
        number = number.lstrip("0")
        number = "0" + number if number.startswith(".") else number
    raw = f"[{number}]".encode()
    assert dumps(loads(raw)) == raw


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


def written(value: object) -> str:
    """Return the text of a value, each part of it visited in Python."""
    if isinstance(value, dict):
        return "{" + ",".join([f"{encode_basestring(name)}:{written(item)}" for name, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([written(item) for item in value]) + "]"
    if exact_json.is_string(value):
        return encode_basestring(value)
    return exact_json.number_text(value) if isinstance(value, str) else json.dumps(value)


DOCUMENTS = st.recursive(
    st.sampled_from([*NUMBERS, "true", "false", "null", '"NaN"', '"\\"1.5\\""', '"\\ud83d\\ude00\\u0001"'])
    | st.text().map(lambda text: json.dumps(text, ensure_ascii=False)),
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(st.text(), inner, max_size=4).map(
            lambda items: "{" + ", ".join(f"{json.dumps(name)} : {item}" for name, item in items.items()) + "}"
        )
    ),
    max_leaves=20,
)


@given(DOCUMENTS)
def test_the_serialiser_writes_every_byte_as_a_plain_one_does(document: str) -> None:
    """Numbers keep their text beside strings, constants and other numbers of every kind, at every depth."""
    value = loads(document.encode())
    assert dumps(value) == written(value).encode()


def test_one_decimal_number_does_not_make_the_serialiser_visit_each_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large body beside one decimal number is one call of the standard library, not a call for each value."""
    body = b"[1.5" + b",1,true,null" * 1000 + b"]"
    value, text_of = loads(body), exact_json._text
    parts: list[object] = []

    def counted(part: object) -> str:
        parts.append(part)
        return text_of(part)

    monkeypatch.setattr(json, "dumps", lambda *_: pytest.fail("serialised a value"))
    monkeypatch.setattr(exact_json, "_text", counted)
    assert dumps(value) == body
    assert len(parts) == 1


@given(st.lists(DOCUMENTS, max_size=5), st.sampled_from(["", " ", "\n\t"]))
def test_the_items_of_an_array_are_those_of_the_whole(documents: list[str], space: str) -> None:
    """However the array is written, each item is what the whole text has."""
    raw = f"{space}[{space}{f'{space},{space}'.join(documents)}{space}]{space}".encode()
    number, entry = items(raw)
    assert (number, list(entry)) == (len(documents), loads(raw))


@pytest.mark.parametrize(
    "raw", [b"[1] x", b"[1,]", b'[{"a":1,"a":2}]', b"[1e999]", b"{}", b"1", b"[", b"\xef\xbb\xbf[]", b'["\xff"]']
)
def test_what_is_no_array_has_no_items(raw: bytes) -> None:
    """The same errors as of the whole text, at the latest when the items are decoded."""
    with pytest.raises(JsonError):
        list(items(raw)[1])


def test_a_number_is_no_string() -> None:
    """Code that expects a string refuses a number, whatever represents it."""
    values = loads(b'[1.5, 12345678901234567890, -0, 7, true, null, "1.5"]')
    assert [exact_json.is_string(value) for value in values] == [False] * 6 + [True]
    assert [exact_json.number_text(value) for value in values[:4]] == ["1.5", "12345678901234567890", "-0", "7"]


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
        b"1e999",
        b"-1e999",
        b"9" * 400,
        b'{"a":1,"a":1}',
        b'[{"a":{"b":1,"\\u0062":2}}]',
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


@pytest.mark.parametrize(
    ("raw", "cause"),
    [
        (b'{"a":1,\n "b":[1, {"a":2}],\n "a":3}', "a name is repeated in one object$"),
        (b'{"a":"a\\":1,",\n"\\u0061":3}', "a name is repeated in one object$"),
        (b'{"a":[1,\n  1e999]}', "a number is beyond the range of a 64-bit floating point number$"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'{"a":\nNaN}', "line 2 column 1"),
        (b'["\\ud800"]', "line 1 column"),
        (b"[" * 250 + b"]" * 250, "line 1 column"),
    ],
)
def test_the_error_has_the_cause(raw: bytes, cause: str) -> None:
    """A producer finds the fault in its request."""
    with pytest.raises(JsonError, match=cause):
        loads(raw)


def test_the_error_repeats_nothing_of_the_text() -> None:
    """A name or a value can be a password."""
    for raw in (b'{"hunter2":1,"hunter2":2}', b'{"a":hunter2}', b'{"hunter2":1e999}'):
        with pytest.raises(JsonError) as error:
            loads(raw)
        assert "hunter2" not in str(error.value)


def of(raw: bytes) -> int:
    """Return the digest of a JSON text."""
    return digest(loads(raw))


def test_the_digest_has_its_stored_form() -> None:
    """Replicas of two versions compare the digests that each of them stores."""
    assert of(b'{"b":1,"a":"x"}') == -8388540972532516941
    assert of(b'{"a":1.50,"b":-3}') == -4975232168199542313
    assert of(b'{"a":12345678901234567.89,"b":1}') == 1187881619861370645


def test_the_digest_depends_on_the_text_of_a_number() -> None:
    """A number in another form, or a string with its text, is other content."""
    assert len({of(b'{"a":%b}' % value) for value in (b"1.50", b"15e-1", b"1.51", b'"1.50"')}) == 4
