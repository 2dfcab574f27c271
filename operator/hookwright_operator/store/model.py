"""Pure: what goes into the store and what comes out of it.

The state machine of one delivery (one event for one endpoint)::

    pending ──attempt 2xx──► delivered ──┐
       │  ▲                              ├──retry──► pending
       │  └──────────────retry── failed ◄┘
       ├──attempts exhausted───► failed
       └──endpoint deleted─────► discarded

What is made for every event is a tuple with names, which costs a quarter of a frozen dataclass.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

Wants = Sequence[tuple[str, int]]
"""Endpoint uids, each once, with how many deliveries to claim at most."""


class Claim(NamedTuple):
    """What one claim may take.

    Attributes:
        wants: endpoint uids with limits.
        room: bytes of bodies; each endpoint has an equal share. An endpoint's oldest delivery is claimed in any case.
    """

    wants: Wants
    room: int


class State(StrEnum):
    """Where a delivery stands."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"
    DISCARDED = "discarded"


class RecoveryState(StrEnum):
    """Where a recovery stands."""

    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    """Its endpoint was deleted."""


class NewDelivery(NamedTuple):
    """A delivery to be written together with its event.

    Attributes:
        claimed: written as already claimed by this instance, because its endpoint's loop has room
            for it and gets it from memory; otherwise it waits in the store to be claimed.
    """

    id: str
    endpoint_uid: str
    claimed: bool


class NewEvent(NamedTuple):
    """An event to be accepted.

    Attributes:
        id: our id, ``msg_<ULID>``, constant over all attempts.
        event_id: the producer's id, by which repetitions are told, or None.
        body: the exact bytes that are signed and sent.
        trace: the ``traceparent`` of its acceptance, None where that is not traced.
    """

    id: str
    namespace: str
    project: str
    event_id: str | None
    type: str
    body: bytes
    deliveries: tuple[NewDelivery, ...]
    trace: str | None = None


class Claimed(NamedTuple):
    """A delivery that this instance alone may attempt now.

    Attributes:
        attempts: how many attempts were made before since it last became pending by acceptance or retry by hand.
        accepted_ms: when the event was accepted, in milliseconds since the epoch.
        trace: the ``traceparent`` of that, None where it was not traced.
    """

    id: str
    endpoint_uid: str
    event_id: str
    event_type: str
    body: bytes
    attempts: int
    accepted_ms: int
    trace: str | None = None


class Attempt(NamedTuple):
    """One try to send, as it is recorded.

    Attributes:
        number: 1 for the first attempt of the delivery, retries by hand counted on; the store assigns it when
            the attempt is settled, whatever the settlement says.
        duration_ms: of the whole attempt.
        status_code: HTTP status, 0 where there was no HTTP answer.
        error: in plain words, empty where the answer was 2xx; never a secret.
        response: the first bytes of the answer as text.
    """

    number: int
    started_ms: int
    duration_ms: int
    status_code: int
    error: str = ""
    response: str = ""


class Settlement(NamedTuple):
    """The result of one attempt: the record of it and the delivery's next state.

    Attributes:
        state: DELIVERED, FAILED, or PENDING to be tried again at ``due_ms``.
        event_id: of the delivery, for logs.
    """

    delivery_id: str
    endpoint_uid: str
    attempt: Attempt
    state: State
    due_ms: int = 0
    event_id: str = ""


class Accepted(NamedTuple):
    """What became of the events of one accept call, all of it committed.

    Attributes:
        accepted: how many events are new.
        deliveries: how many deliveries were written for them.
        duplicate_ids: our ids (``NewEvent.id``) of the events that were repetitions and were not written.
        at_ms: the time that was written as the time of acceptance.
    """

    accepted: int
    deliveries: int
    duplicate_ids: frozenset[str]
    at_ms: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Counters of one endpoint, kept beside the deliveries and never scanned for."""

    pending: int = 0
    delivered: int = 0
    failed: int = 0
    discarded: int = 0
    last_attempt_ms: int | None = None
    last_status_code: int | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One instance as others see it.

    Attributes:
        id: unique to this opening of the store.
        name: which no two living instances share, so that a new one of a name follows upon a dead one; may be empty.
        delivers: whether it takes shards of endpoints.
    """

    id: str
    name: str = ""
    delivers: bool = True


@dataclass(frozen=True, slots=True)
class Holding:
    """Which shards of endpoints an instance has.

    Attributes:
        owned: what it has; nobody else takes them while its lease holds.
        surplus: how many of them it is to let go for the others' sake.
    """

    owned: frozenset[int]
    surplus: int


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """One row of the delivery log."""

    id: str
    event_id: str
    event_type: str
    endpoint_uid: str
    state: State
    reason: str
    accepted_ms: int
    due_ms: int
    attempts: tuple[Attempt, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Recovery:
    """A job that makes an endpoint's failed deliveries pending again.

    Attributes:
        since_ms: it takes what failed at this time or later.
        until_ms: it takes what failed at this time or before.
        total: how many there were when it began.
        done: how many of them are pending again or have been since. In the end it is less than ``total`` where some
            were retried by hand or removed with age meanwhile.
        begun_ms: when it began.
        ended_ms: when it ended, None while it is running.
    """

    id: str
    endpoint_uid: str
    state: RecoveryState
    since_ms: int
    until_ms: int
    total: int
    done: int
    begun_ms: int
    ended_ms: int | None = None
