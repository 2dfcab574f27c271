"""Searches of the deliveries of several endpoints, the newest first, and reads of one event.

A search has a source of ids and conditions. The source is the most selective one for the search: the deliveries of a
few events, the logs of a few endpoints, or all deliveries. The conditions that the source does not cover are checked
afterwards. Both have a limit on the rows that one page examines, so a page may be short or empty, see `paging`.

A producer can give one id to any number of events. If more than `LISTED_EVENTS` events have an id of the search, or
they have more than `ROWS` deliveries, the search uses another source, and checks the event of each delivery.

Sync functions on a connection.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Final

from sqlalchemy import BigInteger, Connection, Integer, Text, bindparam, func, or_, select

from hookwright_operator.ids import first_delivery_id, id_digest
from hookwright_operator.store.records import DeliveryRecord, EventRecord, Search
from hookwright_operator.store.schema import attempts, deliveries, events
from hookwright_operator.store.sql import read
from hookwright_operator.store.sql.paging import AFTER_ALL, ROWS, Found, RowBudget, search, stretch_of, up_to
from hookwright_operator.store.sql.rows import among, packed_column, rows
from hookwright_operator.store.sql.statements import run

CHECKED_AT_ONCE: Final = 200
CHECKED_ROWS: Final = 1_000
"""Deliveries of which one page checks the conditions that its source does not cover."""
LISTED_EVENTS: Final = 1_000
"""Events with one id that a search lists; with more events the page checks each delivery's event."""
WALKED_ROWS: Final = 10_000
"""Rows that one page examines if no index fits."""
_BYTES_PER_ROW: Final = 8192
"""Bytes of bodies that count as one of these rows, because SQLite reads a whole body for its beginning."""
MERGED_LOGS: Final = 25
"""Endpoints whose logs one page merges; with more endpoints the page examines all deliveries."""
_NO_IDS: Final[dict[str, str | int | None]] = {"message_id": None, "event_id": None, "id": None}
_TIME: Final = len("dlv_") + 10
"""How many characters the ids of one millisecond have in common."""

_begin, _end = bindparam("begin", type_=Text), bindparam("end", type_=Text)
_count = bindparam("count", type_=Integer)
_uids = rows("uids", uid=Text)
_ids = rows(id=Text)
_in_range = (deliveries.c.id >= _begin, deliveries.c.id < _end)
_of_endpoints = among(deliveries.c.endpoint_uid, _uids)
_state = bindparam("state", type_=Text)
_in_state = or_(_state.is_(None), deliveries.c.state == _state)
STRETCH = stretch_of(*_in_range)
OF_ENDPOINTS = (
    select(deliveries.c.id).where(*_in_range, _of_endpoints, _in_state).order_by(deliveries.c.id.desc()).limit(_count)
)
OF_EVENTS = select(deliveries.c.id).where(deliveries.c.event_id.in_(select(_ids.c.id)), _of_endpoints, _in_state)
_latest_code = (
    select(attempts.c.status_code)
    .where(attempts.c.delivery_id == deliveries.c.id)
    .order_by(attempts.c.number.desc())
    .limit(1)
    .scalar_subquery()
)
_type, _code = bindparam("type", type_=Text), bindparam("code", type_=Integer)
_message_id, _event_id = bindparam("message_id", type_=BigInteger), bindparam("event_id", type_=BigInteger)
_id = bindparam("id", type_=Text)
CHECK = (
    select(deliveries.c.id)
    .join(events, events.c.id == deliveries.c.event_id)
    .where(
        deliveries.c.id.in_(select(_ids.c.id)),
        or_(_type.is_(None), events.c.type == _type),
        or_(_code.is_(None), _latest_code == _code),
        or_(_message_id.is_(None), events.c.message_id_digest == _message_id),
        or_(_event_id.is_(None), events.c.event_id_digest == _event_id, events.c.id == _id),
    )
    .order_by(deliveries.c.id.desc())
)
CHECK_WITH_HEAD = CHECK.add_columns(read.head, func.length(events.c.body))
BY_MESSAGE_ID, BY_EVENT_ID, BY_ID = [
    select(events.c.id, events.c.deliveries, events.c.message_id_digest, events.c.event_id_digest)
    .where(condition, events.c.namespace == bindparam("namespace", type_=Text))
    .limit(_count)
    for condition in (
        events.c.message_id_digest == _message_id,
        events.c.event_id_digest == _event_id,
        events.c.id == _id,
    )
]
EVENT = select(*[events.c[field.name] for field in fields(EventRecord)]).where(events.c.id == _id)


