"""Durations, times and field names of the models."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from hookwright_crds.base import (
    DURATION_PATTERN,
    EARLIEST,
    LATEST,
    Duration,
    Model,
    ObjectMeta,
    ServerModel,
    Timestamp,
    format_timestamp,
    parse_duration,
    parse_timestamp,
)

UNITS = st.integers(min_value=0, max_value=99_999)
TIMESTAMP: TypeAdapter[datetime] = TypeAdapter(Timestamp)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0s", 0), ("15s", 15), ("2m", 120), ("1h", 3600), ("1h30m", 5400), ("1h0m1s", 3601), ("90m", 5400), ("007s", 7)],
)
def test_a_duration_is_hours_minutes_and_seconds(text: str, seconds: int) -> None:
    """Each unit may be omitted, and may be more than 59."""
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    ["", "15", "s", "-1s", "+1s", "1.5s", "1s1m", "1m1h", "1h1h", "1d", "500ms", "1 h", " 1h", "1h\n", "\u0661s",
     "\uff11\uff15s", "1H", "999999s", "9" * 400 + "h"],
)  # fmt: skip
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    """The error message names the correct form; digits of other scripts and numbers that overflow are refused."""
    with pytest.raises(ValueError, match="15s, 2m or 1h30m"):
        parse_duration(text)


@given(UNITS, UNITS, UNITS)
def test_every_written_duration_is_read(hours: int, minutes: int, seconds: int) -> None:
    """Every number of five digits is accepted for each unit."""
    text = f"{hours}h{minutes}m{seconds}s"
    assert parse_duration(text) == timedelta(hours=hours, minutes=minutes, seconds=seconds)
    assert TypeAdapter(Duration).validate_python(text) == text


@given(st.text(alphabet="0123456789hms .-", max_size=20))
def test_the_parser_takes_what_the_pattern_takes(text: str) -> None:
    """The CRD has the same pattern, so the API server and the models accept the same texts."""
    expected = bool(text) and re.fullmatch(DURATION_PATTERN, text) is not None
    try:
        parse_duration(text)
    except ValueError:
        assert not expected
    else:
        assert expected


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("2030-01-31T12:00:00Z", "2030-01-31T12:00:00Z"),
        ("2030-01-31T12:00:00.999999999Z", "2030-01-31T12:00:00Z"),
        ("2030-01-31T12:00:00+05:30", "2030-01-31T06:30:00Z"),
        ("2030-01-31T23:30:00-01:00", "2030-02-01T00:30:00Z"),
        (datetime(2030, 1, 31, 12, tzinfo=timezone(timedelta(hours=2))), "2030-01-31T10:00:00Z"),
    ],
)
def test_a_time_is_kept_in_utc_with_whole_seconds(written: object, shown: str) -> None:
    """Equal times compare and print alike, whatever their time zone is."""
    moment = TIMESTAMP.validate_python(written)
    assert moment.utcoffset() == timedelta(0)
    assert TIMESTAMP.dump_python(moment, mode="json") == shown


@pytest.mark.parametrize(
    "written",
    [
        "", "2030-01-31", "2030-01-31T12:00:00", "2030-01-31T12:00Z", "2030-01-31 12:00:00Z", "2030-01-31t12:00:00z",
        "1735689600", 1735689600, 1735689600.5, True, "2030-02-30T12:00:00Z", "2030-01-31T24:00:01Z",
        "2030-12-31T23:59:60Z", "2030-01-31T12:00:00+0100", "2030-01-31T12:00:00Z\n", "0000-01-01T00:00:00Z",
        "1969-12-31T23:59:59Z", "9999-12-31T23:59:59-01:00", "9999-01-01T00:00:00Z",
        datetime(2030, 1, 31, 12),  # noqa: DTZ001 - a time without a zone is the case
    ],
)  # fmt: skip
def test_what_the_server_takes_for_no_time_the_models_refuse(written: object) -> None:
    """Forms that only pydantic accepts are refused, such as numbers and dates without a time; no time overflows."""
    with pytest.raises(ValidationError):
        TIMESTAMP.validate_python(written)


@given(st.datetimes(EARLIEST.replace(tzinfo=None), LATEST.replace(tzinfo=None) - timedelta(seconds=1)))
def test_a_time_survives_being_written_and_read(moment: datetime) -> None:
    """Times are formatted with whole seconds, as Kubernetes stores them."""
    aware = moment.replace(tzinfo=UTC)
    assert TIMESTAMP.validate_python(format_timestamp(aware)) == aware.replace(microsecond=0)


class Strict(Model):
    """A model with a field for a credential."""

    some_field: str | None = None
    count: int = 0


class Lenient(ServerModel):
    """A model of fields that the API server sets."""

    some_field: str = ""


def test_names_are_camel_case_outside_and_unset_fields_are_absent() -> None:
    """The JSON form follows Kubernetes, where null means absent."""
    assert Strict(some_field="x").to_kubernetes() == {"someField": "x", "count": 0}
    assert Strict().to_kubernetes() == {"count": 0}
    assert Strict.model_validate({"someField": "x"}) == Strict(some_field="x")


@pytest.mark.parametrize("unknown", [{"sumField": "x"}, {"somefield": "x"}])
def test_unknown_fields_are_refused_in_what_people_write_and_passed_over_in_what_the_server_writes(
    unknown: dict[str, Any],
) -> None:
    """A misspelt field of a manifest is refused; a field of a newer API server is ignored."""
    with pytest.raises(ValidationError):
        Strict.model_validate(unknown)
    assert Lenient.model_validate(unknown) == Lenient()


def test_a_refusal_does_not_repeat_the_value() -> None:
    """An error message does not contain the refused value: it may be a credential, and messages are logged."""
    with pytest.raises(ValidationError) as error:
        Strict.model_validate({"someField": "x", "count": "hunter2"})
    assert "count" in str(error.value)
    assert "hunter2" not in str(error.value)


def test_metadata_keeps_what_decides_ownership() -> None:
    """The API server's metadata is read by its own field names, and its other fields are ignored."""
    meta = ObjectMeta.model_validate(
        {
            "name": "orders",
            "resourceVersion": "7",
            "managedFields": [{}],
            "deletionTimestamp": "2030-01-31T12:00:00Z",
            "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u", "blockOwnerDeletion": True}],
        }
    )
    assert meta.resource_version == "7"
    assert meta.deletion_timestamp == datetime(2030, 1, 31, 12, tzinfo=UTC)
    assert [(owner.uid, owner.controller) for owner in meta.owner_references] == [("u", False)]


def test_a_written_time_is_read_again() -> None:
    """The annotations of Secrets have times of this form."""
    moment = datetime(2030, 1, 31, 23, 30, tzinfo=timezone(timedelta(hours=-1)))
    assert parse_timestamp(format_timestamp(moment)) == moment
    assert parse_timestamp("2030-02-01T00:30:00Z").utcoffset() == timedelta(0)


@pytest.mark.parametrize("text", ["", "soon", "2030-01-31", "2030-01-31T12:00:00", "2030-01-31T12:00:00+01:00"])
def test_a_text_without_a_written_time_is_refused(text: str) -> None:
    """People can change annotations, so the callers expect this error."""
    with pytest.raises(ValueError, match="does not match format"):
        parse_timestamp(text)
