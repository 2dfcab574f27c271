"""Pure: inputs and outputs of the store.

The state machine of one delivery (one event for one endpoint)::

    pending ──attempt 2xx──► delivered ──┐
       │  ▲                              ├──retry──► pending
       │  └──────────────retry── failed ◄┘
       ├──attempts exhausted───► failed
       └──endpoint deleted─────► discarded

Records that exist for every event are named tuples: creating one costs a quarter of a frozen dataclass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

SOURCE_END: Final = "\n"
"""Separates source and id of a CloudEvent in ``NewEvent.event_id``; no source and no producer's id has a line break."""

TEST_REASON: Final = "test"
"""The reason of a delivery that is the record of a test."""
DELETED_REASON: Final = "endpoint deleted"
"""The reason of a delivery that was discarded because its endpoint does not exist any more."""

Wants = Sequence[tuple[str, int]]
"""Endpoint uids, each once, with how many deliveries to claim at most."""


class ClaimRequest(NamedTuple):
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
    """A caller cancelled the replay, or its endpoint was deleted."""


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
        event_id: what identifies repetitions: the producer's id; that of a CloudEvent follows its source and
            `SOURCE_END`; None if the event has no id.
        body: the exact bytes that are signed and sent.
        trace: the ``traceparent`` of its acceptance, None if the acceptance is not traced.
        digest: of the content, 64 bits as a signed number; None if the content of a repetition is not compared.
        attributes: context attributes of a CloudEvent as a JSON object of strings, None for other events.
        message_id: the producer's messageId, by which the log finds the event; empty if it is not to be found by it.
        kept: whether the event is stored also without deliveries, so that a replay can send it.
        project_uid: of the Project; a repetition is one of an event of the same uid.
    """

    id: str
    namespace: str
    project: str
    event_id: str | None
    type: str
    body: bytes
    deliveries: tuple[NewDelivery, ...]
    trace: str | None = None
    digest: int | None = None
    attributes: str | None = None
    message_id: str = ""
    kept: bool = False
    project_uid: str = ""

    @property
    def size(self) -> int:
        """The bytes of memory that each of its deliveries counts."""
        return len(self.body) + len(self.attributes or "")


class Claimed(NamedTuple):
    """A delivery that only this replica may attempt now.

    Attributes:
        attempts: how many attempts were made since the delivery last became pending, by acceptance or by a retry by
            hand.
        accepted_ms: when the event was accepted, in milliseconds since the epoch.
        trace: the ``traceparent`` of the acceptance, None if the acceptance was not traced.
        attributes: context attributes of a CloudEvent as a JSON object of strings, None for other events.
    """

    id: str
    endpoint_uid: str
    event_id: str
    event_type: str
    body: bytes
    attempts: int
    accepted_ms: int
    trace: str | None = None
    attributes: str | None = None

    @property
    def size(self) -> int:
        """The bytes of memory that it counts."""
        return len(self.body) + len(self.attributes or "")


class Attempt(NamedTuple):
    """One attempt to send a delivery, as the store records it.

    Attributes:
        number: 1 for the first attempt of the delivery. A retry by hand does not reset it. The store assigns the number
            when the attempt is settled, and ignores the number in the settlement.
        duration_ms: the duration of the whole attempt.
        status_code: HTTP status, 0 if there was no HTTP response.
        error: a message for people, empty if the response was 2xx; it never contains a secret.
        response: the first bytes of the response as text.
        response_headers: the headers of the response, one in each line; None if they are not known.
        request: the signed timestamp in seconds, the fingerprint of the signing secrets and that of the constant part
            of the request's head, separated by spaces; None if they are not known.
    """

    number: int
    started_ms: int
    duration_ms: int
    status_code: int
    error: str = ""
    response: str = ""
    response_headers: str | None = None
    request: str | None = None


class Settlement(NamedTuple):
    """The result of one attempt: its record and the delivery's next state.

    Attributes:
        state: DELIVERED, FAILED, or PENDING if a retry follows at ``due_ms``.
        event_id, event_type: of the delivery's event; the type only if an attempt was the last one, and failed.
    """

    delivery_id: str
    endpoint_uid: str
    attempt: Attempt
    state: State
    due_ms: int = 0
    event_id: str = ""
    event_type: str = ""


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
        duplicate_of: by ``NewEvent.id`` of each event that repeats an earlier one and was not written, the id of the
            earlier one.
        at_ms: the time that was written as the time of acceptance.
        conflicts: ids of the events whose ``event_id`` was accepted with other content. If there is one, no event of
            the call was written.
    """

    accepted: int
    deliveries: int
    duplicate_of: Mapping[str, str]
    at_ms: int
    conflicts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Counts:
    """Counters of one endpoint, which are stored beside the deliveries; reading them scans no deliveries."""

    pending: int = 0
    delivered: int = 0
    failed: int = 0
    discarded: int = 0
    last_attempt_ms: int | None = None
    last_status_code: int | None = None


