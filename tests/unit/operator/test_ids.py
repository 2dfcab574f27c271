"""ULIDs follow their specification and are ordered."""

import re
from itertools import pairwise

from hookwright_operator.ids import Ulids, delivery_id, epoch_ms_of, first_delivery_id, message_id, replay_id, trial_id

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
MS = 1_000_000


def number(ulid: str) -> int:
    """Return the number that a ULID encodes."""
    value = 0
    for character in ulid:
        value = value * 32 + ALPHABET.index(character)
    return value


def test_a_ulid_is_the_time_in_milliseconds_and_80_random_bits() -> None:
    """The example of the specification: 01ARZ3NDEKTSV4RRFFQ69G5FAV."""
    ulid = Ulids(lambda: 1_469_922_850_259 * MS + 999_999, (0xD676 << 64 | 42).to_bytes)()
    assert ulid == "01ARZ3NDEK" + "TSV000000000001A"
    assert number(ulid) == 1_469_922_850_259 << 80 | 0xD676 << 64 | 42


def test_each_is_greater_than_the_one_before_even_where_the_clock_goes_back() -> None:
    """Within a millisecond, and for a while after a jump of the clock, they count up."""
    times = [5, 5, 5, 6, 2, 2, 7, 8, 8]
    ticks = iter([tick * MS for tick in times])
    draw = Ulids(lambda: next(ticks), lambda size: b"\x7f" * size)
    draws = [draw() for _ in times]
    assert all(len(value) == 26 for value in draws)
    assert all(sooner < later for sooner, later in pairwise(draws))
    assert [number(value) >> 80 for value in draws] == [5, 5, 5, 6, 6, 6, 7, 8, 8]


def test_the_last_random_number_of_a_millisecond_leads_into_the_next() -> None:
    """No greater random number exists in that millisecond."""
    draw = Ulids(lambda: 5 * MS, lambda size: b"\xff" * size)
    assert [number(draw()), number(draw())] == [(6 << 80) - 1, 6 << 80]


def test_ids_say_whose_they_are() -> None:
    """No two ids are equal."""
    kinds = {"msg": message_id, "dlv": delivery_id, "rec": replay_id, "test": trial_id}
    for prefix, draw in kinds.items():
        draws = {draw() for _ in range(100)}
        assert len(draws) == 100
        assert all(re.fullmatch(rf"{prefix}_[0-7][{ALPHABET}]{{25}}", value) for value in draws)


def test_an_id_has_the_time_at_which_it_was_made() -> None:
    """The time of the specification's example, and of the least id of a time."""
    assert epoch_ms_of("msg_01ARZ3NDEKTSV4RRFFQ69G5FAV") == 1_469_922_850_259
    assert epoch_ms_of(first_delivery_id(1_800_000_000_001)) == 1_800_000_000_001
