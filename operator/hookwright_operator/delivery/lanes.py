"""Pure: one lane for each endpoint: what waits in memory for it, and how much is under way.

A lane never holds more than its window; what exceeds it stays in the store. So a hanging endpoint costs
the others nothing, and memory is bounded.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from hookwright_operator.registry import Endpoint
from hookwright_operator.store.model import Claimed

_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 5.0
"""Seconds between attempts of one endpoint while this process lacks something for them."""
LIMIT_WHILE_TIMING_OUT: Final = 2
"""Attempts at once to an endpoint from an attempt that timed out until one succeeds."""


@dataclass(slots=True, eq=False)
class Lane:
    """The state of one endpoint's deliveries in this process.

    Attributes:
        ready: claimed and waiting for their attempt.
        in_flight: attempts under way.
        settling: attempts that ended and whose result is being stored.
        refused: those among the settling whose result the store has refused so far.
        reserved: places promised to events that are being accepted.
        backlog: whether the store may have more that is due.
        backlog_seen: rises with every event that went to the store only, so that a claim made before
            it does not conclude that nothing is left.
        claiming: whether a claim for this lane is under way.
        timing_out: whether an attempt timed out and none has succeeded since.
        paced_until: in seconds of the event loop's clock; before then the endpoint's rate limit lets no attempt begin.
        postponed: how often in a row attempts could not be made for a fault of this process.
        postponed_until: in seconds of the event loop's clock; before then no attempt begins after such a fault.
        due_ms: when the store's next delivery of this lane is due, as far as is known.
        shard: which the endpoint belongs to.
        owned: whether this process is the one that delivers for the shard.
        gone: whether the endpoint was deleted.
        active: whether anything may be claimed and sent.
    """

    endpoint: Endpoint
    shard: int = 0
    owned: bool = True
    ready: deque[Claimed] = field(default_factory=deque)
    in_flight: int = 0
    settling: int = 0
    refused: int = 0
    reserved: int = 0
    backlog: bool = False
    backlog_seen: int = 0
    claiming: bool = False
    timing_out: bool = False
    paced_until: float = 0.0
    postponed: int = 0
    postponed_until: float = 0.0
    due_ms: int | None = None
    gone: bool = False
    active: bool = field(init=False)

    def __post_init__(self) -> None:
        """See whether the lane is active from its beginning."""
        self._see()

    @property
    def held(self) -> int:
        """How many deliveries this process holds for the endpoint."""
        return len(self.ready) + self.in_flight + self.settling + self.reserved

    @property
    def limit(self) -> int:
        """Return how many attempts may be under way at once.

        An endpoint that hangs uses each place for its whole timeout, so it gets few of them.
        """
        declared = self.endpoint.max_in_flight
        return min(declared, LIMIT_WHILE_TIMING_OUT) if self.timing_out else declared

    @property
    def limited_to(self) -> int | None:
        """Return `limit` if timeouts have lowered it, None otherwise."""
        return self.limit if self.timing_out else None

    @property
    def can_start(self) -> bool:
        """Whether an attempt may begin now.

        A crash repeats what has no stored result. So there are at most as many results on their way to the store
        as attempts may be under way, and while the store refuses one, nothing begins.
        """
        return (
            bool(self.ready)
            and self.active
            and not self.refused
            and self.in_flight < self.limit
            and self.in_flight + self.settling < 2 * self.endpoint.max_in_flight
        )

    def pause(self, now: float) -> float:
        """Return for how many seconds still no attempt may begin: by the rate limit, or after a fault of this process.

        Args:
            now: in seconds of the event loop's clock.
        """
        return max(0.0, self.paced_until - now, self.postponed_until - now)

    def postpone(self, delivery: Claimed, now: float) -> None:
        """Put a delivery back whose attempt this process could not make; wait longer after each such fault.

        Attempts that fail together count as one fault.
        """
        self.ready.appendleft(delivery)
        if now >= self.postponed_until:
            self.postponed_until = now + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(self.postponed, 10))
            self.postponed += 1

    def started(self, now: float) -> None:
        """Note that an attempt begins, so that the next keeps the distance of the rate limit."""
        if self.endpoint.per_minute:
            self.paced_until = max(self.paced_until, now) + 60 / self.endpoint.per_minute

    def ended(self, *, delivered: bool, timed_out: bool) -> None:
        """Note how an attempt ended; a failure that is no timeout changes nothing."""
        if timed_out:
            self.timing_out = True
        elif delivered:
            self.timing_out = False

    def change(self, endpoint: Endpoint) -> None:
        """Go by a new snapshot from now on."""
        if endpoint.per_minute != self.endpoint.per_minute:
            self.paced_until = 0.0
        self.endpoint = endpoint
        self._see()

    def own(self, *, since: float | None) -> None:
        """Belong to this process, or to another one where None.

        Args:
            since: when it began to, in seconds of the event loop's clock. An attempt elsewhere may have begun right
                before, so the rate limit counts from here.
        """
        self.owned = since is not None
        if since is not None and self.endpoint.per_minute:
            self.paced_until = max(self.paced_until, since + 60 / self.endpoint.per_minute)
        self._see()

    def end(self) -> None:
        """Start nothing more: the endpoint was deleted."""
        self.gone = True
        self._see()

    def _see(self) -> None:
        self.active = self.owned and not self.gone and self.endpoint.sendable

    def can_take(self, window: int) -> bool:
        """Whether a fresh event may go straight to memory: there is room, and nothing older waits in the store."""
        return self.active and not self.backlog and self.held < window

    def wants(self, window: int) -> int:
        """How many deliveries to claim now; none before half the window is free, so that claims are worth it."""
        if not self.backlog or self.claiming or not self.active:
            return 0
        room = window - self.held
        return room if room * 2 >= window else 0

    def overflowed(self) -> None:
        """Note that something for this lane is only in the store."""
        self.backlog = True
        self.backlog_seen += 1
