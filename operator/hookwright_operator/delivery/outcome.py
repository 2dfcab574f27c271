"""Pure: what became of one attempt."""

from typing import NamedTuple


class Outcome(NamedTuple):
    """What became of one attempt.

    Attributes:
        status_code: HTTP status, 0 where there was no HTTP answer.
        error: in plain words, empty if and only if the attempt delivered; never a secret.
        response: the beginning of the answer as text.
        duration_ms: of the whole attempt, rounded up.
        started_ms: when it began, in milliseconds since the epoch.
        timed_out: whether the attempt failed because its time was up.
        retry_after_ms: how long a 429 or 503 asked to be left alone, None where it did not.
        own_fault: what this process lacked for the attempt, such as descriptors; empty if the attempt was made. Such
            an outcome says nothing about the receiver, so it is neither recorded nor counted.
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
        """Whether the receiver answered 2xx, and answered whole."""
        return not self.error
