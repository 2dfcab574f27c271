"""A clock for tests."""

from dataclasses import dataclass


@dataclass(slots=True)
class Seconds:
    """A clock that changes only when a test sets ``now``."""

    now: float = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now
