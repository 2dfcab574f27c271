"""Pure: the extent of a run."""

from dataclasses import dataclass
from typing import Final

RATE: Final = 50.0
"""Events a second of the latency measurements."""


@dataclass(frozen=True, slots=True)
class Options:
    """Extent of a run.

    Attributes:
        full: includes what takes minutes: 10,000,000 deliveries, minutes of load.
        seconds: how long a throughput measurement posts.
    """

    full: bool = False
    seconds: float = 10.0

    @property
    def latency_seconds(self) -> float:
        """Seconds that a latency measurement posts; its p99 is computed from 50 events for each of these seconds."""
        return 2 * self.seconds

    @property
    def rows(self) -> tuple[int, ...]:
        """Numbers of deliveries in the store whose cost is compared."""
        return (100_000, 10_000_000) if self.full else (100_000, 1_000_000)
