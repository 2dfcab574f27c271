"""Statements that write the events and deliveries of all accept calls in one group commit.

Sync functions on a connection. The caller begins and ends the transaction.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

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
    update,
)

# The PostgreSQL construct compiles on SQLite too: both dialects spell ON CONFLICT alike.
from sqlalchemy.dialects.postgresql import Insert, insert

from hookwright_operator.store.records import Accepted, NewEvent, State
from hookwright_operator.store.schema import deliveries, event_ids, events
from hookwright_operator.store.sql import counters
from hookwright_operator.store.sql.rows import packed, rows, storable
from hookwright_operator.store.sql.statements import Each, Steps, few, run
from hookwright_runtime.errors import StoreError

_BODY_BYTES_PER_ROW = 4096

_now = bindparam("now", type_=BigInteger)


def _remembering(new: Insert) -> Insert:
    return new.on_conflict_do_update(
        index_elements=list(event_ids.primary_key),
        set_={"message_id": new.excluded.message_id, "accepted_ms": new.excluded.accepted_ms},
        where=event_ids.c.accepted_ms <= bindparam("since", type_=BigInteger),
    )


_keys = rows(namespace=Text, project=Text, event_id=Text, message_id=Text)
REMEMBER = _remembering(
    insert(event_ids).from_select(
        ["namespace", "project", "event_id", "message_id", "accepted_ms"], select(_keys, _now).where(true())
    )
)
_REMEMBER_EACH = Each(_remembering(insert(event_ids)), *event_ids.columns.keys(), "since")
REPETITIONS = select(_keys.c.message_id).join(
    event_ids,
    and_(
        event_ids.c.namespace == _keys.c.namespace,
        event_ids.c.project == _keys.c.project,
        event_ids.c.event_id == _keys.c.event_id,
        event_ids.c.message_id != _keys.c.message_id,
    ),
)

_events = rows(id=Text, namespace=Text, project=Text, type=Text, deliveries=Integer, start=Integer, length=Integer)
_body = func.substr(bindparam("bodies", type_=LargeBinary), _events.c.start, _events.c.length)
INSERT_EVENTS = insert(events).from_select(
    ["id", "namespace", "project", "type", "deliveries", "accepted_ms", "body"],
    select(
        _events.c.id,
        _events.c.namespace,
        _events.c.project,
        _events.c.type,
        _events.c.deliveries,
        _now,
        type_coerce(_body, LargeBinary),
    ),
)

# Most events are not traced, so the statement above has no column for the trace.
_traced = rows(id=Text, trace=Text)
TRACE = update(events).values(trace=_traced.c.trace).where(events.c.id == _traced.c.id)

_deliveries = rows("delivery_rows", id=Text, event_id=Text, endpoint_uid=Text, owner=Text)
INSERT_DELIVERIES = insert(deliveries).from_select(
    ["id", "event_id", "endpoint_uid", "owner", "state", "reason", "due_ms", "attempts", "ended_ms"],
    select(_deliveries, literal(State.PENDING.value), literal(""), _now, literal(0), null()),
)

WRITE = Steps("written", INSERT_EVENTS, INSERT_DELIVERIES, counters.ADD)
_INSERT_EVENT = Each(insert(events), *events.columns.keys())
_INSERT_DELIVERY = Each(insert(deliveries), *deliveries.columns.keys())


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
    connection: Connection, calls: Sequence[Sequence[NewEvent]], *, owner: str, slot: int, now: int, since: int
) -> list[Accepted]:
    """Write the new events of all calls with their deliveries and counters; duplicates write nothing.

    Args:
        connection: in a transaction.
        calls: the events of each accept call.
        owner: the replica that claims deliveries that are written as claimed.
        slot: the slot of the replica's counters.
        now: the time of acceptance.
        since: an id that was accepted at or before this time counts as new again.
    """
    repeated = remember_ids(connection, (event for call in calls for event in call), now=now, since=since)
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


def remember_ids(connection: Connection, arrived: Iterable[NewEvent], *, now: int, since: int) -> set[str]:
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
        entries = [(*key, message_id) for key, message_id in sorted(first.items())]
        if few(connection, entries):
            entered = _REMEMBER_EACH.run(connection, [(*entry, now, since) for entry in entries])
        else:
            entered = run(connection, REMEMBER, {"rows": packed(entries), "now": now, "since": since}).rowcount
        if entered < len(first):
            repeated.update(message_id for (message_id,) in run(connection, REPETITIONS, {"rows": packed(entries)}))
    return repeated


def _write(connection: Connection, new: Sequence[NewEvent], *, owner: str, slot: int, now: int) -> None:
    written = [
        (delivery.id, event.id, delivery.endpoint_uid, owner if delivery.claimed else None)
        for event in new
        for delivery in event.deliveries
    ]
    changes = [(uid, number, 0, 0, 0) for uid, number in Counter([row[2] for row in written]).items()]
    if few(connection, written):
        _INSERT_EVENT.run(
            connection,
            [
                (one.id, one.namespace, one.project, one.type, now, len(one.deliveries), one.body, one.trace)
                for one in new
            ],
        )
        pending = State.PENDING.value
        _INSERT_DELIVERY.run(
            connection,
            [
                (its_id, event_id, uid, pending, "", now, 0, claimant, None)
                for its_id, event_id, uid, claimant in written
            ],
        )
        counters.add(connection, slot, changes)
        return
    parameters = {
        **_event_parameters(new, [len(event.deliveries) for event in new]),
        "delivery_rows": packed(written),
        **counters.added(slot, changes),
        "now": now,
    }
    WRITE.run(connection, parameters)
    _write_traces(connection, new)


def write_events(connection: Connection, new: Sequence[NewEvent], numbers: Sequence[int], *, now: int) -> None:
    """Write events whose deliveries other transactions write.

    Args:
        connection: in a transaction.
        new: the events.
        numbers: how many deliveries each event has.
        now: the time of acceptance.
    """
    run(connection, INSERT_EVENTS, {**_event_parameters(new, numbers), "now": now})
    _write_traces(connection, new)


def _write_traces(connection: Connection, new: Sequence[NewEvent]) -> None:
    if traced := [(event.id, event.trace) for event in new if event.trace]:
        run(connection, TRACE, {"rows": packed(traced)})


def _event_parameters(new: Sequence[NewEvent], numbers: Sequence[int]) -> dict[str, object]:
    return {"rows": packed(_event_rows(new, numbers)), "bodies": b"".join([event.body for event in new])}


def _event_rows(new: Sequence[NewEvent], numbers: Sequence[int]) -> list[tuple[str | int, ...]]:
    """Return the events' rows; each has the start and length of its body in the concatenated bodies."""
    event_rows: list[tuple[str | int, ...]] = []
    start = 1
    for event, number in zip(new, numbers, strict=True):
        length = len(event.body)
        event_rows.append((event.id, event.namespace, event.project, event.type, number, start, length))
        start += length
    return event_rows
