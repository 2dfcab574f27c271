"""Pure: amounts that are held at once, bounded for each holder and in all."""

from enum import Enum


class Full(Enum):
    """Which bound leaves no room."""

    HOLDER = "holder"
    TOTAL = "total"


class Quotas:
    """Counts what each holder has, so that no holder can use up what the others need.

    Args:
        total: the most that all holders may have together.
        each: the most that one holder may have.
        reserved: the part of the total that only holders with nothing get.
    """

    def __init__(self, *, total: int, each: int, reserved: int = 0) -> None:
        self.total = total
        self.each = each
        self.reserved = reserved
        self.held = 0
        self._of: dict[str, int] = {}

    @property
    def largest(self) -> int:
        """The largest amount that one holder has."""
        return max(self._of.values(), default=0)

    def take(self, holder: str, amount: int = 1) -> Full | None:
        """Add an amount to a holder's share; return None, or the bound that does not allow it."""
        present = self._of.get(holder, 0)
        mine = present + amount
        if mine > self.each:
            return Full.HOLDER
        if self.held + amount > (self.total - self.reserved if present else self.total):
            return Full.TOTAL
        self._of[holder] = mine
        self.held += amount
        return None

    def release(self, holder: str, amount: int = 1) -> None:
        """Subtract an amount that the holder has taken."""
        left = self._of[holder] - amount
        if left:
            self._of[holder] = left
        else:
            del self._of[holder]
        self.held -= amount
