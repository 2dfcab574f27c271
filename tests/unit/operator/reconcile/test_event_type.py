"""The promises of an EventType's plan, and of an endpoint that names EventTypes."""

from dataclasses import replace
from typing import Any

import pytest
from support.reconcile_scenes import NOW, after, in_words, metadata, status_of, steady_endpoint, without_status

from hookwright_crds.event_type_fields import EventTypeSpec
from hookwright_crds.events import SUBSCRIPTIONS
from hookwright_crds.reading import Unsupported
from hookwright_crds.resources import DeliveryCounts, EventType, EventTypeStatus
from hookwright_operator.reconcile.event_type import ObservedEventType, plan_event_type
from hookwright_operator.reconcile.plan import AllowEventType, Plan
from hookwright_operator.registry import Health

STRANGE = Unsupported(faults=("spec.example (has 16385 bytes as JSON; at most 16384 are accepted)",))


def event_type(**changes: Any) -> EventType:
    """Return an EventType."""
    body = {"metadata": metadata("invoice.paid"), "spec": {"meaning": "An invoice is paid."}}
    return EventType.model_validate(body).model_copy(update=changes)


def plan(observed: EventType, *, endpoints: int = 2, unsupported_parts: Unsupported = Unsupported()) -> Plan:  # noqa: B008 - frozen
    """Return the plan for an EventType that so many endpoints name."""
    return plan_event_type(ObservedEventType(observed, endpoints, unsupported_parts), now=NOW)


STEADY = event_type(status=EventTypeStatus.model_validate(status_of(plan(event_type()))))
ACCEPTING = ["AllowEventType", "status: Ready=True Accepting"]

CASES = {
    "a new type is accepted and says so": (plan(event_type()), ACCEPTING),
    "a type with which all is well is written nothing": (plan(STEADY), ["AllowEventType"]),
    "a type that one more endpoint names has its count brought up to date": (plan(STEADY, endpoints=3), ACCEPTING),
    "a type that is being deleted is refused and left alone": (
        plan(event_type(metadata=metadata("invoice.paid", deletion_timestamp=NOW))),
        ["BlockEventType"],
    ),
    "a type with too long an example is accepted, and its condition says what is wrong": (
        plan(event_type(), unsupported_parts=STRANGE),
        [
            "AllowEventType",
            "status: Ready=False UnsupportedSpec, Stalled=True UnsupportedSpec",
            "Warning Event UnsupportedSpec",
        ],
    ),
}


@pytest.mark.parametrize(("planned", "expected"), CASES.values(), ids=CASES.keys())
def test_the_plan_of_an_event_type(planned: Plan, expected: list[str]) -> None:
    """The name of each case is its promise."""
    assert in_words(planned) == expected


def test_the_intake_gets_the_example_for_tests() -> None:
    """A type without an example has an empty one."""
    spec = EventTypeSpec(meaning="An invoice is paid.", example='{"amount": 1}')
    for observed, example in ((event_type(spec=spec), '{"amount": 1}'), (event_type(), "")):
        assert plan(observed).actions[0] == AllowEventType("acme", "invoice.paid", example)


def test_the_status_of_an_event_type_is_what_kubectl_shows() -> None:
    """Count, generation and condition have the contract's names."""
    status = status_of(plan(event_type(), endpoints=4))
    assert (status["observedGeneration"], status["webhookEndpoints"]) == (1, 4)
    [ready] = status["conditions"]
    assert (ready["type"], ready["message"]) == ("Ready", "Events of this type are accepted.")
    strange = status_of(plan(event_type(), unsupported_parts=STRANGE))["conditions"][0]
    assert "spec.example (has 16385 bytes as JSON" in strange["message"]


NAMING = steady_endpoint(events=["delivered", "invoice.payed", "*"])


def test_an_endpoint_that_names_no_event_type_delivers_the_others_and_heals() -> None:
    """The condition names the nearest types; deliveries are not blocked."""
    planned = replace(without_status(NAMING), own_types={"invoice.paid", "order.created"}).plan()
    assert in_words(planned) == [
        "register: sends",
        "status: Ready=False EventTypesNotFound, Reconciling=True EventTypesNotFound, Reachable=Unknown NotTried",
        "Warning Event EventTypesNotFound",
    ]
    message = (
        "spec.events: EventType 'invoice.payed' does not exist; the nearest is invoice.paid. Create it, or correct"
    )
    assert status_of(planned)["conditions"][0]["message"].startswith(message)
    healed = replace(NAMING, own_types={"invoice.payed"}).plan()
    assert "Ready=True Delivering" in in_words(healed)[-1]


def test_the_condition_of_many_missing_types_is_short() -> None:
    """A few are named, with their number, so that the message stays readable."""
    names = [f"order-{number}.created" for number in range(99)]
    message = status_of(without_status(steady_endpoint(events=["*", *names])).plan())["conditions"][0]["message"]
    assert "EventType 'order-2.created' does not exist" in message
    assert "96 more do not exist" in message
    assert len(message) < 2000


@pytest.mark.parametrize("events", [["*"], ["wa_*", "sms_*"], SUBSCRIPTIONS])
def test_a_built_in_type_needs_no_event_type(events: list[str]) -> None:
    """An endpoint of the built-in types alone is ready without any EventType."""
    assert in_words(steady_endpoint(events=events).plan()) == ["register: sends"]


def test_a_missing_type_does_not_keep_an_endpoint_from_its_suspension() -> None:
    """An endpoint without a success is suspended, whatever else is wrong."""
    spec = {"events": ["delivered", "invoice.payed"], "suspendAfter": "1d"}
    failing = replace(
        steady_endpoint(**spec), health=Health(DeliveryCounts(last_attempt_time=NOW), "HTTP 500")
    ).settled()
    later = after(days=2)
    health = Health(DeliveryCounts(last_attempt_time=later, last_status_code=500), "HTTP 500")
    assert "Ready=False SuspendedAfterFailures" in str(in_words(replace(failing, health=health).plan(later)))
