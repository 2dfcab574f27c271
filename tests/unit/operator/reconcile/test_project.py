"""The promises of a Project's plan."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reconcile_scenes import NOW, after, in_words, project, project_after, status_of, writes

from hookwright_crds.reading import Unsupported
from hookwright_crds.resources import DeliveryLogSettings, Project, ProjectSpec, ProjectStatus
from hookwright_operator.reconcile.plan import AllowProject, ApplyStatus, Plan
from hookwright_operator.reconcile.project import ObservedProject, plan_project
from hookwright_operator.registry import ProjectSettings


def plan(observed: Project, *, keys: int = 1, endpoints: int = 2) -> Plan:
    """Return the plan for a project with this number of children."""
    return plan_project(ObservedProject(observed, keys, endpoints), now=NOW)


STEADY = project_after(project(), plan(project()))
SETTINGS = ProjectSettings(uid="uid-billing", created_ms=int(NOW.timestamp() * 1000))

CASES = {
    "a new project accepts events and says so": (
        plan(project()),
        ["AllowProject", "status: Ready=True Accepting"],
    ),
    "a project with which all is well is written nothing": (plan(STEADY), ["AllowProject"]),
    "a project with one endpoint more has its counts brought up to date": (
        plan(STEADY, endpoints=3),
        ["AllowProject", "status: Ready=True Accepting"],
    ),
    "a project whose status was wiped gets it back": (
        plan(STEADY.model_copy(update={"status": ProjectStatus()})),
        ["AllowProject", "status: Ready=True Accepting"],
    ),
    "a project whose spec changed has the new generation acknowledged": (
        plan(STEADY.model_copy(update={"metadata": STEADY.metadata.model_copy(update={"generation": 2})})),
        ["AllowProject", "status: Ready=True Accepting"],
    ),
    "a project that is being deleted accepts nothing and is left alone": (
        plan(project(deletion_timestamp=NOW)),
        ["BlockProject"],
    ),
}


@pytest.mark.parametrize(("made", "expected"), CASES.values(), ids=CASES.keys())
def test_the_plan_of_a_project(made: Plan, expected: list[str]) -> None:
    """The name of each case is its promise."""
    assert in_words(made) == expected


def test_the_status_of_a_project_is_what_kubectl_shows() -> None:
    """Counts, generation and condition have the contract's names."""
    assert status_of(plan(project(), keys=3, endpoints=4)) == {
        "observedGeneration": 1,
        "apiKeys": 3,
        "webhookEndpoints": 4,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Accepting",
                "message": "Events are accepted.",
                "observedGeneration": 1,
                "lastTransitionTime": "2030-01-01T12:00:00Z",
            }
        ],
    }


def test_a_condition_that_stays_keeps_its_transition_time() -> None:
    """A change of counts does not change the time since which the project is ready."""
    later = plan_project(ObservedProject(STEADY, 9, 9), now=after(hours=1))
    assert status_of(later)["conditions"][0]["lastTransitionTime"] == "2030-01-01T12:00:00Z"


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 3))
def test_a_project_plan_carried_out_leaves_nothing_to_do(keys: int, endpoints: int, generation: int) -> None:
    """The second plan writes nothing in every state."""
    observed = project(generation=generation)
    first = plan(observed, keys=keys, endpoints=endpoints)
    assert [type(action) for action in writes(first)] == [ApplyStatus]
    assert writes(plan(project_after(observed, first), keys=keys, endpoints=endpoints)) == []


def test_a_project_that_is_not_understood_accepts_events_and_says_so() -> None:
    """A refusal would lose its events."""
    strange = Unsupported(faults=("spec.displayName (must be text)",))
    planned = plan_project(ObservedProject(project(), 0, 0, strange), now=NOW)
    assert AllowProject("acme", "billing", SETTINGS) in planned.actions
    ready = status_of(planned)["conditions"][0]
    assert (ready["status"], ready["reason"]) == ("False", "UnsupportedSpec")
    assert "spec.displayName" in ready["message"]


def test_the_settings_of_the_delivery_log_are_applied() -> None:
    """The default keeps payloads, and no missed events."""
    spec = ProjectSpec(delivery_log=DeliveryLogSettings(payloads="Omit", missed_events="Keep"))
    planned = plan(project().model_copy(update={"spec": spec}))
    assert planned.actions[0] == AllowProject(
        "acme", "billing", replace(SETTINGS, omits_payloads=True, keeps_missed=True)
    )
    assert plan(project()).actions[0] == AllowProject("acme", "billing", SETTINGS)
