"""Pure: the strict JSON reader of both processes; numbers keep their text.

A float has 15 decimal digits and exponents up to 308. JSON (RFC 8259, section 6) limits neither, and an amount such as
12345678901234567.89 or 0.1000 must reach the receiver unchanged. So every number with a point or an exponent, and every
long integer, keeps its text.

The reader accepts what every JSON parser reads in the same way (RFC 8259, sections 4, 6, 8; RFC 7493): UTF-8 without a
byte order mark, each name once in an object, no NaN, no number beyond the range of a double.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, Final, NoReturn

from pydantic_core import PydanticSerializationError, from_json, to_json

_LONG_NUMBER: Final = re.compile(rb"[0-9](?:[0-9.]{16}|[eE][+-]?[0-9]{3})")
"""16 digits and a point, or 17 digits, or an exponent of three digits; a match in a text does no harm."""
_SAFE_DIGITS: Final = 15
_LEVELS: Final = 200
"""Deepest nesting that `from_json` accepts."""
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_STRING: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_BRACE_OR_NAME: Final = re.compile(rf'(?:[^"{{}}]++|{_STRING}(?!\s*:))*+([{{}}]|{_STRING})')
_SHORT_NUMBER: Final = r"-?[0-9.]{1,200}+(?:[eE][+-]?[0-9]{1,2}+)?+(?![0-9.eE])"
"""A number that is certainly in the range of a double."""
_LARGE_NUMBER: Final = re.compile(rf'(?:[^"0-9-]++|{_STRING}|{_SHORT_NUMBER})*+(-?[0-9][0-9.eE+-]*+)')
_MOST_SEARCHED: Final = 50_000
"""Braces and names, or large numbers, that are searched for the place of an error: at most about 20 ms."""
_PLACEHOLDER: Final = "\ud800"
"""Stands for a `_Number` while the standard library serialises; no parsed text has half a surrogate pair."""


class JsonError(ValueError):
    """Bytes that are not a JSON text; the message names the error and its position, and repeats none of the bytes."""


class _RepeatedNameError(ValueError):
    """An object that has a name twice."""


class _RangeError(ValueError):
    """A number beyond the range of a double."""


class _Number:
    # No dataclass, because the fast serializer would write a dataclass as an object.
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        if not math.isfinite(float(text)):
            raise _RangeError
        self.text = text

    def __str__(self) -> str:
        return self.text


def _integer(text: str) -> int | _Number:
    return int(text) if len(text) <= _SAFE_DIGITS and text != "-0" else _Number(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) != len(pairs):
        raise _RepeatedNameError
    return named


def _constant(_: str) -> NoReturn:
    raise ValueError


_decode: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_Number, parse_int=_integer, parse_constant=_constant
).decode


def loads(raw: bytes) -> Any:
    """Parse one JSON text in UTF-8, at most 200 levels deep.

    Returns:
        dict, list, str, bool, None and numbers, whose `str` is their text; `dumps` accepts it, whole or in parts.

    Raises:
        JsonError: malformed, too deep, not UTF-8, a byte order mark, NaN or Infinity, a number beyond the range of a
            double, a name twice in one object, or half a surrogate pair.
    """
    try:
        text = raw.decode()
        if "\\u" in text or text.count("[") + text.count("{") > _LEVELS:
            # Only this parser refuses half a surrogate pair, and too many levels.
            from_json(raw, allow_inf_nan=False)
        return _decode(text)
    except _RepeatedNameError:
        raise JsonError(f"a name is repeated in one object{_place(text, _repeated_name(text))}") from None
    except _RangeError:
        message = "a number is beyond the range of a 64-bit floating point number"
        raise JsonError(f"{message}{_place(text, _too_large(text))}") from None
    except ValueError:
        raise JsonError(_malformed(raw)) from None


def digest(value: object, text: bytes) -> int:
    """Return 64 bits that identify what `loads` returned, as a signed number; the order of fields does not matter.

    Args:
        value: what `loads` returned.
        text: the same as `dumps` returned it.
    """
    # Stored digests of the last 24 hours have long numbers as strings, so this form must stay.
    exact = _LONG_NUMBER.search(text) is not None
    ordered = _in_order(json.loads(text, parse_float=str, parse_int=str) if exact else value).encode()
    return int.from_bytes(hashlib.blake2b(ordered, digest_size=8).digest(), signed=True)


def dumps(value: object) -> bytes:
    """Serialise what `loads` returned as compact UTF-8."""
    try:
        return to_json(value)
    except PydanticSerializationError:
        return _text(value).encode()


def _text(value: object) -> str:
    texts: list[str] = []

    def placeholder(number: _Number) -> str:
        texts.append(number.text)
        return _PLACEHOLDER

    # Only `default` runs in Python; to visit each value in Python takes 20 times as long.
    encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False, default=placeholder)
    between = encoder.encode(value).split(f'"{_PLACEHOLDER}"')
    return "".join([part for pair in zip_longest(between, texts, fillvalue="") for part in pair])


def _number(value: object) -> float:
    assert isinstance(value, _Number)
    return float(value.text)


_in_order: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False, default=_number).encode


def _malformed(raw: bytes) -> str:
    if raw.startswith(_BYTE_ORDER_MARK):
        return "it begins with a byte order mark; send UTF-8 without one"
    try:
        from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        return str(error)
    return "it is not UTF-8, or not one JSON text"


def _place(text: str, at: int | None) -> str:
    """Return the end of a message: line and column of a position, or nothing if it is not known."""
    return "" if at is None else f" at line {text.count(chr(10), 0, at) + 1} column {at - text.rfind(chr(10), 0, at)}"


def _repeated_name(text: str) -> int | None:
    """Return the position of the first name that its object has already; None if it is far from the beginning."""
    objects: list[set[str]] = []
    for at, found in _found(_BRACE_OR_NAME, text):
        if found == "{":
            objects.append(set())
        elif found == "}":
            objects.pop()
        else:
            name = json.loads(found) if "\\" in found else found[1:-1]
            if name in objects[-1]:
                return at
            objects[-1].add(name)
    return None


def _too_large(text: str) -> int | None:
    """Return the position of the first number beyond the range of a double; None if it is far from the beginning."""
    return next((at for at, number in _found(_LARGE_NUMBER, text) if not math.isfinite(float(number))), None)


def _found(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, str]]:
    """Yield position and text of the first group of each match, up to a bounded number of them.

    Each match begins where the last one ended. A search would begin again at every character after the last one.
    """
    at = 0
    for _ in range(_MOST_SEARCHED):
        match = pattern.match(text, at)
        if match is None:
            return
        yield match.start(1), match[1]
        at = match.end()
