"""Pure: the addresses and failures of one host name; times are seconds of the event loop's clock."""

from dataclasses import dataclass, field
from typing import Final

from hookwright_operator.delivery.http.error_messages import NOT_FOUND

FRESH: Final = 10.0
"""Seconds for which an answer is used without a new look-up."""
RENEWAL: Final = 60.0
"""Seconds for which an answer is used while it is renewed in the background."""
FALLBACK: Final = 300.0
"""Seconds for which an answer is used if a new look-up fails for now (RFC 8767)."""

_FIRST_BACKOFF: Final = 2.0
_LONGEST_BACKOFF: Final = 60.0
_SLOW_FACTOR: Final = 4.0
"""A look-up that took long is not repeated for this multiple of its duration: one name uses a fifth of a place."""
_ADDRESSES: Final = 16


@dataclass(slots=True)
class NameEntry:
    """Addresses and failures of one name.

    Attributes:
        addresses: found last, the next one to use first; empty if none are known.
        found_at: when they were found.
        next_at: no look-up begins before then.
        failures: look-ups that failed in a row.
        error: of the last look-up, None if it found addresses.
    """

    addresses: list[str] = field(default_factory=list)
    found_at: float = 0.0
    next_at: float = float("-inf")
    failures: int = 0
    error: OSError | None = None

    def due(self, now: float) -> bool:
        """Return whether a look-up may begin."""
        return now >= self.next_at

    def usable(self, now: float, age: float) -> bool:
        """Return whether there are addresses that were found less than ``age`` seconds ago."""
        return bool(self.addresses) and now - self.found_at < age

    def found(self, addresses: list[str], now: float, took: float) -> None:
        """Note the addresses that a look-up of ``took`` seconds found."""
        self.addresses, self.found_at = addresses[:_ADDRESSES], now
        self.failures, self.error = 0, None
        self.next_at = now + max(FRESH, _slow(took))

    def failed(self, error: OSError, now: float, took: float) -> None:
        """Note that a look-up of ``took`` seconds failed; addresses stay known unless the name is gone."""
        if error.errno in NOT_FOUND:
            self.addresses = []
        self.error = error
        backoff = min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2 ** min(self.failures, 10))
        self.failures += 1
        self.next_at = now + max(backoff, _slow(took))

    def take(self, now: float) -> list[str]:
        """Return the addresses, another one first each time.

        Raises:
            OSError: none are known; the error of the last look-up.
        """
        if not self.usable(now, FALLBACK):
            raise OSError(*(self.error.args if self.error else ("no answer",)))
        addresses = list(self.addresses)
        self.addresses.append(self.addresses.pop(0))
        return addresses


def _slow(took: float) -> float:
    return min(_LONGEST_BACKOFF, _SLOW_FACTOR * took)
