"""The memory of rotations: an annotation with the latest ones that had an Idempotency-Key."""

from datetime import UTC, datetime, timedelta

import pytest

from hookwright_api.routes.webhook_secrets import (
    ROTATIONS_ANNOTATION,
    RotationEntry,
    annotation_of,
    remembered,
)

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def entry(number: int, age: timedelta = timedelta()) -> RotationEntry:
    """Return a rotation of this age."""
    return RotationEntry(f"{number:016x}", "b" * 16, number, int((NOW - age).timestamp()))


def test_rotations_are_read_back() -> None:
    """What one request writes, the next one reads."""
    entries = [entry(1), entry(2)]
    assert remembered({ROTATIONS_ANNOTATION: annotation_of(entries)}, NOW) == entries


def test_a_rotation_is_forgotten_after_24_hours() -> None:
    """Then its key may rotate again."""
    text = annotation_of([entry(1, timedelta(hours=24)), entry(2, timedelta(hours=23))])
    assert [item.rotation for item in remembered({ROTATIONS_ANNOTATION: text}, NOW)] == [2]


def test_the_annotation_is_bounded() -> None:
    """The latest 8 stay, in less than 1 KiB."""
    text = annotation_of([entry(number) for number in range(1_000_000, 1_000_100)])
    assert [item.rotation for item in remembered({ROTATIONS_ANNOTATION: text}, NOW)] == list(
        range(1_000_092, 1_000_100)
    )
    assert len(text) < 1024


@pytest.mark.parametrize("text", ["", "a", "a:b:c:d", "a:b:1", "a:b:1:2:3", "a:b:٣:1", f"a:b:1:{'9' * 5000}", ":::"])
def test_a_wrong_entry_is_ignored(text: str) -> None:
    """Everyone who may edit the object can write the annotation."""
    assert remembered({ROTATIONS_ANNOTATION: f"{text} {annotation_of([entry(3)])}"}, NOW) == [entry(3)]
