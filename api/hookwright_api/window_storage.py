"""Moving windows in memory with a limit of identities and a constant cost for each request.

The library's own memory storage visits every identity after each request, in one thread per request. With thousands of
addresses that costs more than the request.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from limits.aio.storage import MemoryStorage

MAX_IDENTITIES: Final = 65_536
"""Most identities of one storage; beyond it the identity with the oldest last count is forgotten."""
_EXPIRED_AT_ONCE: Final = 2
"""Expired identities that each new one removes; more than one, so that their number shrinks again."""


class WindowStorage(MemoryStorage):
    """Counts of the requests of the last seconds for each identity.

    All windows of one storage have the same length. So the identities, in the order of their last counted request, are
    in the order of their expiry.

    Args:
        now: returns seconds since the epoch.
        max_identities: most identities to keep.
    """

    def __init__(self, *, now: Callable[[], float], max_identities: int = MAX_IDENTITIES) -> None:
        super().__init__()
        self._now = now
        self._max_identities = max_identities
        self._hits: OrderedDict[str, list[float]] = OrderedDict()

    def __len__(self) -> int:
        """Return how many identities are stored."""
        return len(self._hits)

    async def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Count a request of an identity, unless it has reached its limit; return whether it was counted."""
        if amount > limit:
            return False
        now = self._now()
        since = now - expiry
        hits = self._hits.get(key)
        if hits is None:
            self._make_room(since)
            hits = self._hits[key] = []
        del hits[: bisect_left(hits, since)]
        if len(hits) + amount > limit:
            return False
        hits.extend([now] * amount)
        self._hits.move_to_end(key)
        return True

    async def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        """Return the time of an identity's oldest counted request, and how many requests are counted."""
        del limit
        now = self._now()
        hits = self._hits.get(key, ())
        first = bisect_left(hits, now - expiry)
        return (hits[first], len(hits) - first) if first < len(hits) else (now, 0)

    def _make_room(self, since: float) -> None:
        for _ in range(_EXPIRED_AT_ONCE):
            if not self._hits or next(iter(self._hits.values()))[-1] >= since:
                break
            self._hits.popitem(last=False)
        if len(self._hits) >= self._max_identities:
            self._hits.popitem(last=False)