class Window(StrEnum):
    """A span of time that statistics cover, as a number of equal buckets."""

    HOUR = "1h"
    DAY = "24h"
    WEEK = "7d"

    @property
    def width_s(self) -> int:
        """The seconds of one bucket."""
        return {Window.HOUR: 60, Window.DAY: 900, Window.WEEK: 7200}[self]

    @property
    def buckets(self) -> int:
        """The number of buckets."""
        return {Window.HOUR: 60, Window.DAY: 96, Window.WEEK: 84}[self]


class Bucket(NamedTuple):
    """The numbers of one span of time.

    Attributes:
        delivered: deliveries that became delivered.
        failed: deliveries that became failed.
        attempts: all attempts.
        latencies: successful attempts by class of latency; see `latency_classes`.
    """

    delivered: int
    failed: int
    attempts: int
    latencies: tuple[int, ...]


class Series(NamedTuple):
    """Statistics of a window.

    Attributes:
        total: the sum of all buckets.
        buckets: all buckets of the window, the oldest first, each with its begin in seconds since the epoch.
    """

    window: Window
    total: Bucket
    buckets: tuple[tuple[int, Bucket], ...]


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica as other replicas see it.

    Attributes:
        id: unique to this opening of the store.
        name: may be empty. Living replicas have different names, so the earlier replica of a name is dead.
        delivers: whether the replica takes shards of endpoints.
    """

    id: str
    name: str = ""
    delivers: bool = True


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """One row of the delivery log.

    Attributes:
        state: of a test, the result of its attempt.
        message_id: the producer's messageId.
        recipient: of the payload; None if it names none near its begin.
    """

    id: str
    event_id: str
    event_type: str
    endpoint_uid: str
    state: State
    reason: str
    accepted_ms: int
    due_ms: int
    message_id: str
    recipient: str | None
    attempts: tuple[Attempt, ...] = field(default=())

    @property
    def is_test(self) -> bool:
        """Whether it is the record of a test, which is never sent again."""
        return self.reason == TEST_REASON


class Choice(NamedTuple):
    """Which deliveries of a time range a replay sends again.

    Attributes:
        states: delivered, failed or both; empty: the replay sends events that the endpoint has no delivery of.
        types: the event types; empty means all. A replay of missed events names them.
    """

    states: tuple[State, ...]
    types: tuple[str, ...] = ()

    @property
    def missed(self) -> bool:
        """Whether the replay sends events that the endpoint has no delivery of."""
        return not self.states


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay: a job that makes deliveries of an endpoint pending again.

    Attributes:
        since_ms: the replay takes deliveries that were accepted at this time or later.
        until_ms: the same with this time or earlier.
        total: how many there were when it began; see ``total_is_exact``.
        done: how many of them the replay has made pending. At the end it is less than ``total`` if some deliveries were
            retried by hand or pruned meanwhile.
        begun_ms: when it began.
        ended_ms: when it ended, None while it is running.
    """

    id: str
    endpoint_uid: str
    state: ReplayState
    choice: Choice
    since_ms: int
    until_ms: int
    total: int
    done: int
    begun_ms: int
    ended_ms: int | None = None
    total_is_exact: bool = True
    """Whether ``total`` counts all deliveries of the replay. Counting many would take too long."""


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An accepted event as the delivery log shows it.

    Attributes:
        body: the exact bytes that are sent.
        attributes: context attributes of a CloudEvent as a JSON object of strings, None for other events.
        deliveries: how many deliveries it has.
    """

    id: str
    namespace: str
    project: str
    type: str
    accepted_ms: int
    deliveries: int
    body: bytes
    attributes: str | None = None


@dataclass(frozen=True, slots=True)
class Search:
    """A search of the deliveries of some endpoints; None means that a condition does not apply.

    Attributes:
        endpoint_uids: the endpoints that the caller may see, or one of them.
        namespace: the namespace of the endpoints.
        event_id: the id of the event, or the producer's id.
        status_code: the status of the latest attempt; 0 if that attempt had no HTTP response.
        recipient: that of the payload, in any case.
        since_ms: only deliveries that were written at this time or later, by their ids.
        until_ms: only deliveries that were written at this time or earlier, by their ids.
    """

    endpoint_uids: Sequence[str]
    namespace: str
    message_id: str | None = None
    event_id: str | None = None
    event_type: str | None = None
    state: State | None = None
    status_code: int | None = None
    recipient: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
