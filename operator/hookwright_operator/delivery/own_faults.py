"""Count and log of attempts that this process could not make."""

from typing import Final

import structlog

from hookwright_operator import metrics

log = structlog.get_logger(__name__)

_LOGGED_EVERY: Final = 10.0
"""Seconds between two log lines of one reason."""


class OwnFaults:
    """Faults of this process by reason, such as ``descriptors``; at most one log line in ten seconds for each."""

    def __init__(self) -> None:
        self._logged_at: dict[str, float] = {}
        self._unlogged: dict[str, int] = {}

    def note(self, reason: str, now: float) -> None:
        """Count an attempt that could not be made; ``now`` is in seconds of the event loop's clock."""
        metrics.OWN_FAULTS.labels(reason).inc()
        count = self._unlogged.get(reason, 0) + 1
        if now - self._logged_at.get(reason, float("-inf")) < _LOGGED_EVERY:
            self._unlogged[reason] = count
            return
        self._logged_at[reason], self._unlogged[reason] = now, 0
        log.warning("attempts postponed, this process lacks resources", reason=reason, attempts=count)
