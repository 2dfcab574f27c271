"""Statements that write the events and deliveries of all accept calls in one group commit.

Sync functions on a connection. The caller begins and ends the transaction.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from sqlalchemy import (
    BigInteger,
    Connection,
    Integer,
    LargeBinary,
    Text,
    and_,
    bindparam,
    func,
    literal,
    null,
    select,
    true,
    type_coerce,
)

from hookwright_operator.store.records import Accepted, NewEvent, State
from hookwright_operator.store.schema import deliveries, event_ids, events
from hookwright_operator.store.sql.counters import Change, add_counts
from hookwright_operator.store.sql.dialect import insert
from hookwright_operator.store.sql.rows import packed, rows, storable
from hookwright_operator.store.sql.statements import run
from hookwright_runtime.errors import StoreError

DEDUPE_WINDOW_MS: Final = 24 * 60 * 60 * 1000
"""For how long a producer's event id is kept, in milliseconds; then it counts as new again."""
_BODY_BYTES_PER_ROW: Final = 4096

_now = bindparam("now", type_=BigInteger)


_keys = rows(namespace=Text, project=Text, event_id=Text, message_id=Text)
_remember = insert(event_ids).from_select(
    ["namespace", "project", "event_id", "message_id", "accepted_ms"], select(_keys, _now).where(true())
)
REMEMBER = _remember.on_conflict_do_update(
    index_elements=list(event_ids.primary_key),
    set_={"message_id": _remember.excluded.message_id, "accepted_ms": _remember.excluded.accepted_ms},
    where=event_ids.c.accepted_ms <= bindparam("since", type_=BigInteger),
)
REPETITIONS = select(_keys.c.message_id).join(
    event_ids,
    and_(
        event_ids.c.namespace == _keys.c.namespace,
        event_ids.c.project == _keys.c.project,
        event_ids.c.event_id == _keys.c.event_id,
        event_ids.c.message_id != _keys.c.message_id,
    ),
)

_events = rows(
    id=Text, namespace=Text, project=Text, type=Text, deliveries=Integer, trace=Text, start=Integer, length=Integer
)
_body = func.substr(bindparam("bodies", type_=LargeBinary), _events.c.start, _events.c.length)
INSERT_EVENTS = insert(events).from_select(
    ["id", "namespace", "project", "type", "deliveries", "trace", "accepted_ms", "body"],
    select(*list(_events.c)[:-2], _now, type_coerce(_body, LargeBinary)),
)

_deliveries = rows("delivery_rows", id=Text, event_id=Text, endpoint_uid=Text, owner=Text)
INSERT_DELIVERIES = insert(deliveries).from_select(
    ["id", "event_id", "endpoint_uid", "owner", "state", "reason", "due_ms", "attempts", "ended_ms"],
    select(_deliveries, literal(State.PENDING.value), literal(""), _now, literal(0), null()),
)


def check(events: Iterable[NewEvent]) -> None:
    """Check that every database can store the producers' ids unchanged.

    Raises:
        StoreError: an ``event_id`` has a character that a database cannot store.
    """
    for event in events:
        if event.event_id is not None and not storable(event.event_id):
            raise StoreError(f"event {event.id}: event_id must not contain U+0000 or lone surrogates")


def weight_of(events: Iterable[NewEvent]) -> int:
    """Estimate how many rows the events and their deliveries write; large bodies count as several rows."""
    return sum([1 + len(event.deliveries) + len(event.body) // _BODY_BYTES_PER_ROW for event in events])


def accept(
    connection: Connection, calls: Sequence[Sequence[NewEvent]], *, owner: str, slot: int, now: int
) -> list[Accepted]:
    """Write the new events of all calls with their deliveries and counters; duplicates write nothing.

    Args:
        connection: in a transaction.
        calls: the events of each accept call.
        owner: the replica that claims deliveries that are written as claimed.
        slot: the slot of the replica's counters.
        now: the time of acceptance.
    """
    repeated = remember_ids(connection, (event for call in calls for event in call), now=now)
    new = [event for call in calls for event in call if event.id not in repeated]
    if any(event.deliveries for event in new):
        _write(connection, [event for event in new if event.deliveries], owner=owner, slot=slot, now=now)
    return [_answer(call, repeated, now) for call in calls]


def _answer(call: Sequence[NewEvent], repeated: set[str], now: int) -> Accepted:
    if not repeated:
        return Accepted(len(call), sum([len(event.deliveries) for event in call]), frozenset(), now)
    duplicates = frozenset([event.id for event in call if event.id in repeated])
    written = sum([len(event.deliveries) for event in call if event.id not in duplicates])
    return Accepted(len(call) - len(duplicates), written, duplicates, now)


def remember_ids(connection: Connection, arrived: Iterable[NewEvent], *, now: int) -> set[str]:
    """Insert the producers' ids; return the message ids of the events whose producer id exists already."""
    first: dict[tuple[str, str, str], str] = {}
    repeated = set()
    for event in arrived:
        if event.event_id is not None:
            key = (event.namespace, event.project, event.event_id)
            if first.setdefault(key, event.id) != event.id:
                repeated.add(event.id)
    if first:
        # Sorted by id, because two transactions that lock rows in the same order cannot deadlock.
        arrived_ids = packed([(*key, message_id) for key, message_id in sorted(first.items())])
        times = {"now": now, "since": now - DEDUPE_WINDOW_MS}
        entered = run(connection, REMEMBER, {"rows": arrived_ids, **times}).rowcount
        if entered < len(first):
            repeated.update(message_id for (message_id,) in run(connection, REPETITIONS, {"rows": arrived_ids}))
    return repeated


def _write(connection: Connection, new: Sequence[NewEvent], *, owner: str, slot: int, now: int) -> None:
    written = [
        (delivery.id, event.id, delivery.endpoint_uid, owner if delivery.claimed else None)
        for event in new
        for delivery in event.deliveries
    ]
    write_events(connection, new, [len(event.deliveries) for event in new], now=now)
    write_deliveries(connection, written, slot=slot, now=now)


def write_events(connection: Connection, new: Sequence[NewEvent], numbers: Sequence[int], *, now: int) -> None:
    """Write events whose deliveries other transactions write.

    Args:
        connection: in a transaction.
        new: the events.
        numbers: how many deliveries each event has.
        now: the time of acceptance.
    """
    # Each row has the start and length of its body in the concatenated bodies.
    event_rows = []
    start = 1
    for event, number in zip(new, numbers, strict=True):
        length = len(event.body)
        event_rows.append((event.id, event.namespace, event.project, event.type, number, event.trace, start, length))
        start += length
    bodies = b"".join([event.body for event in new])
    run(connection, INSERT_EVENTS, {"rows": packed(event_rows), "bodies": bodies, "now": now})


def write_deliveries(
    connection: Connection, written: Sequence[tuple[str, str, str, str | None]], *, slot: int, now: int
) -> None:
    """Write pending deliveries, due now, and count them.

    Args:
        connection: in a transaction.
        written: id, event, endpoint and owner of each delivery; the owner is None if it is not claimed.
        slot: the slot of this replica's counters.
        now: the time at which they are due.
    """
    run(connection, INSERT_DELIVERIES, {"delivery_rows": packed(written), "now": now})
    accepted = Counter([row[2] for row in written])
    add_counts(connection, slot, [Change(uid, number) for uid, number in accepted.items()])
