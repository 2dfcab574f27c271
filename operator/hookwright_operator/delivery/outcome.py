"""Pure: the outcome of one attempt."""

from typing import NamedTuple


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
