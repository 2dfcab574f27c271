"""The excerpt of a response, and the parsing of Retry-After."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwright_operator.delivery.http.response import excerpt, retry_after_ms

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("120", 120_000),
        (" 0 ", 0),
        ("Tue, 14 Nov 2023 22:15:20 GMT", 120_000),
        ("Tuesday, 14-Nov-23 22:15:20 GMT", 120_000),
        ("Tue, 14 Nov 2023 22:00:00 GMT", 0),
        ("Tue, 14 Nov 2023 22:15:20 -0000", 120_000),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("9" * 5000, None),
        ("Tue, 99 Nov 2023 22:15:20 GMT", None),
        ("", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str, expected: int | None) -> None:
    """Both forms of RFC 9110 are parsed, a past time is 0, and an invalid value is ignored."""
    assert retry_after_ms(value, NOW) == expected


@given(st.text(max_size=60))
def test_no_retry_after_value_raises(value: str) -> None:
    """A receiver cannot cause an exception with a header."""
    result = retry_after_ms(value, NOW)
    assert result is None or result >= 0


@given(st.binary(max_size=200), st.sampled_from(["", "gzip", "deflate", "br", "gzip, gzip", "\x1b"]))
def test_an_excerpt_is_bounded_text_whatever_comes(body: bytes, coding: str) -> None:
    """No body and no coding raises, and no NUL gets into a text that PostgreSQL stores."""
    text = excerpt(body, coding, 50)
    assert len(text) <= 50
    assert "\0" not in text


@pytest.mark.parametrize(("coding", "wbits"), [("gzip", 31), ("x-gzip", 31), ("Deflate", 15), ("deflate", -15)])
def test_compressed_answers_are_kept_decompressed(coding: str, wbits: int) -> None:
    """Both forms of deflate, and gzip, are readable even if only the beginning was received."""
    compressor = zlib.compressobj(wbits=wbits)
    body = compressor.compress(b"no such customer; " * 50) + compressor.flush(zlib.Z_SYNC_FLUSH)
    assert excerpt(body, coding, 18) == "no such customer; "


def test_the_limit_counts_decompressed_bytes() -> None:
    """A megabyte in a kilobyte is decompressed up to the limit only."""
    assert excerpt(zlib.compress(b"0" * 2**20), "deflate", 4096) == "0" * 4096


def test_a_coding_that_is_not_understood_is_named() -> None:
    """The excerpt names the coding instead of the text."""
    assert excerpt(b"\x8b\x01", "br", 100) == "[br-coded answer]"
    assert excerpt(b"not gzip", "gzip", 100) == "[gzip-coded answer]"


def test_a_character_cut_by_the_limit_is_dropped() -> None:
    """No replacement character appears if the receiver sent none."""
    assert excerpt("dříve".encode(), "", 2) == "d"
