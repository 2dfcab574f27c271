"""Pure: the bytes of answers that clients have not read, bounded for all connections of a listener together.

A client that does not read keeps its answer in memory until the connection ends for lack of progress. Beyond the bound,
connections are closed: the oldest one of the address whose clients left the most bytes unread.
"""

from collections import Counter
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

C = TypeVar("C", bound=Hashable)

MOST_UNREAD: Final = 96 * 1024 * 1024
"""Bytes of all connections of a listener."""


class UnreadBytes(Generic[C]):
    """The connections whose clients do not read fast enough, the oldest first."""

    def __init__(self, bound: int = MOST_UNREAD) -> None:
        self._bound = bound
        self._held: dict[C, tuple[str, int]] = {}
        self._of_address: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """Bytes of all connections."""
        return self._of_address.total()

    def add(self, connection: C, address: str, size: int) -> list[C]:
        """Add a connection with its unread bytes; return the connections that must be closed, which are removed."""
        self.remove(connection)
        self._held[connection] = address, size
        self._of_address[address] += size
        closing: list[C] = []
        while self.total > self._bound:
            ((fullest, _),) = self._of_address.most_common(1)
            oldest = next(candidate for candidate, (held_by, _) in self._held.items() if held_by == fullest)
            self.remove(oldest)
            closing.append(oldest)
        return closing

    def remove(self, connection: C) -> None:
        """Remove a connection that was read, or that has ended."""
        if connection not in self._held:
            return
        address, size = self._held.pop(connection)
        self._of_address[address] -= size
        if not self._of_address[address]:
            del self._of_address[address]
