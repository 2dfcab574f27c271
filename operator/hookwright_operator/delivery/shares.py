"""Pure: how namespaces share a bound: the places of attempts, and the memory for the bodies of deliveries."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from hookwright_operator.delivery.endpoint_queue import EndpointQueue

CLAIMS_IN_MEMORY: Final = 8
"""A claim takes at most this part of the memory limit, so that it ends soon and new events find room meanwhile."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of the deliveries in memory.

    Attributes:
        window: deliveries of one endpoint.
        memory: bytes of bodies of all endpoints; beyond it a queue gets one delivery at a time.
        in_flight: attempts under way at once, of all endpoints.
    """

    window: int
    memory: int
    in_flight: int = 1024


@dataclass(slots=True)
class _Share:
    """How much of the bound one namespace uses, and how many endpoints it has."""

    used: int = 0
    endpoints: int = 0


class Shares:
    """A bound, in places or in bytes, that namespaces share.

    Two rules decide how much a namespace may take:

    * **A guaranteed part.** Up to half of the bound is divided evenly among the namespaces that have endpoints.
      The number of namespaces is rounded up to a power of two, so that the parts rarely change. No other
      namespace can take such a part, so its owner never waits for it.
    * **A dynamic threshold** for the rest (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory
      packet switches", IEEE/ACM Transactions on Networking 6(2), 1998, with alpha = 1). A namespace may use at
      most as much as it leaves free. Guaranteed parts of others do not count as free.

    So one namespace uses at most half of the bound. If k namespaces want as much as possible, each uses at most
    1/(k + 1) of the rest. Some of the bound always stays free for a new namespace. This reserve is the cost of the
    rule: with one namespace, half of the bound.

    The threshold alone is not enough, because a place becomes free only when an attempt ends. Namespaces that fill up
    one after the other halve the free part each time, so the tenth one leaves 1 of 1,024 places for up to 30 s.
    Guaranteed parts alone are not enough, because then the first namespace takes all of the rest. A fixed cap of
    half for each namespace is not enough, because two namespaces at their cap leave nothing.

    A namespace that is created while the bound is used up gets its part as attempts of others end. If the rounded
    number of namespaces exceeds half of the bound, the guaranteed part is 0 and only the threshold remains.

    Args:
        bound: places or bytes in all.

    Attributes:
        used: how much of the bound all namespaces use; more than the bound if `take` was called although `left` was 0.
    """

    def __init__(self, bound: int) -> None:
        self.used = 0
        self._bound = bound
        self._guaranteed = 0
        # Free, and in no guaranteed part.
        self._spare = bound
        self._set_aside = 0
        self._shares: dict[str, _Share] = {}

    def join(self, namespace: str) -> None:
        """Add an endpoint of a namespace."""
        share = self._shares.get(namespace)
        if share is None:
            share = self._shares[namespace] = _Share()
            self._spare -= self._guaranteed
            self._divide()
        share.endpoints += 1

    def leave(self, namespace: str) -> None:
        """Remove an endpoint of a namespace."""
        share = self._shares[namespace]
        share.endpoints -= 1
        self._forget_unused(namespace, share)

    def left(self, namespace: str) -> int:
        """Return how much a namespace may take now if no other namespace takes anything meanwhile; at least 0."""
        use, guarantee = self._shares[namespace].used, self._guaranteed
        room = 0
        if use < guarantee:
            room, use = guarantee - use, guarantee
        if self._spare > use:
            room += (self._spare - use + 1) // 2
        free = self._bound - self.used
        return room if room <= free else max(0, free)

    def largest_use(self) -> float:
        """Return the largest part that a namespace uses of what it may use now, from 0 to 1."""
        shares = tuple(self._shares.items())
        return max((share.used / (share.used + self.left(name)) for name, share in shares if share.used), default=0.0)

    def used_by(self, namespace: str) -> int:
        """Return how much a namespace uses."""
        return self._shares[namespace].used

    def take(self, namespace: str, amount: int = 1) -> None:
        """Count an amount as used; the caller checks `left` before."""
        share = self._shares[namespace]
        share.used += amount
        self.used += amount
        beyond = share.used - self._guaranteed
        if beyond > 0:
            self._spare -= min(beyond, amount)

    def give(self, namespace: str, amount: int = 1) -> None:
        """Count an amount as free again."""
        share = self._shares[namespace]
        beyond = share.used - self._guaranteed
        if beyond > 0:
            self._spare += min(beyond, amount)
        share.used -= amount
        self.used -= amount
        if not share.endpoints:
            self._forget_unused(namespace, share)

    def left_or_guaranteed(self, namespace: str) -> int:
        """Return `left`, or what remains of the guaranteed part also if others exceed the bound."""
        return max(self.left(namespace), self._guaranteed - self._shares[namespace].used)

    def _count_aside(self, amount: int) -> None:
        """Count an amount as used by no namespace."""
        self.used += amount
        self._spare -= amount
        self._set_aside += amount

    def _forget_unused(self, namespace: str, share: _Share) -> None:
        if not share.used and not share.endpoints:
            del self._shares[namespace]
            self._spare += self._guaranteed
            self._divide()

    def _divide(self) -> None:
        """Set the guaranteed part by the number of namespaces, and add up all namespaces only if it changes."""
        number = len(self._shares)
        guarantee = self._bound >> ((number - 1).bit_length() + 1) if number else 0
        if guarantee != self._guaranteed:
            self._guaranteed = guarantee
            total = sum(max(guarantee, share.used) for share in self._shares.values())
            self._spare = self._bound - self._set_aside - total


class BodyMemory(Shares):
    """The bytes of all bodies in memory.

    Args:
        bounds: the limit, and how many deliveries of one endpoint may be in memory.
    """

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(bounds.memory)
        self._bounds = bounds

    def affordable(self, queue: EndpointQueue) -> int:
        """Return how many deliveries a queue may claim; without memory only one, and only if it has no other."""
        want = queue.wants(self._bounds.window)
        if not want or self.left_or_guaranteed(queue.endpoint.namespace) > 0:
            return want
        return int(queue.held == queue.reserved)

    @contextmanager
    def claim_room(self) -> Iterator[int]:
        """Reserve bytes for one claim, beyond the limit, too: a tenant that exceeds it stops no other tenant."""
        room = self._bounds.memory // CLAIMS_IN_MEMORY
        self._count_aside(room)
        try:
            yield room
        finally:
            self._count_aside(-room)
