"""Pure: what is kept of a receiver's answer."""

import codecs
import re
import zlib
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

_WBITS: Final = {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}
"""zlib's window arguments by content coding; "deflate" is sent with and without zlib's header (RFC 9110 8.4.1.2)."""
_SECONDS: Final = re.compile(r"[0-9]{1,9}")


def excerpt(body: bytes, coding: str, limit: int) -> str:
    """Return the beginning of an answer as text.

    Args:
        body: the first bytes of the answer as they came.
        coding: its Content-Encoding; of one that is not understood the excerpt just says so.
        limit: how many bytes to keep, counted after decompression, of which no more is inflated.

    Bytes that are no UTF-8, and NUL, which PostgreSQL cannot keep in a text, become U+FFFD.
    """
    plain = _inflated(body, coding.strip().lower(), limit)
    if plain is None:
        return f"[{coding[:32]}-coded answer]" if coding.isprintable() else "[coded answer]"
    # Not final: a character that the limit cuts in two is dropped and does not become U+FFFD.
    text, _ = codecs.utf_8_decode(plain[:limit], "replace", False)  # noqa: FBT003 - positional in C
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def retry_after_ms(value: str, now: float) -> int | None:
    """Return how many milliseconds from ``now`` (seconds since the epoch) a Retry-After asks to wait.

    It is a number of seconds or an HTTP date (RFC 9110 10.2.3); None for anything else, 0 for the past.
    """
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return int(value) * 1000
    try:
        date = parsedate_to_datetime(value)
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        return max(0, int((date.timestamp() - now) * 1000))
    except (ValueError, OverflowError):
        return None


def _inflated(body: bytes, coding: str, limit: int) -> bytes | None:
    """Return the decompressed beginning, or None if it cannot be decompressed."""
    if coding in ("", "identity"):
        return body
    for wbits in _WBITS.get(coding, ()):
        try:
            return zlib.decompressobj(wbits).decompress(body, limit)
        except zlib.error:
            continue
    return None
