"""Statements that write the events and deliveries of all accept calls in one group commit.

Sync functions on a connection. The caller begins and ends the transaction.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Connection,
    Integer,
    LargeBinary,
    Text,
    and_,
    bindparam,
    delete,
    func,
    literal,
    null,
    select,
    true,
    tuple_,
    type_coerce,
)

from hookwright_operator.ids import id_digest
from hookwright_operator.store.records import SOURCE_END, Accepted, NewEvent, State
from hookwright_operator.store.schema import deliveries, event_ids, events
from hookwright_operator.store.sql.counters import ADD, Change, added
from hookwright_operator.store.sql.dialect import insert
from hookwright_operator.store.sql.rows import packed, rows, storable
from hookwright_operator.store.sql.statements import Group, run, run_all, run_group
from hookwright_runtime.errors import StoreError

DEDUPE_WINDOW_MS: Final = 24 * 60 * 60 * 1000
"""For how long a producer's event id is kept, in milliseconds; then it counts as new again."""
_BODY_BYTES_PER_ROW: Final = 4096

_DeliveryRow = tuple[str, str, str, str | None]

_now = bindparam("now", type_=BigInteger)


_keys = rows(namespace=Text, project=Text, event_id=Text, message_id=Text, digest=BigInteger)
_remember = insert(event_ids).from_select(
    ["namespace", "project", "event_id", "message_id", "digest", "accepted_ms"], select(_keys, _now).where(true())
)
REMEMBER = _remember.on_conflict_do_update(
    index_elements=list(event_ids.primary_key),
    set_={name: _remember.excluded[name] for name in ("message_id", "accepted_ms", "digest")},
    where=event_ids.c.accepted_ms <= bindparam("since", type_=BigInteger),
).returning(event_ids.c.message_id)
REPETITIONS = select(_keys.c.message_id, event_ids.c.message_id, event_ids.c.digest).join(
    event_ids,
    and_(
        event_ids.c.namespace == _keys.c.namespace,
        event_ids.c.project == _keys.c.project,
        event_ids.c.event_id == _keys.c.event_id,
        event_ids.c.message_id != _keys.c.message_id,
    ),
)

FORGET = delete(event_ids).where(
    tuple_(event_ids.c.namespace, event_ids.c.project, event_ids.c.event_id, event_ids.c.message_id).in_(
        select(_keys.c.namespace, _keys.c.project, _keys.c.event_id, _keys.c.message_id)
    )
)

_events = rows(
    "event_rows", id=Text, namespace=Text, project=Text, type=Text, deliveries=Integer,
    message_id_digest=BigInteger, event_id_digest=BigInteger, trace=Text, attributes=Text,
    start=Integer, length=Integer,
)  # fmt: skip
_body = func.substr(bindparam("bodies", type_=LargeBinary), _events.c.start, _events.c.length)
INSERT_EVENTS = insert(events).from_select(
    [*_events.c.keys()[:-2], "accepted_ms", "body"],
    select(*list(_events.c)[:-2], _now, type_coerce(_body, LargeBinary)),
)

_deliveries = rows("delivery_rows", id=Text, event_id=Text, endpoint_uid=Text, owner=Text)
INSERT_DELIVERIES = insert(deliveries).from_select(
    ["id", "event_id", "endpoint_uid", "owner", "state", "reason", "due_ms", "attempts", "ended_ms"],
    select(_deliveries, literal(State.PENDING.value), literal(""), _now, literal(0), null()),
)
# Events and deliveries are written if all ids are new.
ACCEPT = Group.of(REMEMBER, INSERT_EVENTS, INSERT_DELIVERIES, ADD)


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
    first: dict[_Key, _Entry] = {}
    number = 0
    for call in calls:
        for event in call:
            if event.event_id is not None:
                number += 1
                first.setdefault(_key(event), (event.id, event.digest))
    written = partial(_parameters, owner=owner, slot=slot, now=now)
    insertions = len(run_group(connection, ACCEPT, {**written(calls), **_ids(first, now), "number": number}))
    if insertions == number:
        return [_answer(call, _ALL_NEW, now) for call in calls]
    originals = _known(connection, first) if insertions < len(first) else {}
    comparisons = _compare(calls, originals)
    if any(comparison.conflicts for comparison in comparisons):
        _correct(connection, first, originals, now=now)
    new = [comparison.new(call) for call, comparison in zip(calls, comparisons, strict=True)]
    if any(event.deliveries or event.kept for call in new for event in call):
        run_all(connection, ACCEPT.others, written(new))
    return [_answer(events, comparison, now) for events, comparison in zip(new, comparisons, strict=True)]


def _answer(new: Sequence[NewEvent], comparison: "Comparison", now: int) -> Accepted:
    deliveries = sum([len(event.deliveries) for event in new])
    return Accepted(len(new), deliveries, comparison.duplicate_of, now, comparison.conflicts)


class Comparison(NamedTuple):
    """The result of the comparison of one call's ids with all ids that were accepted before.

    Attributes:
        duplicate_of: by id of each repeated event, the id of the event that was accepted.
        conflicts: ids of the events whose ``event_id`` was accepted with other content; then the call is refused.
    """

    duplicate_of: Mapping[str, str]
    conflicts: frozenset[str]

    def new(self, call: Sequence[NewEvent]) -> Sequence[NewEvent]:
        """Return the events of the call that are to be written."""
        if self.conflicts:
            return ()
        return [event for event in call if event.id not in self.duplicate_of] if self.duplicate_of else call


