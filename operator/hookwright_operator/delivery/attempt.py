"""Pure: the outcome of one attempt, and the next state of its delivery."""

from typing import NamedTuple

from hookwright_operator.delivery.retry_schedule import RetrySchedule
from hookwright_operator.store.records import Attempt, Claimed, Settlement, State


class Outcome(NamedTuple):
    """Outcome of one attempt.

    Attributes:
        status_code: HTTP status, 0 if there was no HTTP response.
        error: reason of the failure, empty if and only if the attempt delivered; never contains a secret.
        response: the beginning of the response body as text.
        duration_ms: of the whole attempt, rounded up.
        started_ms: when it began, in milliseconds since the epoch.
        timed_out: whether the attempt failed because its timeout expired.
        retry_after_ms: the delay that a 429 or 503 asked for in Retry-After, None if it did not.
        own_fault: the resource that this process lacked for the attempt, such as descriptors; empty if the attempt was
            made. Such an outcome gives no information about the receiver, so it is neither recorded nor counted.
    """

    status_code: int
    error: str
    response: str
    duration_ms: int
    started_ms: int
    retry_after_ms: int | None = None
    own_fault: str = ""
    timed_out: bool = False

    @property
    def delivered(self) -> bool:
        """Whether the receiver answered 2xx and its response is complete."""
        return not self.error


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
