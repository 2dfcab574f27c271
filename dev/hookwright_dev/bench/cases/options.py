"""Pure: how thoroughly to measure."""

from dataclasses import dataclass
from typing import Final

RATE: Final = 50.0
"""Events a second where latency is measured."""


@dataclass(frozen=True, slots=True)
class Options:
    """How thoroughly to measure.

    Attributes:
        full: with the cases that take minutes: 10,000 endpoints, 10,000,000 deliveries, minutes of load.
        seconds: how long to post where throughput is measured.
        minutes: how long to post, in a full run, before memory is measured.
    """

    full: bool = False
    seconds: float = 10.0
    minutes: float = 10.0

    @property
    def latency_seconds(self) -> float:
        """How long to post where latency is measured; what p99 means rests on 50 of these a second."""
        return 2 * self.seconds

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of endpoints whose cost is compared."""
        return (10, 1000, 10_000) if self.full else (10, 1000)

    @property
    def rows(self) -> tuple[int, ...]:
        """Numbers of deliveries in the store whose cost is compared."""
        return (100_000, 10_000_000) if self.full else (100_000, 1_000_000)