def page(
    connection: Connection, query: Search, *, limit: int, cursor: str | None = None
) -> tuple[list[DeliveryRecord], str | None]:
    """Return one page of a search, and the cursor of the next page if there may be one."""
    return _page(connection, query, _events(connection, query), limit=limit, cursor=cursor)


def event(connection: Connection, event_id: str) -> EventRecord | None:
    """Return an event with its body, or None if the id is unknown."""
    row = connection.execute(EVENT, {"id": event_id}).one_or_none()
    return EventRecord(*row) if row else None


def deliveries_of(
    connection: Connection, record: EventRecord, endpoint_uids: Sequence[str], *, limit: int
) -> tuple[list[DeliveryRecord], str | None]:
    """Return the newest deliveries of an event to some endpoints, and the cursor of a search for the others."""
    query = Search(endpoint_uids, record.namespace, event_id=record.id)
    event_ids = [record.id] if record.deliveries <= ROWS else None
    return _page(connection, query, event_ids, limit=limit, cursor=None)


def _page(
    connection: Connection, query: Search, event_ids: Collection[str] | None, *, limit: int, cursor: str | None
) -> tuple[list[DeliveryRecord], str | None]:
    """Return one page; ``event_ids`` are the events of the search, or None if they are not listed."""
    begin, before = _bounds(query, cursor)
    newest = _source(connection, query, begin, event_ids)
    conditions = _conditions(query)
    if event_ids is not None:
        conditions |= _NO_IDS
    is_covered = {*conditions.values(), query.recipient} == {None}
    matching: list[str] = []
    # No index has recipients, and to read one costs less than the other conditions.
    remaining = CHECKED_ROWS if query.recipient is None else WALKED_ROWS
    size = limit + 1 if is_covered else max(limit + 1, CHECKED_AT_ONCE)
    while True:
        ids, position = newest(before, size)
        matches, read_bytes = (ids, 0) if is_covered else _checked(connection, ids, conditions, query.recipient)
        matching += matches
        if len(matching) > limit:
            following: str | None = matching[limit - 1]
            break
        remaining -= len(ids) + read_bytes // _BYTES_PER_ROW
        following = position if len(ids) < size else ids[-1]
        if len(ids) < size or is_covered or remaining <= 0:
            break
        before = ids[-1]
    records, ended_at = read.records(connection, matching[:limit])
    # On PostgreSQL a delivery of an earlier statement may have changed meanwhile.
    return [record for record in records if query.state in {None, record.state}], ended_at or following


def _bounds(query: Search, cursor: str | None) -> tuple[str, str]:
    """Return the least id of the search, and an id above its greatest one."""
    begin = "" if query.since_ms is None else first_delivery_id(query.since_ms)
    end = AFTER_ALL if query.until_ms is None else first_delivery_id(query.until_ms + 1)
    return begin, min(end, cursor or AFTER_ALL)


def _conditions(query: Search) -> dict[str, str | int | None]:
    """Return the parameters of `CHECK`; None is no condition."""
    digests = {
        name: None if text is None else id_digest(query.namespace, text)
        for name, text in (("message_id", query.message_id), ("event_id", query.event_id))
    }
    return {"type": query.event_type, "code": query.status_code, **digests, "id": query.event_id}


