"""Times in requests and answers."""

import pytest

from hookwright_crds.timestamps import is_time, time_of, timestamp


@pytest.mark.parametrize(
    ("text", "epoch_ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-31t12:00:00.5+02:00", 1_769_853_600_500),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
    ],
)
def test_every_time_that_is_read_can_be_written(text: str, epoch_ms: int) -> None:
    """Zones and fractions count."""
    assert time_of(text) == epoch_ms
    assert time_of(timestamp(epoch_ms)) == epoch_ms


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z"),
        ("2016-12-31T15:59:60.5-08:00", "2016-12-31T15:59:59.5-08:00"),
    ],
)
def test_a_leap_second_counts_as_the_second_before_it(text: str, before: str) -> None:
    """RFC 3339, section 5.7, allows second 60 at the end of a day in UTC."""
    assert is_time(text)
    assert time_of(text) == time_of(before)


@pytest.mark.parametrize(
    "text",
    [
        "2030-99-99T99:99:99Z",
        "2030-02-30T00:00:00Z",
        "2030-01-31T24:00:00Z",
        "2030-01-31T12:00:60Z",
        "2016-12-31T23:59:61Z",
        "2016-12-31T23:59:60+01:00",
        "2030-01-31T12:00:00+24:00",
        "2030-01-31T12:00:00+12:75",
        "0000-01-31T12:00:00Z",
        "0001-01-01T00:00:60+14:00",
        "2030-01-31T12:00:00",
    ],
)
def test_a_time_that_does_not_exist_is_no_time(text: str) -> None:
    """The form alone is not enough."""
    assert not is_time(text)
    assert time_of(text) is None


def test_a_time_before_1970_is_a_time() -> None:
    """An event may have it, although a replay cannot begin with it."""
    assert is_time("0001-01-01T00:00:00+14:00")


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00+14:00",
        "1969-12-31T23:59:59.999Z",
        "9999-12-31T23:59:59-14:00",
        "2026-13-01T00:00:00Z",
        "2026-01-31T12:00:00",
        "now",
    ],
)
def test_a_time_that_cannot_be_written_is_none(text: str) -> None:
    """A replay from such a time could not be shown."""
    assert time_of(text) is None
