"""The promise of the Reachable condition: it follows the last attempt only."""

from dataclasses import replace

import pytest
from support.reconcile_scenes import NOW, EndpointScene, after, status_of, without_status
from unit.operator.reconcile.test_endpoint import STEADY, health

from hookwright_crds.conditions import condition


def with_condition(scene: EndpointScene, status: str, message: str) -> EndpointScene:
    """Return the scene with another Reachable condition in the endpoint's status."""
    reachable = condition("Reachable", status, "AttemptFailed", message, generation=1, now=NOW)  # type: ignore[arg-type]
    before = scene.endpoint.status
    record = before.model_copy(update={"conditions": (before.conditions[0], reachable)})
    return replace(scene, endpoint=scene.endpoint.model_copy(update={"status": record}))


FAILED = with_condition(STEADY, "False", "500 Internal Server Error")

REACHABLE: dict[str, tuple[EndpointScene, str, str]] = {
    "unreachable stays unreachable, with the newest error": (
        replace(FAILED, health=health(0, error="connection refused")),
        "False",
        "connection refused",
    ),
    "an endpoint whose attempts time out shows its limit": (
        replace(STEADY, health=health(0, error="timed out after 30 s while connecting", limited_to=2)),
        "False",
        "timed out after 30 s while connecting; limited to 2 attempts at a time until one succeeds",
    ),
    "an endpoint that allows one attempt at once shows that": (
        replace(FAILED, health=health(503, error="HTTP 503 Service Unavailable", limited_to=1)),
        "False",
        "HTTP 503 Service Unavailable; limited to 1 attempt at a time until one succeeds",
    ),
    "the limit is gone with the next 2xx": (
        replace(
            with_condition(STEADY, "False", "x; limited to 2 attempts at a time until one succeeds"), health=health(200)
        ),
        "True",
        "The last attempt was answered 2xx.",
    ),
    "unreachable keeps its error where nothing was tried since": (
        replace(FAILED, health=health(500)),
        "False",
        "500 Internal Server Error",
    ),
    "unreachable becomes reachable with the next 2xx": (
        replace(FAILED, health=health(204)),
        "True",
        "The last attempt was answered 2xx.",
    ),
    "counts of an endpoint that was never tried say nothing of it": (
        replace(STEADY, health=health(0, attempted=None)),
        "Unknown",
        "No attempt was made yet.",
    ),
    "a lost condition is told from the last status code": (
        replace(without_status(STEADY), health=health(503)),
        "False",
        "The last attempt was answered 503.",
    ),
    "a lost condition is told from the missing answer": (
        replace(without_status(STEADY), health=health(0)),
        "False",
        "The last attempt had no HTTP answer.",
    ),
}


@pytest.mark.parametrize(("scene", "status", "message"), REACHABLE.values(), ids=REACHABLE.keys())
def test_reachable_follows_the_last_attempt(scene: EndpointScene, status: str, message: str) -> None:
    """The name of each case is its promise."""
    reachable = status_of(scene.plan())["conditions"][1]
    assert (reachable["status"], reachable["message"]) == (status, message)


def test_since_when_an_endpoint_is_unreachable_does_not_move_with_each_error() -> None:
    """The transition time is that of the first failure."""
    later = replace(FAILED, health=health(502, error="502 Bad Gateway"))
    assert status_of(later.plan(after(minutes=5)))["conditions"][1]["lastTransitionTime"] == "2030-01-01T12:00:00Z"
    healed_scene = replace(FAILED, health=health(200))
    assert (
        status_of(healed_scene.plan(after(minutes=5)))["conditions"][1]["lastTransitionTime"] == "2030-01-01T12:05:00Z"
    )
