"""Parsing of a receiver's bytes: framing, limits, and whether the connection may be used again."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hookwright_operator.delivery.http.connection import READ_LIMIT, Exchange
from hookwright_operator.delivery.http.error_messages import AttemptError, Step

KEEP = 16
INVALID = "invalid HTTP answer"
CUT_SHORT = "invalid HTTP answer: the body is malformed or cut short"
CLOSED = "connection closed while waiting for the answer"
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
HINT = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nRetry-After: 1\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

Result = tuple[int, str, bytes, bool]
"""Status, error, the kept body, and whether the connection may be used again."""


def read(*pieces: bytes, broken: bool = False) -> tuple[Result, Exchange]:
    """Parse a response that arrives in these pieces, after which the receiver closes."""
    exchange, error, over = Exchange(KEEP), "", False
    try:
        for index, piece in enumerate(pieces):
            if exchange.feed(piece):
                # Data after the response is rejected by the connection.
                over, reusable = True, exchange.reusable and not any(pieces[index + 1 :])
                break
        if not over:
            exchange.end(broken=broken)
            reusable = exchange.reusable
    except AttemptError as fault:
        error, reusable = str(fault), exchange.reusable
    return (exchange.status, error, exchange.body, reusable), exchange


WHOLE = {
    "a length": (OK + b"Content-Length: 2\r\n\r\nok", 200, b"ok", True),
    "no body": (OK + b"Content-Length: 0\r\n\r\n", 200, b"", True),
    "chunks": (CHUNKED + b"2\r\nok\r\n3;a=b\r\nay!\r\n0\r\n\r\n", 200, b"okay!", True),
    "chunks with trailers": (CHUNKED + b"2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n", 200, b"ok", True),
    "chunked after another coding": (OK + b"Transfer-Encoding: x, Chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", 200, b"a", True),
    "all until the end": (OK + b"\r\nall of it", 200, b"all of it", False),
    "a coding that is not chunked": (OK + b"Transfer-Encoding: chunked, x\r\n\r\n1\r\n", 200, b"1\r\n", False),
    "Connection: close": (OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", False),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", False),
    "HTTP/1.0 that keeps": (
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", True,
    ),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
    "204 with a length": (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", 204, b"", True),
    "304 with a length": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, b"", True),
    "interim answers": (HINT + CONTINUE + HINT + OK + b"Content-Length: 1\r\n\r\na", 200, b"a", True),
    "101": (b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", 101, b"", False),
    "101 without a word": (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", 101, b"", False),
    "bytes after the answer": (OK + b"Content-Length: 2\r\n\r\nokay", 200, b"ok", False),
    "an answer after the answer": (OK + b"Content-Length: 2\r\n\r\nok" + OK + b"\r\n", 200, b"ok", False),
    "a body where none belongs": (b"HTTP/1.1 204 No Content\r\n\r\nok", 204, b"", False),
    "lines that end in LF": (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, b"ok", True),
    "no reason": (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, b"", True),
    "more than is kept": (OK + b"Content-Length: 20\r\n\r\n" + b"x" * 20, 200, b"x" * KEEP, True),
    "more than is read": (OK + b"Content-Length: 99999999\r\n\r\n" + b"x" * READ_LIMIT, 200, b"x" * KEEP, False),
    "trailers without end": (CHUNKED + b"1\r\nx\r\n0\r\nX: " + b"x" * READ_LIMIT, 200, b"x", False),
    "chunks without end": (CHUNKED + b"1\r\nx\r\n" * READ_LIMIT, 200, b"x" * KEEP, False),
}  # fmt: skip

UNUSABLE = {
    "nothing": (b"", 0, CLOSED),
    "half a status line": (b"HTTP/1.1 200", 0, CLOSED),
    "half a head": (OK + b"Content-Le", 0, CLOSED),
    "only interim answers": (HINT + HINT, 0, CLOSED),
    "another protocol": (b"SSH-2.0-OpenSSH_9.9\r\n", 0, INVALID),
    "no status": (b"HTTP/1.1 abc OK\r\n\r\n", 0, INVALID),
    "status 0": (b"HTTP/1.1 000 OK\r\n\r\n", 0, INVALID),
    "status 99": (b"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n", 0, INVALID),
    "four digits": (b"HTTP/1.1 2000 OK\r\n\r\n", 0, INVALID),
    "a name with a space": (OK + b"Bad Header: x\r\n\r\n", 0, INVALID),
    "two lengths": (OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 0, INVALID),
    "a length and chunks": (OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 0, INVALID),
    "a negative length": (OK + b"Content-Length: -1\r\n\r\n", 0, INVALID),
    "a length that overflows": (OK + b"Content-Length: 18446744073709551618\r\n\r\nok", 0, INVALID),
    "a length in hexadecimal": (OK + b"Content-Length: 0x2\r\n\r\nok", 0, INVALID),
    "a chunk's size that is none": (CHUNKED + b"2\r\nok\r\nzz\r\n", 0, INVALID),
    "a chunk's size that overflows": (CHUNKED + b"10000000000000001\r\nx", 0, INVALID),
    "a negative chunk": (CHUNKED + b"-1\r\nx", 0, INVALID),
    "a chunk longer than it says": (CHUNKED + b"2\r\nokay\r\n0\r\n\r\n", 0, INVALID),
    "headers without end": (OK + b"X-A: b\r\n" * READ_LIMIT, 0, INVALID),
    "a header without end": (OK + b"X-A: " + b"b" * READ_LIMIT, 0, INVALID),
    "a reason without end": (b"HTTP/1.1 200 " + b"b" * READ_LIMIT, 0, INVALID),
    "interim answers without end": (HINT * READ_LIMIT, 0, INVALID),
    "less than the length": (OK + b"Content-Length: 10\r\n\r\nshort", 200, CUT_SHORT),
    "no last chunk": (CHUNKED + b"5\r\nshort\r\n", 200, CUT_SHORT),
    "a chunk cut short": (CHUNKED + b"5\r\nsho", 200, CUT_SHORT),
    "no end of the trailers": (CHUNKED + b"0\r\nX-A: b\r\n", 200, CUT_SHORT),
}


@pytest.mark.parametrize("case", WHOLE)
def test_a_whole_answer_is_read_and_the_connection_kept_only_where_both_sides_may(case: str) -> None:
    """Framing follows RFC 9112 6 and 9: the end of the body, and the conditions of a reusable connection."""
    answer, status, body, reusable = WHOLE[case]
    assert read(answer)[0] == (status, "", body, reusable)


@pytest.mark.parametrize("case", UNUSABLE)
def test_an_unusable_answer_says_so_and_its_connection_is_never_kept(case: str) -> None:
    """Data that is not HTTP has status 0; a known status stays if only the body is incomplete."""
    answer, status, error = UNUSABLE[case]
    (records, text, _, reusable), _ = read(answer)
    assert (records, text, reusable) == (status, error, False)


def test_a_body_that_ends_with_the_connection_must_not_end_in_a_reset() -> None:
    """Without a length, only an orderly close ends the response."""
    assert read(OK + b"\r\nsome", broken=True)[0] == (200, CUT_SHORT, b"some", False)


@pytest.mark.parametrize(("longer", "stray", "reusable"), [(0, b"", True), (1, b"", False), (0, b"x", False)], ids=str)
def test_exactly_as_many_bytes_as_the_limit_are_read(*, longer: int, stray: bytes, reusable: bool) -> None:
    """The limit includes the head; a response of exactly this size keeps the connection usable if no data follows."""
    head = OK + b"Content-Length: %05d\r\n\r\n"
    length = READ_LIMIT + longer - len(head % 0)
    assert read(head % length + b"x" * length + stray)[0] == (200, "", b"x" * KEEP, reusable)


def test_headers_are_those_of_the_final_answer_and_not_of_hints_or_trailers() -> None:
    """The first of several equal headers counts."""
    final = b"HTTP/1.1 503 Busy\r\nretry-AFTER: 7\r\nRetry-After: 8\r\nTransfer-Encoding: chunked\r\n\r\n"
    _, exchange = read(HINT + final + b"0\r\nContent-Encoding: gzip\r\n\r\n")
    assert (exchange.status, exchange.retry_after, exchange.coding) == (503, "7", "")


def test_it_is_known_how_far_an_answer_has_come() -> None:
    """An attempt that times out reports its step."""
    exchange = Exchange(KEEP)
    exchange.feed(HINT + OK + b"Content-Length: 9\r\n")
    before = exchange.step
    exchange.feed(b"\r\npart")
    assert (before, exchange.step, exchange.status, exchange.body) == (Step.LOOKUP, Step.BODY, 200, b"part")


ANSWERS = [
    answer
    for answer in (*(case[0] for case in WHOLE.values()), *(case[0] for case in UNUSABLE.values()))
    if len(answer) < 4096
]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Return a response from the tables, some of whose bytes may be changed."""
    answer = draw(st.sampled_from(ANSWERS))
    if not answer or not draw(st.booleans()):
        return answer
    at = draw(st.integers(0, len(answer)))
    return answer[:at] + draw(st.binary(max_size=6)) + answer[at + draw(st.integers(0, 6)) :]


@given(damaged(), st.data())
@example(CHUNKED + b"2\r\nok\r\nzz\r\n", None)
def test_however_the_bytes_are_cut_the_answer_is_the_same(answer: bytes, data: st.DataObject | None) -> None:
    """The split into pieces changes neither status, error, body, headers nor reuse."""
    cuts = range(len(answer)) if data is None else sorted(data.draw(st.sets(st.integers(0, len(answer)), max_size=8)))
    edges = [0, *cuts, len(answer)]
    whole, in_one = read(answer)
    parts, in_parts = read(*(answer[start:end] for start, end in pairwise(edges)))
    assert parts[:3] == whole[:3]
    assert (in_parts.coding, in_parts.retry_after) == (in_one.coding, in_one.retry_after)
    # The parser ignores empty lines after a response, which is harmless; alone they end the connection.
    if not answer.endswith(b"\n"):
        assert parts[3] == whole[3]
