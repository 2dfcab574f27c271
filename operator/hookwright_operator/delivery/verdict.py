"""Pure: the next state of a delivery after an attempt."""

from hookwright_operator.delivery.outcome import Outcome
from hookwright_operator.delivery.schedule import RetrySchedule
from hookwright_operator.store.model import Attempt, Claimed, Settlement, State


def judge(delivery: Claimed, outcome: Outcome, schedule: RetrySchedule) -> Settlement:
    """Return the attempt's record and the delivery's next state: delivered, due again, or failed."""
    made = delivery.attempts + 1
    attempt = Attempt(
        number=made,
        started_ms=outcome.started_ms,
        duration_ms=outcome.duration_ms,
        status_code=outcome.status_code,
        error=outcome.error,
        response=outcome.response,
    )
    settlement = Settlement(delivery.id, delivery.endpoint_uid, attempt, State.DELIVERED, event_id=delivery.event_id)
    if outcome.delivered:
        return settlement
    due_ms = schedule.next(made, outcome.started_ms + outcome.duration_ms, outcome.retry_after_ms)
    if due_ms is None:
        return settlement._replace(state=State.FAILED)
    return settlement._replace(state=State.PENDING, due_ms=due_ms)
