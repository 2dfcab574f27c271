"""The filters of the delivery log, and moments that a person writes."""

from datetime import UTC, datetime

import pytest

from hookwright_api.console.delivery_filters import DeliveryFilters, moment_of
from hookwright_api.console.navigation import address
from hookwright_runtime.problems import ProblemError

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_filters_become_conditions_of_a_search() -> None:
    """A period ends now; an exact begin counts instead of it; unknown parameters have no effect."""
    query = {"status": "failed", "type": "bounced", "message_id": " m-42 ", "event_id": "", "period": "1h", "x": "y"}
    filters = DeliveryFilters.of(query)
    expected = {"status": "failed", "type": "bounced", "message_id": "m-42"}
    assert filters.conditions(NOW) == {**expected, "since": "2026-01-31T11:00:00.000Z"}
    exact = DeliveryFilters.of(
        {**query, "since": "2026-01-30T08:00", "since_offset": "60", "until": "2026-01-30T09:00:30"}
    )
    times = {"since": "2026-01-30T07:00:00.000Z", "until": "2026-01-30T09:00:30.000Z"}
    assert exact.conditions(NOW) == {**expected, **times}


def test_only_other_filters_than_the_state_need_a_search() -> None:
    """The log of an endpoint has an index by state."""
    assert not DeliveryFilters.of({"status": "failed"}).needs_search
    assert DeliveryFilters.of({"period": "1h"}).needs_search


def test_an_address_has_the_chosen_filters_alone_and_they_are_escaped() -> None:
    """It is that of further pages."""
    assert address("/log", DeliveryFilters.of({})) == "/log"
    filters = DeliveryFilters.of({"message_id": 'a&b="<c>', "status": "failed"})
    query = "status=failed&message_id=a%26b%3D%22%3Cc%3E&cursor=x%2Fy"
    assert address("/log", filters, cursor="x/y") == f"/log?{query}"


@pytest.mark.parametrize("written", ["yesterday", "2026-13-01T00:00", "2026-01-31T12:00:00+99:00", "9" * 500])
def test_a_wrong_time_is_refused_with_the_name_of_its_field(written: str) -> None:
    """The form is shown again with the reason."""
    with pytest.raises(ProblemError) as refusal:
        moment_of("since", written, "0")
    [fault] = refusal.value.errors
    assert (refusal.value.status, fault.field) == (422, "since")
    assert "2026-01-31T12:00" in fault.message


@pytest.mark.parametrize(("written", "offset"), [("0001-01-01T00:00", "840"), ("9999-12-31T23:59", "-840")])
def test_a_time_at_the_end_of_the_calendar_is_refused_too(written: str, offset: str) -> None:
    """Its moment in UTC has no year."""
    with pytest.raises(ProblemError):
        moment_of("until", written, offset)


def test_a_wrong_offset_is_refused() -> None:
    """Scripts of the page write it, but anybody can send another one."""
    for offset in ("x", "99999", "9" * 400):
        with pytest.raises(ProblemError):
            moment_of("since", "2026-01-31T12:00", offset)
