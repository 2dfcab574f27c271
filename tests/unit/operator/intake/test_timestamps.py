"""Times in requests and answers."""

import pytest

from hookwright_operator.intake.timestamps import time_of, timestamp


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
