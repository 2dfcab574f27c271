"""The promises of operational events: which change of an endpoint is reported, and that it is reported once."""

from dataclasses import replace

import pytest
from support.reconcile_scenes import EndpointScene, after, endpoint, signing_secret, steady_endpoint, with_metadata
from unit.operator.reconcile.test_endpoint import STEADY, health

from hookwright_operator.reconcile.plan import FINALIZER, ApplyStatus, ReportToProject
from hookwright_operator.reconcile.signing_secret import ROTATION_ANNOTATION

ERROR = "HTTP 500 Internal Server Error"


def fails(scene: EndpointScene, minute: float, *, succeeded: bool = False) -> EndpointScene:
    """Return the scene with a failed attempt at that minute, after a success since the last status or without one."""
    result = replace(health(500, error=ERROR, attempted=after(minutes=minute)), succeeded=succeeded)
    return replace(scene, health=result)


def reports(scene: EndpointScene, minute: float) -> list[ReportToProject]:
    """Return the operational events of the scene's plan at that minute."""
    return [action for action in scene.plan(after(minutes=minute)).actions if isinstance(action, ReportToProject)]


def at(scene: EndpointScene, minute: float) -> EndpointScene:
    """Return the scene after its plan at that minute."""
    return scene.settled(after(minutes=minute))


FAILED = at(fails(STEADY, 0), 0)
FAILING = at(fails(FAILED, 6), 6)


def test_failed_attempts_over_five_minutes_are_reported_once() -> None:
    """A failure of a moment is not, and neither is each further attempt."""
    assert reports(fails(STEADY, 0), 0) == reports(fails(FAILED, 5), 5) == []
    [report] = reports(fails(FAILED, 6), 6)
    assert report.event_type == "hookwright.endpoint.failing"
    assert dict(report.fields) == {
        "project": "billing",
        "endpoint": "orders",
        "at": "2030-01-01T12:06:00Z",
        "reason": "Failing",
        "message": f"No attempt has succeeded since 2030-01-01T12:00:00Z. Last error: {ERROR}",
    }
    assert reports(fails(FAILING, 30), 30) == []


def test_a_success_begins_a_new_time_of_failures() -> None:
    """An endpoint whose attempts sometimes succeed does not count as failing, also if the last one always fails."""
    scene = at(fails(FAILED, 4, succeeded=True), 4)
    assert reports(fails(scene, 8), 8) == []
    assert [report.event_type for report in reports(fails(scene, 10), 10)] == ["hookwright.endpoint.failing"]


def test_a_token_server_that_fails_for_minutes_is_reported_without_an_attempt() -> None:
    """No attempt is recorded, so the time of the last one stands still."""
    fault = health(200, error="token server auth.example.com: HTTP 500", attempted=after(minutes=0))
    scene = at(replace(STEADY, health=fault), 1)
    [report] = reports(replace(scene, health=fault), 7)
    assert report.event_type == "hookwright.endpoint.failing"


@pytest.mark.parametrize("last", [replace(STEADY, health=health(200)), fails(FAILING, 9, succeeded=True)])
def test_the_first_success_of_a_failing_endpoint_is_reported(last: EndpointScene) -> None:
    """Also if the attempt after it failed before the status was written."""
    [report] = reports(replace(FAILING, health=last.health), 9)
    assert report.event_type == "hookwright.endpoint.recovered"
    assert reports(at(replace(FAILING, health=last.health), 9), 9) == []


def test_a_rotation_is_reported_after_the_new_secret_is_written() -> None:
    """The receiver of the event can read the new secret at once; a new endpoint has no rotation."""
    first = EndpointScene(endpoint=endpoint(spec={"signing": {"rotation": 2}}, finalizers=(FINALIZER,)))
    assert reports(first, 0) == []
    spec = {"signing": {"rotation": 3}}
    steady = steady_endpoint(signing={"rotation": 2})
    known = replace(steady, secret=signing_secret(annotations={ROTATION_ANNOTATION: "2"})).settled()
    rotated = replace(known, endpoint=known.endpoint.model_copy(update={"spec": endpoint(spec=spec).spec}))
    kinds = [type(action).__name__ for action in rotated.plan().actions]
    assert kinds.index("UpdateSecret") < kinds.index("ReportToProject") < kinds.index("ApplyStatus")
    [report] = reports(rotated, 0)
    assert report.event_type == "hookwright.endpoint.secret_rotated"
    assert "whsec_" not in str(report.fields)


def test_credentials_that_are_refused_are_reported() -> None:
    """The message is that of the condition."""
    headers = [{"name": "Authorization", "secretKeyRef": {"name": "token", "key": "token"}}]
    scene = at(STEADY, 0)
    manifest = scene.endpoint.model_copy(update={"spec": endpoint(spec={"secretHeaders": headers}).spec})
    [report] = reports(replace(scene, endpoint=manifest), 1)
    assert (report.event_type, report.fields["reason"]) == (
        "hookwright.endpoint.credentials_refused",
        "CredentialsNotFound",
    )


@pytest.mark.parametrize("changed", [fails(FAILED, 6), replace(FAILING, health=health(200))])
def test_a_restart_before_the_status_is_written_repeats_the_same_id(changed: EndpointScene) -> None:
    """The event is accepted before the status, so it is never lost; by its id it is accepted once."""
    first = changed.plan(after(minutes=7)).actions
    kinds = [type(action) for action in first]
    assert kinds.index(ReportToProject) < kinds.index(ApplyStatus)
    [before], [again] = reports(changed, 7), reports(with_metadata(changed, resource_version="11"), 8)
    assert before.event_id == again.event_id
