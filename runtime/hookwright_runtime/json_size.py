"""Pure: how large a JSON text is, in values and in bytes, before it is decoded.

Decoding and checking costs microseconds for each value, so a small text with very many values could keep an event loop
busy for a second.
"""

import re
from typing import Final

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKET: Final = re.compile(r'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+([\[\]{}])', re.DOTALL)


def has_more_values(text: bytes, bound: int) -> bool:
    """Return whether a JSON text has more values than a bound; characters in strings do not count."""
    return _separators(text) > bound and number_of_values(text) > bound


def number_of_values(text: bytes) -> int:
    """Return about how many values a JSON text has: at least all but one, at most two for each."""
    # A value follows a comma, or begins an object or array, or is the first one of its object or array.
    return _separators(_STRING.sub(b"", text))


def least_size(text: bytes) -> int:
    """Return a number of bytes that the value of a JSON text has at least, as compact UTF-8."""
    # No escape of six bytes becomes less than one byte, and no escape of two.
    spaces = sum(map(text.count, (b" ", b"\t", b"\n", b"\r")))
    return len(text) - spaces - text.count(b"\\") - 4 * text.count(b"\\u")


def end_of_value(text: str, at: int, limit: int) -> int:
    """Return where the object or array ends that begins at a position.

    Args:
        text: JSON.
        at: where the object or array begins.
        limit: values; if it has so many arrays and objects, the result may be the end of the text.
    """
    depth = 0
    for _ in range(2 * limit):
        match = _BRACKET.match(text, at)
        if match is None:
            break
        at = match.end()
        depth += 1 if match[1] in "[{" else -1
        if not depth:
            return at
    return len(text)


def _separators(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")
