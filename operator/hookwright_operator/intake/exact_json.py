"""Pure: JSON whose numbers keep their text.

A float has 15 decimal digits and exponents up to 308. JSON (RFC 8259, section 6) limits neither, and an amount such as
12345678901234567.89 must reach the receiver unchanged. So the fast parser reads a body first. If a number could be
longer than a float, a second parser reads the body and keeps numbers as text. Of a repeated name, the last one counts.
"""

import json
import re
from json.encoder import encode_basestring
from typing import Any, Final

from pydantic_core import PydanticSerializationError, from_json, to_json

_LONG_NUMBER: Final = re.compile(rb"[0-9](?:[0-9.]{16}|[eE][+-]?[0-9]{3})")
"""16 digits and a point, or 17 digits, or an exponent of three digits; a match in a text does no harm."""


class JsonError(ValueError):
    """Bytes that are not a JSON text; the message names the error and its position, and repeats none of the bytes."""


class _Number:
    # No dataclass, because the fast serializer would write a dataclass as an object.
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def loads(raw: bytes) -> Any:
    """Parse one JSON text in UTF-8, at most 200 levels deep.

    Returns:
        dict, list, str, bool, None and numbers; `dumps` accepts it, whole or in parts.

    Raises:
        JsonError: malformed, too deep, not UTF-8, NaN or Infinity, or half a surrogate pair.
    """
    try:
        value = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise JsonError(str(error)) from None
    if _LONG_NUMBER.search(raw):
        return json.loads(raw.decode(), parse_float=_Number, parse_int=_Number)
    return value


def dumps(value: object) -> bytes:
    """Serialise what `loads` returned as compact UTF-8."""
    try:
        return to_json(value)
    except PydanticSerializationError:
        return _text(value).encode()


def _text(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ",".join([f"{encode_basestring(name)}:{_text(item)}" for name, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([_text(item) for item in value]) + "]"
    if isinstance(value, _Number):
        return value.text
    return encode_basestring(value) if isinstance(value, str) else json.dumps(value)
