"""Inputs and outputs of the store for messages that consumers take."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hookwright_operator.ids import epoch_ms_of
from hookwright_operator.store.records import Claimed, State


class Take(NamedTuple):
    """A request to lease messages of an endpoint to a consumer.

    Attributes:
        limit: messages at most.
        lease_ms: how long the leases last.
        room: bytes of bodies; the first message is taken in any case.
        new_id: returns a new id for a request at a time.
    """

    endpoint_uid: str
    limit: int
    lease_ms: int
    room: int
    new_id: Callable[[int], str]


class Taken(NamedTuple):
    """Messages that one request leased.

    Attributes:
        id: of the request; it is a part of the ids of the messages.
        at_ms: when the leases began.
        until_ms: when they end.
        messages: none if no message is due.
    """

    id: str
    at_ms: int
    until_ms: int
    messages: Sequence[Claimed]


class MessageCounts(NamedTuple):
    """The messages of an endpoint that are not settled.

    Attributes:
        waiting: due, and no consumer has them.
        oldest_ms: since when the oldest of them waits, None if none waits.
        leased: a consumer has them.
        delayed: a consumer refused them or let their lease end, and they are due later.
    """

    waiting: int
    oldest_ms: int | None
    leased: int
    delayed: int


class LeaseId(NamedTuple):
    """The lease of one message."""

    delivery_id: str
    take_id: str

    @property
    def began_ms(self) -> int:
        """When the lease began, by the clock of the store."""
        return epoch_ms_of(f"_{self.take_id}")


class Nack(NamedTuple):
    """Why a consumer refuses messages.

    Attributes:
        reason: the error of the attempts.
        delay_ms: when the next attempt follows; None: by the retry schedule.
    """

    reason: str
    delay_ms: int | None = None


class SettledLease(NamedTuple):
    """The state of a message after a request to settle it.

    Attributes:
        state: of the delivery.
        due_ms: when a pending delivery is due that no consumer has, None otherwise.
        error: of the attempt that the lease made, None if the lease made none; empty if the message was acknowledged.
    """

    state: State
    due_ms: int | None
    error: str | None
