"""The entries of a log that one holder may write."""

import asyncio

import pytest
import structlog
from structlog.contextvars import bound_contextvars, get_contextvars
from support.polling import until
from support.store_factories import Clock

from hookwright_runtime.log_bounds import LogBound, shortened


def allowance(clock: Clock) -> LogBound:
    """Return an allowance of 10 entries at once and 2 a second."""
    return LogBound(burst=10, rate=2, clock=lambda: clock.now / 1000)


def test_a_holder_may_log_its_burst_and_then_its_rate() -> None:
    """Unused entries are saved up to the burst, and no further."""
    clock = Clock()
    entries = allowance(clock)
    assert [entries.take("acme", 4) for _ in range(4)] == [4, 4, 2, 0]
    clock.advance(1500)
    assert [entries.take("acme") for _ in range(4)] == [1, 1, 1, 0]
    clock.advance(3_600_000)
    assert entries.take("acme", 100) == 10


def test_a_holder_uses_up_only_its_own_entries() -> None:
    """Another holder has its whole allowance."""
    entries = allowance(Clock())
    assert entries.take("hostile", 1000) == 10
    assert entries.take("acme", 1000) == 10


def test_holders_that_log_nothing_are_forgotten() -> None:
    """The memory is bounded by the holders that log at the same time."""
    clock = Clock()
    entries = allowance(clock)
    for number in range(5000):
        clock.advance(1000)
        entries.take(f"holder-{number}")
    assert len(entries._room) <= 1025


def test_a_holder_that_has_used_its_entries_is_not_forgotten() -> None:
    """Many other holders give it no new allowance."""
    clock = Clock()
    entries = allowance(clock)
    entries.take("hostile", 10)
    for number in range(3000):
        entries.take(f"holder-{number}")
    assert entries.take("hostile") == 0


async def test_omitted_entries_are_reported_once_a_second_without_the_context_of_a_request() -> None:
    """The report belongs to no request, although a request was the first that was not logged."""
    reports: list[tuple[str, int, dict[str, object]]] = []
    bound = LogBound(
        burst=0, rate=0, report=lambda holder, count: reports.append((holder, count, dict(get_contextvars())))
    )
    with bound_contextvars(request_id="r-1"):
        assert [bound.allow(holder) for holder in ("acme", "acme", "rival")] == [False] * 3
    await until(lambda: asyncio.sleep(0, len(reports) == 2))
    assert reports == [("acme", 2, {}), ("rival", 1, {})]
    bound.flush()
    assert len(reports) == 2
    structlog.contextvars.clear_contextvars()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("evt-4711", "evt-4711"),
        ("x" * 100, "x" * 100),
        ("x" * 101, "x" * 100 + "…"),
        ("ä" * 16, "ä" * 16),
        ("ä" * 17, "ä" * 16 + "…"),
        ("\U0001f600" * 256, "\U0001f600" * 8 + "…"),
        ("\0" * 100, "\0" * 16 + "…"),
        ("", ""),
    ],
)
def test_a_text_of_a_tenant_is_cut_by_its_size_in_the_log(text: str, shown: str) -> None:
    """The log is JSON in ASCII, in which a character has up to 12 bytes."""
    assert shortened(text) == shown
