"""Pure: the strict JSON reader of both processes; numbers keep their text.

A float has 15 decimal digits and exponents up to 308. JSON (RFC 8259, section 6) limits neither, and an amount such as
12345678901234567.89 or 0.1000 must reach the receiver unchanged. So every number with a point or an exponent, and every
long integer, keeps its text: it is a string that begins with half a surrogate pair, which no string of a JSON text has.
C code makes and writes such strings; an object for each number would take eight times as long.

The reader accepts what every JSON parser reads in the same way (RFC 8259, sections 4, 6, 8; RFC 7493): UTF-8 without a
byte order mark, each name once in an object, no NaN, no number beyond the range of a double.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn, TypeGuard

from pydantic_core import PydanticSerializationError, from_json, to_json

from hookwright_runtime.json_size import end_of_value

_LONG_NUMBER: Final = re.compile(rb"[0-9](?:[0-9.]{16}|[eE][+-]?[0-9]{3})")
"""16 digits and a point, or 17 digits, or an exponent of three digits; a match in a text does no harm."""
_MARKED_NUMBER: Final = re.compile(rb"[0-9](?:[.eE]|[0-9]{15})")
"""What every number that keeps its text has, except -0; a match in a text does no harm."""
_SAFE_DIGITS: Final = 15
_LEVELS: Final = 200
"""Deepest nesting that `from_json` accepts."""
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_STRING: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_BRACE_OR_NAME: Final = re.compile(rf'(?:[^"{{}}]++|{_STRING}(?!\s*:))*+([{{}}]|{_STRING})')
_SHORT_NUMBER: Final = r"-?[0-9.]{1,200}+(?:[eE][+-]?[0-9]{1,2}+)?+(?![0-9.eE])"
"""A number that is certainly in the range of a double."""
_LARGE_NUMBER: Final = re.compile(rf'(?:[^"0-9-]++|{_STRING}|{_SHORT_NUMBER})*+(-?[0-9][0-9.eE+-]*+)')
_MOST_SEARCHED: Final = 5_000
"""Braces and names, or large numbers, that are searched for the place of an error: at most about 10 ms."""
_MARK: Final = "\ud800"
"""Begins the text of a number."""
_NUMBER_AS_STRING: Final = re.compile(f'"{_MARK}([^"]*+)"')
_DIGITS: Final = bytes.maketrans(b"123456789.E", b"0000000000e")
_LONG_DIGITS: Final = b"0" * 200
_BETWEEN_ITEMS: Final = re.compile(r"[ \t\n\r,]*+")


class JsonError(ValueError):
    """Bytes that are not a JSON text; the message names the error and its position, and repeats none of the bytes."""


class _RepeatedNameError(ValueError):
    """An object that has a name twice."""


class _RangeError(ValueError):
    """A number beyond the range of a double."""


def _integer(text: str) -> int | str:
    return int(text) if len(text) <= _SAFE_DIGITS and text != "-0" else _MARK + text


def _checked(text: str) -> str:
    if not math.isfinite(float(text)):
        raise _RangeError
    return _MARK + text


def _checked_integer(text: str) -> int | str:
    return int(text) if len(text) <= _SAFE_DIGITS and text != "-0" else _checked(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise _RepeatedNameError
    return fields


def _constant(_: str) -> NoReturn:
    raise ValueError


def _decoder(parse_float: Callable[[str], str], parse_int: Callable[[str], int | str]) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_object, parse_float=parse_float, parse_int=parse_int, parse_constant=_constant
    )


_DECODER: Final = _decoder(_MARK.__add__, _integer)
_CHECKING_DECODER: Final = _decoder(_checked, _checked_integer)


def loads(raw: bytes) -> Any:
    """Parse one JSON text in UTF-8, at most 200 levels deep.

    Returns:
        dict, list, str, bool, None, int and other numbers, which `number_text` returns and for which `is_string` is
        false; `dumps` accepts it, whole or in parts.

    Raises:
        JsonError: malformed, too deep, not UTF-8, a byte order mark, NaN or Infinity, a number beyond the range of a
            double, a name twice in one object, or half a surrogate pair.
    """
    try:
        text = raw.decode()
        if "\\u" in text or text.count("[") + text.count("{") > _LEVELS:
            # Only this parser refuses half a surrogate pair, and too many levels.
            from_json(raw, allow_inf_nan=False)
        return _decoder_of(raw).decode(text)
    except ValueError as error:
        raise _explained(error, raw) from None


Check = Callable[[int, bytes], None]


def items(raw: bytes, check: Check | None = None, limit: int = 0) -> tuple[int, Iterator[Any]]:
    """Return how many items a JSON array has, and each item as `loads` returns it, decoded when it is its turn.

    Args:
        raw: the text of the array.
        check: called with the index and the text of each object or array before it is decoded; it may raise an error.
        limit: values that ``check`` accepts; the text of an item with more may be longer than the item.

    Raises:
        JsonError: as `loads`, also while the items are decoded; or the text is not an array.
    """
    try:
        text = raw.decode()
        whole = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise _explained(error, raw) from None
    if not isinstance(whole, list):
        raise JsonError("it is not an array")
    return len(whole), _items(text, len(whole), raw, check, limit)


def _items(text: str, number: int, raw: bytes, check: Check | None, limit: int) -> Iterator[Any]:
    decode, at = _decoder_of(raw).raw_decode, text.index("[") + 1
    try:
        for index in range(number):
            between = _BETWEEN_ITEMS.match(text, at)
            assert between is not None
            start = between.end()
            if check is not None and text[start] in "[{":
                check(index, text[start : end_of_value(text, start, limit)].encode())
            item, at = decode(text, start)
            yield item
    except ValueError as error:
        raise _explained(error, raw) from None


def _decoder_of(raw: bytes) -> json.JSONDecoder:
    # A number beyond the range has an exponent of three digits, or 200 digits: each digit and point is a 0 here.
    digits = raw.translate(_DIGITS)
    is_beyond = b"0e000" in digits or b"0e+000" in digits or _LONG_DIGITS in digits
    return _CHECKING_DECODER if is_beyond else _DECODER


def _explained(error: ValueError, raw: bytes) -> JsonError:
    if isinstance(error, _RepeatedNameError):
        text = raw.decode()
        return JsonError(f"a name is repeated in one object{_place(text, _repeated_name(text))}")
    if isinstance(error, _RangeError):
        text, message = raw.decode(), "a number is beyond the range of a 64-bit floating point number"
        return JsonError(f"{message}{_place(text, _too_large(text))}")
    return JsonError(_malformed(raw))


def is_string(value: object) -> TypeGuard[str]:
    """Return whether a value of `loads` is a string in JSON."""
    return isinstance(value, str) and not value.startswith(_MARK)


def number_text(value: float | str) -> str:
    """Return the text of a number of `loads`."""
    return str(value).removeprefix(_MARK)


def digest(value: object, text: bytes) -> int:
    """Return 64 bits that identify what `loads` returned, as a signed number; the order of fields does not matter.

    A short number in another form has the same digest; a long one is compared by its text.

    Args:
        value: what `loads` returned.
        text: the same as `dumps` returned it.
    """
    if _LONG_NUMBER.search(text):
        value = json.loads(text, parse_float=str, parse_int=str)
    elif _MARKED_NUMBER.search(text):
        value = json.loads(text)
    normal_form = _in_order(value)
    return int.from_bytes(hashlib.blake2b(normal_form.encode(), digest_size=8).digest(), signed=True)


def dumps(value: object) -> bytes:
    """Serialise what `loads` returned as compact UTF-8."""
    try:
        return to_json(value)
    except PydanticSerializationError:
        # `to_json` refuses the mark of numbers. Each second part of the split text is that of a number.
        return "".join(_NUMBER_AS_STRING.split(_text(value))).encode()


_text: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
_in_order: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False).encode


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
    for at, part in _found(_BRACE_OR_NAME, text):
        if part == "{":
            objects.append(set())
        elif part == "}":
            objects.pop()
        else:
            name = json.loads(part) if "\\" in part else part[1:-1]
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
