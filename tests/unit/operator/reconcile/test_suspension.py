"""The promises of ``spec.suspendAfter``: when the operator suspends an endpoint, and what resumes it."""

from dataclasses import replace

import pytest
from support.reconcile_scenes import EndpointScene, after, in_words, status_of, steady_endpoint, with_metadata
from unit.operator.reconcile.test_endpoint import STEADY, health
from unit.operator.reconcile.test_operational_events import at, fails, reports

DAY = 24 * 60
SUSPENDING = steady_endpoint(suspendAfter="1d")
FAILED = at(fails(at(fails(SUSPENDING, 0), 0), 6), 6)
SUSPENDED = at(fails(FAILED, DAY), DAY)


def is_sending(scene: EndpointScene) -> bool:
    """Return whether delivery sends to the endpoint of the scene."""
    assert scene.registered is not None
    return scene.registered.sendable


def test_a_failed_attempt_after_the_time_suspends_the_endpoint() -> None:
    """The condition, the Event and the operational event have the reason; deliveries are kept, as of a blocked one."""
    assert in_words(fails(FAILED, DAY).plan(after(minutes=DAY))) == [
        "register: blocked by SuspendedAfterFailures",
        "report hookwright.endpoint.suspended",
        "status: Ready=False SuspendedAfterFailures, Stalled=True SuspendedAfterFailures, Reachable=False Failing",
        "Warning Event SuspendedAfterFailures",
    ]
    [report] = reports(fails(FAILED, DAY), DAY)
    assert "No attempt has succeeded since 2030-01-01T12:00:00Z" in report.fields["message"]
    assert SUSPENDED.registered is not None
    assert "delivered" in SUSPENDED.registered.events
    assert in_words(SUSPENDED.plan(after(minutes=2 * DAY))) == ["register: blocked by SuspendedAfterFailures"]


@pytest.mark.parametrize(
    "scene",
    [
        fails(FAILED, DAY - 1),
        fails(at(fails(FAILED, 600, succeeded=True), 600), DAY),
        replace(FAILED, health=health(200, attempted=after(minutes=DAY))),
        fails(at(fails(STEADY, 0), 0), 30 * DAY),
        FAILED,
    ],
    ids=["too early", "a success between", "a success", "off by default", "no further attempt"],
)
def test_other_endpoints_are_not_suspended(scene: EndpointScene) -> None:
    """The name of each case is its reason."""
    assert is_sending(at(scene, DAY))


def test_an_endpoint_that_its_owner_suspends_stays_as_it_is() -> None:
    """It gets no attempts, so its failures are no news."""
    scene = replace(at(fails(steady_endpoint(suspendAfter="1d", suspend=True), 0), 0))
    assert in_words(fails(scene, DAY).plan(after(minutes=DAY)))[0] == "register: suspended"


def test_a_report_without_an_attempt_ends_no_suspension() -> None:
    """The last answer was 200 and cut short, so its status code alone says nothing."""
    cut_short = health(200, error="the body is cut short", attempted=after(minutes=DAY))
    suspended = at(replace(FAILED, health=cut_short), DAY)
    assert not is_sending(suspended)
    assert not is_sending(at(replace(suspended, health=replace(cut_short, error="")), DAY + 1))


@pytest.mark.parametrize("cause", ["a change", "a test or a retry"])
def test_a_resumed_endpoint_has_the_whole_time_again(cause: str) -> None:
    """The last attempt before the suspension counts no more, also when new counts come without an attempt."""
    is_change = cause == "a change"
    known = health(500, attempted=after(minutes=DAY))
    scene = with_metadata(SUSPENDED, generation=2) if is_change else SUSPENDED
    scene = replace(scene, health=None if is_change else replace(known, resumed=True))
    assert reports(scene, DAY + 1) == []
    resumed = at(scene, DAY + 1)
    assert is_sending(resumed)
    waiting = replace(resumed, health=known)
    assert in_words(waiting.plan(after(minutes=DAY + 2)))[0] == "register: sends"
    delivered = replace(resumed, health=health(200, attempted=after(minutes=DAY + 3)))
    assert [report.event_type for report in reports(delivered, DAY + 3)] == ["hookwright.endpoint.recovered"]
    assert reports(fails(waiting, DAY + 3), DAY + 3) == []
    failed = at(fails(at(waiting, DAY + 2), DAY + 3), DAY + 3)
    assert is_sending(failed)
    assert is_sending(at(fails(failed, 2 * DAY), 2 * DAY))
    assert not is_sending(at(fails(failed, 2 * DAY + 3), 2 * DAY + 3))


def test_a_resumed_endpoint_says_that_no_attempt_was_made_since() -> None:
    """Its condition does not repeat the old error."""
    conditions = status_of(with_metadata(SUSPENDED, generation=2).plan(after(minutes=DAY + 1)))["conditions"]
    assert [(entry["status"], entry["reason"]) for entry in conditions] == [
        ("True", "Delivering"),
        ("Unknown", "Resumed"),
    ]