def _checked(
    connection: Connection, ids: Sequence[str], conditions: Mapping[str, str | int | None], recipient: str | None
) -> tuple[Sequence[str], int]:
    """Return the deliveries that meet the conditions, the newest first, and the bytes of bodies that were read."""
    if not ids:
        return [], 0
    parameters = {"rows": packed_column(ids), **conditions}
    if recipient is None:
        return [id_ for (id_,) in run(connection, CHECK, parameters)], 0
    name = recipient.casefold()
    rows = [*run(connection, CHECK_WITH_HEAD, parameters)]
    matches = [id_ for id_, begin, _ in rows if (read.ids_in(begin)[1] or "").casefold() == name]
    return matches, sum([length for _, _, length in rows])


def _events(connection: Connection, query: Search) -> Collection[str] | None:
    """Return the events of the namespace that have the ids of the search; None if it has none, or if they are many."""
    conditions = _conditions(query)
    message_id, event_id = conditions["message_id"], conditions["event_id"]
    parameters = {**conditions, "namespace": query.namespace, "count": LISTED_EVENTS + 1}
    for digest, statements in ((message_id, [BY_MESSAGE_ID]), (event_id, [BY_EVENT_ID, BY_ID])):
        if digest is None:
            continue
        rows = [row for statement in statements for row in run(connection, statement, parameters)]
        totals = {
            id_: total
            for id_, total, *digests in rows
            if message_id in {None, digests[0]} and (event_id in {None, digests[1]} or id_ == query.event_id)
        }
        if len(rows) <= LISTED_EVENTS and sum(totals.values()) <= ROWS:
            return totals.keys()
    return None


def _source(
    connection: Connection, query: Search, begin: str, event_ids: Collection[str] | None
) -> Callable[[str, int], Found]:
    """Return a function that finds the newest ids below an id, at most so many; it uses the most selective source."""
    if event_ids is not None:
        return partial(_listed, _of_events(connection, query, begin, event_ids))
    if len(query.endpoint_uids) <= (MERGED_LOGS if query.state in read.NEWEST else 1):
        return partial(_merged, connection, query, begin=begin, budget=RowBudget())
    return partial(_walked, connection, query, begin=begin, budget=RowBudget(WALKED_ROWS))


def _of_events(connection: Connection, query: Search, begin: str, event_ids: Collection[str]) -> list[str]:
    """Return all deliveries of events to the endpoints of a search, the newest first."""
    parameters = {"rows": packed_column(event_ids), "uids": packed_column(query.endpoint_uids), "state": query.state}
    return sorted((id_ for (id_,) in run(connection, OF_EVENTS, parameters) if id_ >= begin), reverse=True)


def _listed(ids: Sequence[str], before: str, size: int) -> Found:
    return Found([delivery_id for delivery_id in ids if delivery_id < before][:size], None)


def _merged(connection: Connection, query: Search, before: str, size: int, *, begin: str, budget: RowBudget) -> Found:
    """Search the logs of a few endpoints."""
    read_log = partial(read.newest, connection, state=query.state, budget=budget, begin=begin)
    logs = [read_log(uid, limit=size, before=before) for uid in query.endpoint_uids]
    ids = sorted((delivery_id for log in logs for delivery_id in log.ids), reverse=True)[:size]
    position = max((log.position for log in logs if log.position is not None), default=None)
    return Found(ids, None) if position is None else up_to(ids, position)


def _walked(connection: Connection, query: Search, before: str, size: int, *, begin: str, budget: RowBudget) -> Found:
    """Search all deliveries, if no index fits; a page examines a limited number of them."""
    within = {"begin": begin, "end": before, "uids": packed_column(query.endpoint_uids), "state": query.state}
    ids, position = search(connection, STRETCH, OF_ENDPOINTS, within, limit=size, budget=budget)
    return Found(ids, None) if position is None else up_to(ids, _end_of_millisecond(position, before))


def _end_of_millisecond(delivery_id: str, end: str) -> str:
    """Return a position at or above an id that does not disclose the id, which may be another tenant's delivery."""
    position = delivery_id[:_TIME].ljust(len(delivery_id), "Z")
    return position if position < end else delivery_id
