"""Pure: addresses and failures of host names, kept separately by namespace.

No namespace sees or evicts the entries of another one. Times are seconds of the event loop's clock.
"""

from collections import OrderedDict
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


class NameCache:
    """Entries of names, by namespace; the entry used last is kept longest.

    Args:
        total: entries of all namespaces.
        per_namespace: entries of one namespace.
    """

    def __init__(self, total: int = 8192, per_namespace: int = 256) -> None:
        self._total, self._per_namespace = total, per_namespace
        self._names: dict[str, OrderedDict[str, NameEntry]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def get(self, namespace: str, host: str) -> NameEntry:
        """Return the entry of a name for a namespace; a new entry evicts the least recently used one."""
        names = self._names.get(namespace)
        if names is not None and (entry := names.get(host)) is not None:
            names.move_to_end(host)
            return entry
        self._make_room(namespace)
        entry = self._names.setdefault(namespace, OrderedDict())[host] = NameEntry()
        self._size += 1
        return entry

    def _make_room(self, namespace: str) -> None:
        size = len(self._names.get(namespace, ()))
        if size >= self._per_namespace:
            self._evict(namespace)
        elif self._size >= self._total:
            fair = self._total // len(self._names)
            self._evict(
                namespace if size >= max(1, fair) else max(self._names, key=lambda name: len(self._names[name]))
            )

    def _evict(self, namespace: str) -> None:
        names = self._names[namespace]
        names.popitem(last=False)
        self._size -= 1
        if not names:
            del self._names[namespace]


def _slow(took: float) -> float:
    return min(_LONGEST_BACKOFF, _SLOW_FACTOR * took)
