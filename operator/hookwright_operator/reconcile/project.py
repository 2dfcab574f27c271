"""Pure: the plan for a Project."""

from dataclasses import dataclass
from datetime import datetime

from hookwright_crds.conditions import condition, merge
from hookwright_crds.reading import UNDERSTOOD, Unsupported
from hookwright_crds.resources import Project, ProjectStatus
from hookwright_operator.reconcile.plan import Action, AllowProject, ApplyStatus, BlockProject, Plan
from hookwright_operator.watch.objects import Key


@dataclass(frozen=True, slots=True)
class ObservedProject:
    """A Project, the number of its children, and the parts that this version does not understand."""

    project: Project
    api_keys: int
    webhook_endpoints: int
    unsupported: Unsupported = UNDERSTOOD


def plan_project(observed: ObservedProject, *, now: datetime) -> Plan:
    """Plan to accept events, also if the spec is not understood, and to report the numbers of keys and endpoints."""
    meta = observed.project.metadata
    if meta.deletion_timestamp is not None:
        return Plan((BlockProject(meta.namespace, meta.name),))
    before = observed.project.status
    unsupported = observed.unsupported
    ready = condition(
        "Ready",
        "False" if unsupported.faults else "True",
        "UnsupportedSpec" if unsupported.faults else "Accepting",
        f"Events are accepted. {unsupported.sentence}".rstrip(),
        generation=meta.generation,
        now=now,
    )
    after = ProjectStatus(
        observed_generation=meta.generation,
        api_keys=observed.api_keys,
        webhook_endpoints=observed.webhook_endpoints,
        conditions=tuple(merge(before.conditions, [ready])),
    )
    actions: list[Action] = [AllowProject(meta.namespace, meta.name)]
    if after != before:
        key = Key("Project", meta.namespace, meta.name)
        actions.append(ApplyStatus(key, meta.uid, after.to_kubernetes()))
    return Plan(tuple(actions))
