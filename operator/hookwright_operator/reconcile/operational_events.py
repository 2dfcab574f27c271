"""Pure: the operational events about an endpoint, planned from the change of its status.

They come before the status in a plan. If the status is not written, the next plan has them again, with the same ids.
"""

from datetime import datetime, timedelta
from typing import Final

from hookwright_crds.base import format_timestamp
from hookwright_crds.conditions import (
    CREDENTIAL_FAULTS,
    CREDENTIALS_NOT_FOUND,
    SUSPENDED_AFTER_FAILURES,
    find,
    turned_false,
)
from hookwright_crds.events import Operational
from hookwright_crds.resources import WebhookEndpoint, WebhookEndpointStatus
from hookwright_operator.reconcile.plan import Action, ReportToProject
from hookwright_operator.reconcile.signing_secret import ROTATED, rotation_message
from hookwright_operator.watch.objects import key_of

FAILING: Final = "Failing"
"""The reason of Reachable when attempts have failed for longer than `FAILING_AFTER`."""
RESUMED: Final = "Resumed"
"""The reason of Reachable from the end of a suspension by the operator until the next attempt."""
FAILING_AFTER: Final = timedelta(minutes=5)
_REFUSALS: Final = {
    **dict.fromkeys(CREDENTIAL_FAULTS, Operational.CREDENTIALS_REFUSED),
    SUSPENDED_AFTER_FAILURES: Operational.SUSPENDED,
}
"""The types of the events about an endpoint to which nothing is sent, by the reason of Ready."""


def plan_reports(endpoint: WebhookEndpoint, after: WebhookEndpointStatus, now: datetime) -> list[Action]:
    """Plan an operational event for each change of the status that is worth one."""
    before, reports = endpoint.status, list[Action]()
    old, new = (find(status.conditions, "Reachable") for status in (before, after))
    was_failing, is_failing = (entry is not None and entry.reason == FAILING for entry in (old, new))
    if new is not None and is_failing and not was_failing:
        since = format_timestamp(new.last_transition_time)
        message = f"No attempt has succeeded since {since}. Last error: {new.message}"
        reports.append(report_of(endpoint, Operational.FAILING, since, new.reason, message, now=now))
    if (
        old is not None
        and new is not None
        and (
            (new.status == "True" and old.reason in (FAILING, RESUMED))
            or (new.status == "False" and was_failing and not is_failing)
        )
    ):
        since = format_timestamp(old.last_transition_time)
        reports.append(report_of(endpoint, Operational.RECOVERED, since, new.reason, new.message, now=now))
    if None not in (before.rotation, after.rotation) and before.rotation != after.rotation:
        secret = after.signing_secret_ref.name if after.signing_secret_ref is not None else ""
        kind, message = Operational.SECRET_ROTATED, rotation_message(endpoint, secret)
        reports.append(report_of(endpoint, kind, str(after.rotation), ROTATED, message, now=now))
    refusal = turned_false(before.conditions, after.conditions, "Ready")
    ready = find(before.conditions, "Ready")
    # The Secret of a new endpoint may come a moment later.
    is_awaited = refusal is not None and refusal.reason == CREDENTIALS_NOT_FOUND and ready is None
    if refusal is not None and refusal.reason in _REFUSALS and not is_awaited:
        since = format_timestamp(ready.last_transition_time) if ready is not None else ""
        kind = _REFUSALS[refusal.reason]
        reports.append(report_of(endpoint, kind, since, refusal.reason, refusal.message, now=now))
    return reports


def report_of(
    endpoint: WebhookEndpoint,
    kind: Operational,
    transition: str,
    reason: str,
    message: str,
    *,
    now: datetime,
    count: int | None = None,
) -> ReportToProject:
    """Return an operational event; ``transition`` distinguishes it from others of its type about the endpoint."""
    meta, project = endpoint.metadata, endpoint.spec.project_ref.name
    fields = {
        "project": project, "endpoint": meta.name, "at": format_timestamp(now), "reason": reason, "message": message
    }  # fmt: skip
    number = {} if count is None else {"count": count}
    event_id = f"{meta.uid}/{kind}/{transition}"
    return ReportToProject(key_of(endpoint), meta.uid, project, kind.value, event_id, {**fields, **number})
