"""Pure: the plan for a Project."""

from dataclasses import dataclass
from datetime import datetime

from hookwright_crds.conditions import Condition, merge, readiness
from hookwright_crds.reading import UNDERSTOOD, Unsupported
from hookwright_crds.resources import EventType, Project, ProjectStatus
from hookwright_operator.reconcile.plan import AllowProject, BlockProject, Plan, plan_status
from hookwright_operator.registry import ProjectSettings


@dataclass(frozen=True, slots=True)
class ObservedProject:
    """A Project, the number of its children, and the parts that this version does not understand."""

    project: Project
    api_keys: int
    webhook_endpoints: int
    unsupported_parts: Unsupported = UNDERSTOOD


def plan_project(observed: ObservedProject, *, now: datetime) -> Plan:
    """Plan to accept events, also if the spec is not understood, with the Project's settings, and report its counts."""
    meta = observed.project.metadata
    if meta.deletion_timestamp is not None:
        return Plan((BlockProject(meta.namespace, meta.name),))
    after = ProjectStatus(
        observed_generation=meta.generation,
        api_keys=observed.api_keys,
        webhook_endpoints=observed.webhook_endpoints,
        conditions=acceptance(observed.project, "Events are accepted.", observed.unsupported_parts, now),
    )
    delivery_log = observed.project.spec.delivery_log
    settings = ProjectSettings(
        omits_payloads=delivery_log.payloads == "Omit",
        keeps_missed=delivery_log.missed_events == "Keep",
        uid=meta.uid,
        created_ms=int(meta.creation_timestamp.timestamp() * 1000) if meta.creation_timestamp else 0,
    )
    return Plan((AllowProject(meta.namespace, meta.name, settings), *plan_status(observed.project, after)))


def acceptance(
    resource: Project | EventType, message: str, unsupported_parts: Unsupported, now: datetime
) -> tuple[Condition, ...]:
    """Return the conditions of an object for which events are accepted, whether its spec is understood or not."""
    ready = readiness(
        ready=not unsupported_parts.faults,
        reason="UnsupportedSpec" if unsupported_parts.faults else "Accepting",
        message=f"{message} {unsupported_parts.sentence}".rstrip(),
        stalled=True,
        generation=resource.metadata.generation,
        now=now,
    )
    return tuple(merge(resource.status.conditions, ready))