_ALL_NEW: Final = Comparison({}, frozenset())
_Key = tuple[str, str, str]
_Entry = tuple[str, int | None]
"""An event whose id was accepted: its message id and its digest."""


def _key(event: NewEvent) -> _Key:
    # The next Project of a name begins without ids: its events are no repetitions of those of its predecessor.
    return event.namespace, event.project_uid, event.event_id or ""


def _ids(ids: Mapping[_Key, _Entry], now: int) -> dict[str, object]:
    # Sorted by id, because two transactions that lock rows in the same order cannot deadlock.
    packed_ids = packed([(*key, *ids[key]) for key in sorted(ids)])
    return {"rows": packed_ids, "now": now, "since": now - DEDUPE_WINDOW_MS}


def _known(connection: Connection, first: Mapping[_Key, _Entry]) -> dict[_Key, _Entry]:
    """Return the ids that earlier transactions accepted."""
    keys = {message_id: key for key, (message_id, _) in first.items()}
    repetitions = run(connection, REPETITIONS, _ids(first, 0))
    return {keys[own_id]: (message_id, digest) for own_id, message_id, digest in repetitions}


def _compare(calls: Sequence[Sequence[NewEvent]], originals: dict[_Key, _Entry]) -> list[Comparison]:
    """Compare each call, and add the ids of the accepted calls to those that are known."""
    comparisons = []
    for call in calls:
        additions: dict[_Key, _Entry] = {}
        duplicate_of, conflicts = {}, set()
        for event in call:
            if event.event_id is None:
                continue
            key = _key(event)
            original = originals.get(key) or additions.get(key)
            if original is None:
                additions[key] = (event.id, event.digest)
            elif original[1] != event.digest:
                conflicts.add(event.id)
            else:
                duplicate_of[event.id] = original[0]
        if not conflicts:
            originals.update(additions)
        comparisons.append(Comparison({} if conflicts else duplicate_of, frozenset(conflicts)))
    return comparisons


def _correct(
    connection: Connection, first: Mapping[_Key, _Entry], originals: Mapping[_Key, _Entry], *, now: int
) -> None:
    """Remove the ids of refused calls, and insert the id of the accepted call that has the same one."""
    wrong = {key: original for key, original in first.items() if originals.get(key) != original}
    run(connection, FORGET, _ids(wrong, now))
    list(run(connection, REMEMBER, _ids({key: originals[key] for key in wrong if key in originals}, now)))


def _parameters(calls: Sequence[Sequence[NewEvent]], *, owner: str, slot: int, now: int) -> dict[str, object]:
    new = [event for call in calls for event in call if event.deliveries or event.kept]
    delivery_rows = [
        (delivery.id, event.id, delivery.endpoint_uid, owner if delivery.claimed else None)
        for event in new
        for delivery in event.deliveries
    ]
    return {**_events_written(new), **_deliveries_written(delivery_rows, slot), "now": now}


def write_events(connection: Connection, new: Sequence[NewEvent], *, now: int) -> None:
    """Write events without their deliveries.

    Args:
        connection: in a transaction.
        new: the events.
        now: the time of acceptance.
    """
    run(connection, INSERT_EVENTS, {**_events_written(new), "now": now})


def _events_written(new: Sequence[NewEvent]) -> dict[str, object]:
    # Each row has the start and length of its body in the concatenated bodies.
    event_rows = []
    start = 1
    for event in new:
        length = len(event.body)
        identity = (event.id, event.namespace, event.project, event.type)
        event_rows.append(
            (*identity, len(event.deliveries), *_digests(event), event.trace, event.attributes, start, length)
        )
        start += length
    return {"event_rows": packed(event_rows), "bodies": b"".join([event.body for event in new])}


def _digests(event: NewEvent) -> tuple[int | None, int | None]:
    """Return the digests of the producer's messageId and event id; a CloudEvent is searched without its source."""
    of_message = id_digest(event.namespace, event.message_id) if event.message_id else None
    if event.event_id is None:
        return of_message, None
    return of_message, id_digest(event.namespace, event.event_id.rpartition(SOURCE_END)[2])


def write_deliveries(connection: Connection, delivery_rows: Sequence[_DeliveryRow], *, slot: int, now: int) -> None:
    """Write pending deliveries, due now, and count them.

    Args:
        connection: in a transaction.
        delivery_rows: id, event, endpoint and owner of each delivery; the owner is None if it is not claimed.
        slot: the slot of this replica's counters.
        now: the time at which they are due.
    """
    run_all(connection, (INSERT_DELIVERIES, ADD), {**_deliveries_written(delivery_rows, slot), "now": now})


def _deliveries_written(delivery_rows: Sequence[_DeliveryRow], slot: int) -> dict[str, object]:
    numbers = Counter([row[2] for row in delivery_rows])
    return {"delivery_rows": packed(delivery_rows), **added([Change(uid, n) for uid, n in numbers.items()], slot)}
