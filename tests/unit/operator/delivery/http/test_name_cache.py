"""Entries of names: how long results and failures count."""

import socket

import pytest

from hookwright_operator.delivery.http.name_cache import FALLBACK, FRESH, RENEWAL, NameEntry

AGAIN = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
GONE = socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def found(*addresses: str, took: float = 0.01) -> NameEntry:
    """Return the entry of a name that was found at second 100."""
    entry = NameEntry()
    entry.found(list(addresses), 100.0, took)
    return entry


def test_an_answer_is_fresh_then_served_while_renewed_then_waited_for() -> None:
    """Each age of an answer has one treatment."""
    entry = found("192.0.2.1")
    assert not entry.due(100 + FRESH - 1)
    assert entry.due(100 + FRESH)
    assert entry.usable(100 + RENEWAL - 1, RENEWAL)
    assert not entry.usable(100 + RENEWAL, RENEWAL)
    assert entry.usable(100 + FALLBACK - 1, FALLBACK)


def test_an_answer_survives_a_failure_for_now_and_no_further_than_its_age() -> None:
    """If a name server is unavailable for a minute, attempts at known names continue."""
    entry = found("192.0.2.1")
    entry.failed(AGAIN, 200.0, 0.01)
    assert entry.take(201.0) == ["192.0.2.1"]
    with pytest.raises(OSError, match=r"(?i)name") as error:
        entry.take(100.0 + FALLBACK)
    assert error.value.errno == socket.EAI_AGAIN


def test_a_name_that_is_gone_is_forgotten_at_once() -> None:
    """The old address may belong to another host by now."""
    entry = found("192.0.2.1")
    entry.failed(GONE, 120.0, 0.01)
    with pytest.raises(OSError, match=r"(?i)name") as error:
        entry.take(121.0)
    assert error.value.errno == socket.EAI_NONAME


def test_failures_in_a_row_are_remembered_longer_each_time_up_to_a_minute() -> None:
    """An answer resets the pause."""
    entry, pauses = NameEntry(), []
    for _ in range(8):
        entry.failed(AGAIN, 100.0, 0.01)
        pauses.append(entry.next_at - 100)
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]
    entry.found(["192.0.2.1"], 100.0, 0.01)
    entry.failed(AGAIN, 100.0, 0.01)
    assert entry.next_at == 102


@pytest.mark.parametrize("took", [5.0, 10.0, 100.0])
def test_a_slow_name_is_looked_up_rarely(took: float) -> None:
    """A name uses a fifth of a place, whether its look-ups fail or succeed; the pause ends after a minute."""
    slow, failing = found("192.0.2.1", took=took), NameEntry()
    failing.failed(AGAIN, 100.0, took)
    assert slow.next_at == failing.next_at == 100 + min(60, 4 * took)


def test_addresses_take_turns_and_are_bounded() -> None:
    """An answer with a thousand addresses costs no more memory than sixteen."""
    entry = found(*(f"192.0.2.{number}" for number in range(200)))
    firsts = [entry.take(100.0)[0] for _ in range(17)]
    assert firsts == [f"192.0.2.{number % 16}" for number in range(17)]
    assert len(entry.take(100.0)) == 16
