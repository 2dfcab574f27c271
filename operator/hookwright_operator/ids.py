"""The ids of events, deliveries and replays.

Every event and every delivery needs a new id. This module draws one in 0.7 µs; python-ulid needs 4 µs.
"""

import os
import time
from collections.abc import Callable
from typing import Final

BASE32: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's digits."""
_PAIRS: Final = [first + second for first in BASE32 for second in BASE32]
_RANDOM_BITS: Final = 80
_TAIL_BITS: Final = 20
"""Bits in which ids of the same millisecond differ.

They count up from the first id, so the other digits are encoded once.
"""


class Ulids:
    """A generator of ULIDs (https://github.com/ulid/spec), each greater than the previous one, also if the clock jumps.

    Args:
        clock_ns: nanoseconds since the epoch.
        random_bytes: returns the given number of random bytes.
    """

    def __init__(
        self, clock_ns: Callable[[], int] = time.time_ns, random_bytes: Callable[[int], bytes] = os.urandom
    ) -> None:
        self._clock_ns, self._random_bytes = clock_ns, random_bytes
        self._last = 0
        self._head, self._spelled = 0, ""

    def __call__(self) -> str:
        """Return the next ULID, 26 characters of Crockford's base 32."""
        now = self._clock_ns() // 1_000_000
        if now > self._last >> _RANDOM_BITS:
            self._last = now << _RANDOM_BITS | int.from_bytes(self._random_bytes(_RANDOM_BITS // 8))
        else:
            self._last += 1
        head, tail = divmod(self._last, 1 << _TAIL_BITS)
        if head != self._head:
            self._head, self._spelled = head, "".join([_PAIRS[head >> shift & 1023] for shift in range(100, -1, -10)])
        return self._spelled + _PAIRS[tail >> 10] + _PAIRS[tail & 1023]


_next: Final = Ulids()


def message_id() -> str:
    """Return a new id for an event, which is also its ``webhook-id``."""
    return f"msg_{_next()}"


def delivery_id() -> str:
    """Return a new id for a delivery."""
    return f"dlv_{_next()}"


def replay_id() -> str:
    """Return a new id for a replay."""
    return f"rec_{_next()}"


def trial_id() -> str:
    """Return a new ``messageId`` for the event of an endpoint test."""
    return f"test_{_next()}"
