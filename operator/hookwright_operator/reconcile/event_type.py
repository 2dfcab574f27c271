"""Pure: the plan for an EventType."""

from dataclasses import dataclass
from datetime import datetime

from hookwright_crds.reading import UNDERSTOOD, Unsupported
from hookwright_crds.resources import EventType, EventTypeStatus
from hookwright_operator.reconcile.plan import AllowEventType, BlockEventType, Plan, plan_status
from hookwright_operator.reconcile.project import acceptance


@dataclass(frozen=True, slots=True)
class ObservedEventType:
    """An EventType, the number of endpoints that name it, and the parts that this version does not understand."""

    event_type: EventType
    webhook_endpoints: int
    unsupported_parts: Unsupported = UNDERSTOOD


def plan_event_type(observed: ObservedEventType, *, now: datetime) -> Plan:
    """Plan to accept events of the type, also if the spec is not understood, and report its count."""
    meta = observed.event_type.metadata
    if meta.deletion_timestamp is not None:
        return Plan((BlockEventType(meta.namespace, meta.name),))
    message = "Events of this type are accepted."
    after = EventTypeStatus(
        observed_generation=meta.generation,
        webhook_endpoints=observed.webhook_endpoints,
        conditions=acceptance(observed.event_type, message, observed.unsupported_parts, now),
    )
    example = observed.event_type.spec.example or ""
    return Plan((AllowEventType(meta.namespace, meta.name, example), *plan_status(observed.event_type, after)))
