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

_SAFE_DIGITS: Final = 15
_LEVELS: Final = 200
"""Deepest nesting that `from_json` accepts."""
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_MARK: Final = "\ud800"
"""Begins the text of a number."""
_NUMBER_AS_STRING: Final = re.compile(f'"{_MARK}([^"]*+)"')
_BETWEEN_ITEMS: Final = re.compile(r"[ \t\n\r,]*+")


class JsonError(ValueError):
    """Bytes that are not a JSON text; the message names the error, and repeats none of the bytes."""


class _MeaningError(ValueError):
    """A text that parsers read in different ways."""


def _decimal(text: str) -> str:
    if not math.isfinite(float(text)):
        raise _MeaningError("a number is beyond the range of a 64-bit floating point number")
    return _MARK + text


def _integer(text: str) -> int | str:
    return int(text) if len(text) <= _SAFE_DIGITS and text != "-0" else _decimal(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise _MeaningError("a name is repeated in one object")
    return fields


def _constant(_: str) -> NoReturn:
    raise ValueError


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_decimal, parse_int=_integer, parse_constant=_constant
)


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
        return _DECODER.decode(text)
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
    decode, at = _DECODER.raw_decode, text.index("[") + 1
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


def _explained(error: ValueError, raw: bytes) -> JsonError:
    if isinstance(error, _MeaningError):
        return JsonError(str(error))
    if raw.startswith(_BYTE_ORDER_MARK):
        return JsonError("it begins with a byte order mark; send UTF-8 without one")
    try:
        # Its message has the place of the error.
        from_json(raw, allow_inf_nan=False)
    except ValueError as malformation:
        return JsonError(str(malformation))
    return JsonError("it is not UTF-8, or not one JSON text")


def is_string(value: object) -> TypeGuard[str]:
    """Return whether a value of `loads` is a string in JSON."""
    return isinstance(value, str) and not value.startswith(_MARK)


def number_text(value: float | str) -> str:
    """Return the text of a number of `loads`."""
    return str(value).removeprefix(_MARK)


def digest(value: object) -> int:
    """Return 64 bits that identify what `loads` returned, as a signed number; the order of fields does not matter.

    A number counts as its text, so another form of it is another value.
    """
    return int.from_bytes(hashlib.blake2b(_in_order(value).encode(), digest_size=8).digest(), signed=True)


def dumps(value: object) -> bytes:
    """Serialise what `loads` returned as compact UTF-8."""
    try:
        return to_json(value)
    except PydanticSerializationError:
        # `to_json` refuses the mark of numbers. Each second part of the split text is that of a number.
        return "".join(_NUMBER_AS_STRING.split(_text(value))).encode()


_text: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
_in_order: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False).encode
