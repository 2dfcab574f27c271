"""Pure: inputs and outputs of the store.

The state machine of one delivery (one event for one endpoint)::

    pending ──attempt 2xx──► delivered ──┐
       │  ▲                              ├──retry──► pending
       │  └──────────────retry── failed ◄┘
       ├──attempts exhausted───► failed
       └──endpoint deleted─────► discarded

Records that exist for every event are named tuples: creating one costs a quarter of a frozen dataclass.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

Wants = Sequence[tuple[str, int]]
"""Endpoint uids, each once, with how many deliveries to claim at most."""


class Claim(NamedTuple):
    """A request to claim deliveries.

    Attributes:
        wants: endpoint uids with limits.
        room: bytes of bodies; each endpoint has an equal share. An endpoint's oldest delivery is always claimed.
    """

    wants: Wants
    room: int


class State(StrEnum):
    """The state of a delivery."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"
    DISCARDED = "discarded"


class ReplayState(StrEnum):
    """The state of a replay."""

    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    """The endpoint of the replay was deleted."""


class NewDelivery(NamedTuple):
    """A delivery that is written together with its event.

    Attributes:
        claimed: whether the delivery is written as claimed by this replica. The replica then sends it from memory,
            because its endpoint queue has room. Otherwise the delivery waits in the store until a replica claims it.
    """

    id: str
    endpoint_uid: str
    claimed: bool


class NewEvent(NamedTuple):
    """An event to be accepted.

    Attributes:
        id: Hookwright's id, ``msg_<ULID>``, the same for all attempts.
        event_id: the producer's id, which identifies duplicates, or None.
        body: the exact bytes that are signed and sent.
        trace: the ``traceparent`` of its acceptance, None if the acceptance is not traced.
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
    """A delivery that only this replica may attempt now.

    Attributes:
        attempts: how many attempts were made since the delivery last became pending, by acceptance or by a retry by
            hand.
        accepted_ms: when the event was accepted, in milliseconds since the epoch.
        trace: the ``traceparent`` of the acceptance, None if the acceptance was not traced.
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
    """One attempt to send a delivery, as the store records it.

    Attributes:
        number: 1 for the first attempt of the delivery. A retry by hand does not reset it. The store assigns the number
            when the attempt is settled, and ignores the number in the settlement.
        duration_ms: the duration of the whole attempt.
        status_code: HTTP status, 0 if there was no HTTP response.
        error: a message for people, empty if the response was 2xx; it never contains a secret.
        response: the first bytes of the response as text.
    """

    number: int
    started_ms: int
    duration_ms: int
    status_code: int
    error: str = ""
    response: str = ""


class Settlement(NamedTuple):
    """The result of one attempt: its record and the delivery's next state.

    Attributes:
        state: DELIVERED, FAILED, or PENDING if a retry follows at ``due_ms``.
        event_id: the event of the delivery, for logs.
    """

    delivery_id: str
    endpoint_uid: str
    attempt: Attempt
    state: State
    due_ms: int = 0
    event_id: str = ""


class Settlements(NamedTuple):
    """A request to settle deliveries.

    Attributes:
        again: an earlier request had an unknown outcome, so some of the attempts may be stored already.
    """

    settlements: Sequence[Settlement]
    again: bool = False


class Accepted(NamedTuple):
    """The committed result of one accept call.

    Attributes:
        accepted: how many events are new.
        deliveries: how many deliveries were written for them.
        duplicate_ids: Hookwright's ids (``NewEvent.id``) of the events that were duplicates and were not written.
        at_ms: the time that was written as the time of acceptance.
    """

    accepted: int
    deliveries: int
    duplicate_ids: frozenset[str]
    at_ms: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Counters of one endpoint, which are stored beside the deliveries; reading them scans no deliveries."""

    pending: int = 0
    delivered: int = 0
    failed: int = 0
    discarded: int = 0
    last_attempt_ms: int | None = None
    last_status_code: int | None = None


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica as other replicas see it.

    Attributes:
        id: unique to this opening of the store.
        name: may be empty. No two living replicas have the same name, so a new replica of a name implies that the
            earlier one is dead.
        delivers: whether the replica takes shards of endpoints.
    """

    id: str
    name: str = ""
    delivers: bool = True


@dataclass(frozen=True, slots=True)
class Holding:
    """The shards of endpoints that a replica owns.

    Attributes:
        owned: its shards; no other replica takes them before its claim lease expires.
        surplus: how many of them it should release for other replicas.
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
class Replay:
    """A replay: a job that makes an endpoint's failed deliveries pending again.

    Attributes:
        since_ms: the replay takes deliveries that failed at this time or later.
        until_ms: the replay takes deliveries that failed at this time or before.
        total: how many there were when it began.
        done: how many of them the replay has made pending. At the end it is less than ``total`` if some deliveries were
            retried by hand or pruned meanwhile.
        begun_ms: when it began.
        ended_ms: when it ended, None while it is running.
    """

    id: str
    endpoint_uid: str
    state: ReplayState
    since_ms: int
    until_ms: int
    total: int
    done: int
    begun_ms: int
    ended_ms: int | None = None
