"""Conditions keep their transition times while their status is unchanged."""

from datetime import UTC, datetime, timedelta

import pytest

from hookwright_crds.conditions import Condition, Status, condition, find, merge

THEN = datetime(2030, 1, 31, 12, tzinfo=UTC)
NOW = THEN + timedelta(hours=1)


def ready(status: Status, now: datetime, *, reason: str = "Prepared", generation: int = 1) -> Condition:
    """Return a Ready condition."""
    return condition("Ready", status, reason, f"Because {reason}.", generation=generation, now=now)


def test_an_unchanged_status_keeps_its_transition_time_and_takes_all_else_anew() -> None:
    """The transition time stays if only the reason changes."""
    [conditions] = merge([ready("False", THEN)], [ready("False", NOW, reason="ProjectNotFound", generation=2)])
    assert conditions.last_transition_time == THEN
    assert (conditions.reason, conditions.message, conditions.observed_generation) == (
        "ProjectNotFound",
        "Because ProjectNotFound.",
        2,
    )


@pytest.mark.parametrize(("before", "after"), [("True", "False"), ("False", "True"), ("True", "Unknown")])
def test_a_changed_status_takes_the_new_time(before: Status, after: Status) -> None:
    """The transition time is the time of the last change of the status."""
    [conditions] = merge([ready(before, THEN)], [ready(after, NOW)])
    assert conditions.last_transition_time == NOW


def test_merging_the_same_again_changes_nothing() -> None:
    """Unchanged conditions give an equal status, so the operator writes nothing."""
    before = [ready("True", THEN)]
    assert merge(before, [ready("True", NOW)]) == before


def test_a_condition_is_merged_with_its_own_type_only() -> None:
    """A condition does not get the transition time of another type; a type that is not reported any more is removed."""
    second = condition("Reachable", "True", "Answered", generation=1, now=THEN)
    [conditions] = merge([second], [ready("True", NOW)])
    assert conditions.type == "Ready"
    assert conditions.last_transition_time == NOW


def test_the_order_is_that_of_the_new_conditions() -> None:
    """A different order of the conditions is not a change of the status."""
    second = condition("Reachable", "True", "Answered", generation=1, now=THEN)
    conditions = merge([second, ready("True", THEN)], [ready("True", NOW), second])
    assert [item.type for item in conditions] == ["Ready", "Reachable"]


def test_find_returns_the_condition_of_a_type_or_none() -> None:
    """A condition is found by its type."""
    first = ready("True", THEN)
    assert find([first], "Ready") is first
    assert find([first], "Reachable") is None
