"""Pure: the outcome of one attempt, and the next state of its delivery."""

from typing import NamedTuple

from hookwright_operator.delivery.retry_schedule import RetrySchedule
from hookwright_operator.registry import Endpoint
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
        response_headers: the headers of the response, one in each line; None if there was no response.
        request: what identifies the request, see `Attempt.request`; None if no request was prepared.
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
    response_headers: str | None = None
    request: str | None = None

    @property
    def delivered(self) -> bool:
        """Whether the receiver answered 2xx and its response is complete."""
        return not self.error

    def attempt(self, number: int) -> Attempt:
        """Return the record of the attempt with its running number."""
        return Attempt(
            number=number,
            started_ms=self.started_ms,
            duration_ms=self.duration_ms,
            status_code=self.status_code,
            error=self.error,
            response=self.response,
            response_headers=self.response_headers,
            request=self.request,
        )


def judge(endpoint: Endpoint, delivery: Claimed, outcome: Outcome, schedule: RetrySchedule) -> Settlement:
    """Return the attempt's record and the delivery's next state: delivered, due again, or failed."""
    number = delivery.attempts + 1
    attempt = outcome.attempt(number)
    settlement = Settlement(delivery.id, endpoint.uid, attempt, State.DELIVERED, event_id=delivery.event_id)
    if outcome.delivered:
        return settlement
    if endpoint.max_attempts is not None and number >= endpoint.max_attempts:
        return settlement._replace(state=State.FAILED)
    due_ms = schedule.next(number, outcome.started_ms + outcome.duration_ms, outcome.retry_after_ms)
    if due_ms is None:
        return settlement._replace(state=State.FAILED)
    return settlement._replace(state=State.PENDING, due_ms=due_ms)
