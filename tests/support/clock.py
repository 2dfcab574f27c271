"""A clock for tests."""

from dataclasses import dataclass


@dataclass(slots=True)
class Seconds:
    """A clock that changes only when a test sets ``now``; it counts in ``asked`` how often it was read."""

    now: float = 1000.0
    asked: int = 0

    def __call__(self) -> float:
        """Return the time."""
        self.asked += 1
        return self.now
