"""Pure: one queue for each endpoint: its deliveries in memory, and how many attempts are under way.

A queue never has more deliveries than its window; further ones stay in the store. So an endpoint that hangs does not
delay other endpoints, and memory is bounded.
"""

from dataclasses import dataclass, field
from typing import Final

from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Claimed

_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 5.0
"""Seconds between attempts of one endpoint while this process lacks a resource for them, or while they time out."""
LIMIT_WHILE_TIMING_OUT: Final = 2
"""Attempts at once to an endpoint, from an attempt that timed out until one succeeds."""


@dataclass(slots=True, eq=False)
class EndpointQueue:
    """Deliveries of one endpoint in this replica, and their state.

    Attributes:
        ready: claimed deliveries that wait for their attempt.
        in_flight: attempts under way.
        settling: attempts that ended and whose result is being stored.
        refused: the number of these results that the store has refused so far.
        reserved: places promised to events that are being accepted.
        backlog: whether the store may have more due deliveries.
        backlog_seen: rises with every delivery that is added to the store only. So a claim made before it does not
            conclude that nothing is left.
        claiming: whether a claim for this queue is under way.
        timeouts: how often attempts timed out since one succeeded.
        timeout_pause_until: in seconds of the event loop's clock; before then no attempt begins after a timeout.
        paced_until: in seconds of the event loop's clock; before then the endpoint's rate limit lets no attempt begin.
        postponed: how often in a row attempts could not be made because of a fault of this process.
        postponed_until: in seconds of the event loop's clock; before then no attempt begins after such a fault.
        due_ms: when the next delivery of this queue in the store is due, as far as is known.
        shard: the shard of the endpoint.
        owned: whether this replica owns the shard.
        gone: whether the endpoint was deleted.
        active: whether deliveries may be claimed and sent; never if consumers take them.
    """

    endpoint: Endpoint
    shard: int = 0
    owned: bool = True
    # An empty deque would take 760 bytes for each endpoint.
    ready: list[Claimed] = field(default_factory=list)
    in_flight: int = 0
    settling: int = 0
    refused: int = 0
    reserved: int = 0
    backlog: bool = False
    backlog_seen: int = 0
    claiming: bool = False
    timeouts: int = 0
    timeout_pause_until: float = 0.0
    paced_until: float = 0.0
    postponed: int = 0
    postponed_until: float = 0.0
    due_ms: int | None = None
    gone: bool = False
    active: bool = field(init=False)

    def __post_init__(self) -> None:
        """Set ``active`` from the other fields."""
        self._see()

    @property
    def held(self) -> int:
        """How many deliveries of the endpoint are in this replica's memory."""
        return len(self.ready) + self.in_flight + self.settling + self.reserved

    @property
    def limit(self) -> int:
        """Return how many attempts may be under way at once.

        An endpoint that hangs uses each place for its whole timeout, so it gets few places.
        """
        maximum = self.endpoint.max_in_flight
        return min(maximum, LIMIT_WHILE_TIMING_OUT) if self.timeouts else maximum

    @property
    def limited_to(self) -> int | None:
        """Return `limit` if timeouts have lowered it, None otherwise."""
        return self.limit if self.timeouts else None

    @property
    def can_start(self) -> bool:
        """Whether an attempt may begin now.

        After a crash, attempts without a stored result are repeated. So results that are being stored are at most as
        many as attempts may be under way. While the store refuses a result, no attempt begins.
        """
        return (
            bool(self.ready)
            and self.active
            and not self.refused
            and self.in_flight < self.limit
            and self.in_flight + self.settling < 2 * self.endpoint.max_in_flight
        )

    def pause(self, now: float) -> float:
        """Return for how many seconds no attempt may begin.

        The reasons are the rate limit, a fault of this process, and a timeout.

        Args:
            now: in seconds of the event loop's clock.
        """
        return max(0.0, self.paced_until - now, self.postponed_until - now, self.timeout_pause_until - now)

    def postpone(self, delivery: Claimed, now: float) -> None:
        """Put a delivery back whose attempt this process could not make; the pause grows after each such fault.

        Attempts that fail together count as one fault.
        """
        self.ready.insert(0, delivery)
        if now >= self.postponed_until:
            self.postponed_until = now + _pause_after(self.postponed)
            self.postponed += 1

    def started(self, now: float) -> None:
        """Count an attempt that begins, so that the next one keeps the interval of the rate limit."""
        if self.endpoint.per_minute:
            self.paced_until = max(self.paced_until, now) + 60 / self.endpoint.per_minute

    def ended(self, *, delivered: bool, timed_out: bool, now: float, jitter: float) -> None:
        """Record how an attempt ended; a failure that is no timeout changes nothing.

        After a timeout the endpoint pauses for a random time, whose limit grows with each further timeout. So the
        attempts of many endpoints that hang for equally long do not all end and start again at the same moment.
        Attempts that time out together count as one timeout.

        Args:
            delivered: whether it succeeded.
            timed_out: whether it failed because its time was up.
            now: in seconds of the event loop's clock.
            jitter: random, from 0 to 1: the part of the longest possible pause.
        """
        if delivered:
            self.timeouts = 0
        elif timed_out and (not self.timeouts or now >= self.timeout_pause_until):
            self.timeout_pause_until = now + jitter * _pause_after(self.timeouts)
            self.timeouts += 1

    def change(self, endpoint: Endpoint) -> None:
        """Use a new snapshot of the endpoint from now on."""
        if endpoint.per_minute != self.endpoint.per_minute:
            self.paced_until = 0.0
        self.endpoint = endpoint
        self._see()

    def own(self, *, since: float | None) -> None:
        """Set whether this replica owns the queue's shard.

        Args:
            since: when the replica became the owner, in seconds of the event loop's clock; None if it is not the owner.
                Another replica may have begun an attempt right before, so the rate limit counts from then.
        """
        self.owned = since is not None
        if since is not None and self.endpoint.per_minute:
            self.paced_until = max(self.paced_until, since + 60 / self.endpoint.per_minute)
        self._see()

    def end(self) -> None:
        """Start nothing more, because the endpoint was deleted."""
        self.gone = True
        self._see()

    def _see(self) -> None:
        sends = self.endpoint.sendable and not self.endpoint.pulled
        self.active = self.owned and not self.gone and sends

    def can_take(self, window: int) -> bool:
        """Return whether a new event may go straight to memory: there is room, and the store has no older one."""
        return self.active and not self.backlog and self.held < window

    def wants(self, window: int) -> int:
        """Return how many deliveries to claim now; 0 until half of the window is free, so that each claim gets many."""
        if not self.backlog or self.claiming or not self.active:
            return 0
        room = window - self.held
        return room if room * 2 >= window else 0

    def overflowed(self) -> None:
        """Note that a delivery of this queue is only in the store."""
        self.backlog = True
        self.backlog_seen += 1


def _pause_after(number: int) -> float:
    """Return the longest pause in seconds after so many earlier faults or timeouts in a row."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(number, 10))
