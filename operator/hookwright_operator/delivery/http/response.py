"""Pure: the part of a receiver's response that the delivery log keeps."""

import codecs
import re
import zlib
from collections.abc import Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

_WBITS: Final = {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}
"""Window arguments of zlib by content coding; "deflate" is sent with and without zlib's header (RFC 9110 8.4.1.2)."""
_SECONDS: Final = re.compile(r"[0-9]{1,9}")


def excerpt(body: bytes, coding: str, limit: int) -> str:
    """Return the beginning of a response body as text.

    Args:
        body: the first bytes of the response body as received.
        coding: the response's Content-Encoding. If it is not supported, the excerpt only names it.
        limit: how many bytes to keep, counted after decompression. No more bytes than this are decompressed.

    Invalid UTF-8 becomes U+FFFD. NUL does too, because PostgreSQL cannot store it in a text.
    """
    plain = _inflated(body, coding.strip().lower(), limit)
    if plain is None:
        return f"[{coding[:32]}-coded answer]" if coding.isprintable() else "[coded answer]"
    # Not final: a character that the limit cuts in two is dropped and does not become U+FFFD.
    text, _ = codecs.utf_8_decode(plain[:limit], "replace", False)  # noqa: FBT003 - positional in C
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def header_lines(headers: Sequence[tuple[bytes, bytes]]) -> str:
    """Return headers as text, one in each line."""
    return b"\n".join([b"%b: %b" % header for header in headers]).decode("latin-1")


def retry_after_ms(value: str, now: float) -> int | None:
    """Return how many milliseconds from ``now`` (seconds since the epoch) a Retry-After asks to wait.

    The header is a number of seconds or an HTTP date (RFC 9110 10.2.3). The result is 0 for a time in the past
    and None for any other value.
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
