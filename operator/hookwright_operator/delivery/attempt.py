"""Pure: the outcome of one attempt, the retry schedule, and the next state of a delivery."""

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple, Self

from hookwright_crds.base import parse_duration
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Attempt, Claimed, Settlement, State

MAX_DELAY_MS: Final = 30 * 24 * 3600 * 1000
"""The longest delay of a schedule in milliseconds: 30 days, as long as a failed delivery is kept."""

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)")
_DELAY: Final = re.compile(rf"(?:{_PART.pattern})+")


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
        own_fault: what the attempt lacked, such as descriptors of this process or an access token; empty if the attempt
            was made. Such an outcome gives no information about the receiver, so it is neither recorded nor counted.
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


@dataclass(frozen=True, slots=True)
class RetrySchedule:
    """The delays between the attempts of one delivery.

    Attributes:
        delays_ms: milliseconds from the end of the n-th failed attempt to the next; five delays
            make one attempt and five retries.
        retry_after_max_ms: the longest delay that a receiver may ask for; None for the schedule's next delay, and for
            the double of its last one.
        end_on: statuses of HTTP after which there is no retry.
    """

    delays_ms: tuple[int, ...]
    retry_after_max_ms: int | None = None
    end_on: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the schedule written as ``30s,2m,10m,30m,2h``.

        Units are ``ms``, ``s``, ``m``, ``h`` and ``d``. Fractions (``0.5s``) and sums (``1h30m``) are allowed.

        Raises:
            ValueError: the text is empty, or a delay is no duration, below 1 ms or above 30 days; the message names it.
        """
        if not text.strip():
            raise ValueError("the retry schedule is empty; write delays separated by commas, as in 30s,2m,10m,30m,2h")
        return cls(tuple(_parse_delay(delay.strip()) for delay in text.split(",")))

    def of(self, endpoint: Endpoint) -> "RetrySchedule":
        """Return the schedule of an endpoint, in which this one has what the endpoint does not say."""
        retry = endpoint.retry
        if retry is None:
            return self
        return RetrySchedule(
            self.delays_ms if retry.schedule is None else tuple(map(_milliseconds, retry.schedule)),
            None if retry.retry_after_max is None else _milliseconds(retry.retry_after_max),
            retry.end_on or (),
        )

    @property
    def longest_ms(self) -> int:
        """The longest delay in milliseconds, also if the receiver asks for one."""
        longest = self.retry_after_max_ms
        return max(*self.delays_ms, 2 * self.delays_ms[-1] if longest is None else longest)

    def next(self, attempts_made: int, failed_at_ms: int, retry_after_ms: int | None = None) -> int | None:
        """Return when the next attempt is due, in milliseconds since the epoch, or None if there is none.

        Args:
            attempts_made: how many attempts failed so far, the last one included.
            failed_at_ms: when the last one ended.
            retry_after_ms: the delay that the receiver asked for (Retry-After of a 429 or 503, RFC 9110 10.2.3). It
                lengthens the delay at most to `retry_after_max_ms`. It never shortens a delay.

        Raises:
            ValueError: no attempt was made yet.
        """
        if attempts_made < 1:
            raise ValueError(f"attempts_made is {attempts_made}, but a retry follows at least one attempt")
        if attempts_made > len(self.delays_ms):
            return None
        delay = self.delays_ms[attempts_made - 1]
        if retry_after_ms is not None:
            longest = self.retry_after_max_ms
            if longest is None:
                longest = (*self.delays_ms, 2 * self.delays_ms[-1])[attempts_made]
            delay = max(delay, min(retry_after_ms, longest))
        return failed_at_ms + delay


def judge(endpoint: Endpoint, delivery: Claimed, outcome: Outcome, schedule: RetrySchedule) -> Settlement:
    """Return the attempt's record and the delivery's next state: delivered, due again, or failed."""
    number = delivery.attempts + 1
    attempt = outcome.attempt(number)
    settlement = Settlement(delivery.id, endpoint.uid, attempt, State.DELIVERED, event_id=delivery.event_id)
    if outcome.delivered:
        return settlement
    schedule = schedule.of(endpoint)
    is_last = outcome.status_code in schedule.end_on or number >= (endpoint.max_attempts or math.inf)
    due_ms = schedule.next(number, outcome.started_ms + outcome.duration_ms, outcome.retry_after_ms)
    if due_ms is None or is_last:
        return settlement._replace(state=State.FAILED, event_type=delivery.event_type)
    return settlement._replace(state=State.PENDING, due_ms=due_ms)


def _milliseconds(duration: str) -> int:
    return int(parse_duration(duration).total_seconds() * 1000)


def _parse_delay(text: str) -> int:
    if not _DELAY.fullmatch(text):
        raise ValueError(
            f"{text!r} in the retry schedule is not a duration; write a number and ms, s, m, h or d, as in 30s or 2m"
        )
    delay = int(sum(Decimal(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text)))
    if not 1 <= delay <= MAX_DELAY_MS:
        raise ValueError(f"{text!r} in the retry schedule is out of bounds; a delay is from 1ms to 30d")
    return delay
