"""Pure: the context attributes of CloudEvents 1.0, as producers send them.

Sources: CloudEvents 1.0.2, section "Context Attributes"; its HTTP protocol binding, 3.1.3; its JSON event format, 2.2.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from hookwright_crds.timestamps import is_time
from hookwright_runtime.exact_json import is_string, number_text

SPEC_VERSION: Final = "1.0"
REQUIRED_HEADERS: Final = ("ce-specversion", "ce-type", "ce-id", "ce-source")
"""The headers that make a request one of the binary mode."""
MAX_ATTRIBUTE_BYTES: Final = 4096
"""Most bytes of all attributes of an event, as JSON. They become headers, which receivers bound."""
MAX_ATTRIBUTES: Final = 128
"""Most attributes of an event, including required ones and those that are null."""

_PREFIX: Final = "ce-"
_OURS: Final = frozenset({"specversion", "datacontenttype", "data", "data_base64"})
"""Members of an event that are not passed on: the version is constant, and every delivery has JSON data."""
_NOT_EMPTY: Final = frozenset({"subject", "dataschema"})
_NAME: Final = re.compile("[a-z0-9]{1,64}")
_SCALAR: Final = re.compile("-?[0-9]{1,10}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Possessive, and the closing quote is optional: otherwise a search begins again at each quote of an open string.
_QUOTATION: Final = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)("?)')
_ESCAPE: Final = re.compile(r"\\(.)")


def is_binary(headers: Mapping[str, str]) -> bool:
    """Return whether a request has a header of the binary mode; ``headers`` are by lowercase name."""
    return not headers.keys().isdisjoint(REQUIRED_HEADERS)


def from_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes in the headers of the binary mode, by their name without ``ce-``."""
    return {name[3:]: _decoded(value) for name, value in headers.items() if name.startswith(_PREFIX)}


def number_of_attributes(event: Mapping[str, Any]) -> int:
    """Return how many attributes an event has, also null ones."""
    return len(event) - sum(name in event for name in _OURS)


def passed_on(event: Mapping[str, Any]) -> Iterator[tuple[str, str | None, str]]:
    """Yield name and value of each attribute that a receiver can get, and a fault; one of the last two is empty.

    An attribute that is null counts as absent (JSON event format, 3.1). A number is one of `exact_json.loads`.
    """
    for name, value in event.items():
        if name in _OURS or value is None:
            continue
        text = value if is_string(value) else _scalar(value)
        fault = _fault(name, text)
        yield name, None if fault else text, fault


def _scalar(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return None
    text = number_text(value)
    return text if _SCALAR.fullmatch(text) else None


def _fault(name: str, text: str | None) -> str:
    if not _NAME.fullmatch(name):
        return "is no attribute of a CloudEvent; its name must be 1 to 64 lower-case letters or digits"
    if text is None or _CONTROL.search(text):
        return "is wrong; send a string without control characters, an integer, or true or false"
    if name == "time" and not is_time(text):
        return "is wrong; send a time with its zone (RFC 3339), such as 2030-01-31T12:00:00Z"
    return "is empty; omit it, or send a value" if name in _NOT_EMPTY and not text else ""


def _decoded(value: str) -> str:
    """Decode a header by HTTP binding 3.1.3.2: first quoted strings, then per cent signs, once.

    Returns:
        The attribute; if the bytes are not UTF-8, U+0000, which no attribute may have.
    """
    bare = _QUOTATION.sub(_unquoted, value)
    try:
        return unquote_to_bytes(bare.encode("latin-1")).decode()
    except UnicodeDecodeError:
        return "\0"


def _unquoted(match: re.Match[str]) -> str:
    return _ESCAPE.sub(r"\1", match[1]) if match[2] else match[0]
