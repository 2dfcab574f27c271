"""Searches of the deliveries of several endpoints, the newest first, and reads of one event.

A search has a source of ids and conditions. The source is the most selective one for the search: the deliveries of a
few events, the log of one endpoint, an index by state of a few endpoints, or all deliveries. The conditions
that the source does not cover are checked afterwards. Both have a limit on the rows that one page examines, so a page
may be short or empty, see `paging`.

A producer can give one id to any number of events. If more than `LISTED` events have an id of the search, the events
are not listed. The search then uses another source, and checks the event of each delivery.

Sync functions on a connection.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol

from sqlalchemy import (
    Connection,
    Integer,
    Text,
    bindparam,
    or_,
    select,
)

from hookwright_operator.ids import first_delivery_id
from hookwright_operator.store.records import DeliveryRecord, EventRecord, Search
from hookwright_operator.store.schema import attempts, deliveries, events
from hookwright_operator.store.sql import event_deliveries, message_index, read
from hookwright_operator.store.sql.paging import AFTER_ALL, ROWS, Found, RowBudget, search, stretch_of, up_to
from hookwright_operator.store.sql.rows import among, packed_column, rows
from hookwright_operator.store.sql.statements import run

CHECKED_AT_ONCE: Final = 200
CHECKED: Final = 1_000
"""Deliveries of which one page checks the conditions that its source does not cover."""
LISTED: Final = 1_000
"""Events with one id that a search lists; with more events the page checks each delivery's event."""
LINES_A_CHECK: Final = 50
"""Lines of the index of ids that cost as much as the check of one delivery."""
WALKED: Final = 10_000
"""Rows that one page examines if no index fits."""
MERGED: Final = 25
"""Endpoints whose logs one page merges; with more endpoints the page examines all deliveries."""
_TIME: Final = len("dlv_") + 10
"""How many characters the ids of one millisecond have in common."""

_begin, _end = bindparam("begin", type_=Text), bindparam("end", type_=Text)
_count = bindparam("count", type_=Integer)
_uids = rows("uids", uid=Text)
_ids = rows(id=Text)
_in_range = (deliveries.c.id >= _begin, deliveries.c.id < _end)
_of_endpoints = among(deliveries.c.endpoint_uid, _uids)
_type, _code = bindparam("type", type_=Text), bindparam("code", type_=Integer)
_state = bindparam("state", type_=Text)
_in_state = or_(_state.is_(None), deliveries.c.state == _state)
STRETCH = stretch_of(*_in_range)
OF_ENDPOINTS = (
    select(deliveries.c.id).where(*_in_range, _of_endpoints, _in_state).order_by(deliveries.c.id.desc()).limit(_count)
)
OF_EVENTS = (
    select(deliveries.c.id)
    .where(*_in_range, among(deliveries.c.event_id, _ids), _of_endpoints, _in_state)
    .order_by(deliveries.c.id.desc())
    .limit(_count)
)
_latest_code = (
    select(attempts.c.status_code)
    .where(attempts.c.delivery_id == deliveries.c.id)
    .order_by(attempts.c.number.desc())
    .limit(1)
    .scalar_subquery()
)
CHECK = (
    select(deliveries.c.id, deliveries.c.event_id)
    .join(events, events.c.id == deliveries.c.event_id)
    .where(
        deliveries.c.id.in_(select(_ids.c.id)),
        or_(_type.is_(None), events.c.type == _type),
        or_(_code.is_(None), _latest_code == _code),
    )
    .order_by(deliveries.c.id.desc())
)
EVENTS = select(events.c.id, events.c.deliveries).where(
    events.c.id.in_(select(_ids.c.id)), events.c.namespace == bindparam("namespace", type_=Text)
)
EVENT = select(
    events.c.id,
    events.c.namespace,
    events.c.project,
    events.c.type,
    events.c.accepted_ms,
    events.c.deliveries,
    events.c.body,
    events.c.attributes,
).where(events.c.id == bindparam("id", type_=Text))


def page(
    connection: Connection, wanted: Search, *, limit: int, cursor: str | None
) -> tuple[list[DeliveryRecord], str | None]:
    """Return one page of a search, and the cursor of the next page if there may be one."""
    begin, before = _bounds(wanted, cursor)
    by_id = _conditions_by_id(wanted)
    totals = _events(connection, wanted, by_id) if by_id else None
    unlisted = by_id if totals is None else []
    source = _source(connection, wanted, begin, totals)
    covered = wanted.event_type is None and wanted.status_code is None and not unlisted
    found: list[str] = []
    budget = CHECKED
    size = limit + 1 if covered else max(limit + 1, CHECKED_AT_ONCE)
    while True:
        ids, reached = source.newest(before, size)
        meeting, cost = (ids, len(ids)) if covered else _checked(connection, wanted, unlisted, ids)
        found += meeting
        if len(found) > limit:
            following: str | None = found[limit - 1]
            break
        budget -= cost
        following = reached if len(ids) < size else ids[-1]
        if len(ids) < size or covered or budget <= 0:
            break
        before = ids[-1]
    records, ended_at = read.records(connection, found[:limit])
    # On PostgreSQL a delivery of an earlier statement may have changed meanwhile.
    return [one for one in records if wanted.state in {None, one.state}], ended_at or following


def event(connection: Connection, event_id: str) -> EventRecord | None:
    """Return an event with its body, or None if the id is unknown."""
    row = connection.execute(EVENT, {"id": event_id}).one_or_none()
    return EventRecord(*row) if row else None


def deliveries_of(
    connection: Connection, shown: EventRecord, *, endpoint_uids: Sequence[str], limit: int
) -> tuple[list[DeliveryRecord], str | None]:
    """Return the newest deliveries of an event to some endpoints, and the cursor of a search for the others."""
    wanted = Search(endpoint_uids, shown.namespace, event_id=shown.id)
    source = _of_events(connection, wanted, "", {shown.id: shown.deliveries})
    ids, reached = source.newest(AFTER_ALL, limit + 1)
    records, ended_at = read.records(connection, ids[:limit])
    return records, ended_at or (ids[limit - 1] if len(ids) > limit else reached)


def _bounds(wanted: Search, cursor: str | None) -> tuple[str, str]:
    """Return the least id of the search, and an id above its greatest one."""
    begin = "" if wanted.since_ms is None else first_delivery_id(wanted.since_ms)
    end = AFTER_ALL if wanted.until_ms is None else first_delivery_id(wanted.until_ms + 1)
    return begin, min(end, cursor or AFTER_ALL)


class _IdCondition(NamedTuple):
    """A condition on an id of the event.

    Attributes:
        digest: of the producer's id, in the index.
        itself: the id if it may be Hookwright's own.
    """

    digest: str
    itself: frozenset[str]

    def met_by(self, connection: Connection, event_ids: AbstractSet[str]) -> tuple[set[str], int]:
        """Return those of some events that meet it, and how many lines of the index were examined."""
        found, examined = message_index.having(connection, self.digest, event_ids - self.itself)
        return found | (self.itself & event_ids), examined


def _conditions_by_id(wanted: Search) -> list[_IdCondition]:
    found = []
    if wanted.message_id is not None:
        digest = message_index.message_digest(wanted.namespace, wanted.message_id)
        found.append(_IdCondition(digest, frozenset()))
    if wanted.event_id is not None:
        digest = message_index.event_digest(wanted.namespace, wanted.event_id)
        found.append(_IdCondition(digest, frozenset([wanted.event_id])))
    return found


def _checked(
    connection: Connection, wanted: Search, unlisted: Sequence[_IdCondition], ids: Sequence[str]
) -> tuple[list[str], int]:
    """Return the deliveries that meet the conditions which no source covers, and what the check cost."""
    if not ids:
        return [], 0
    which = {"type": wanted.event_type, "code": wanted.status_code}
    events_of = dict(iter(connection.execute(CHECK, {"rows": packed_column(ids), **which})))
    cost = len(ids)
    for condition in unlisted:
        met, examined = condition.met_by(connection, {*events_of.values()})
        events_of = {delivery_id: event_id for delivery_id, event_id in events_of.items() if event_id in met}
        cost += examined // LINES_A_CHECK
    return list(events_of), cost


class _Source(Protocol):
    """A source of the deliveries of a search, except for the conditions that `CHECK` has."""

    def newest(self, before: str, size: int) -> Found:
        """Return the newest ids below an id, at most ``size``."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """All ids of a search, the newest first."""

    ids: Sequence[str]

    def newest(self, before: str, size: int) -> Found:
        return Found([one for one in self.ids if one < before][:size], None)


@dataclass(frozen=True, slots=True)
class _Merged:
    """The logs of a few endpoints."""

    connection: Connection
    wanted: Search
    begin: str
    budget: RowBudget

    def newest(self, before: str, size: int) -> Found:
        read_log = partial(read.newest, self.connection, state=self.wanted.state, budget=self.budget, begin=self.begin)
        logs = [read_log(uid, limit=size, before=before) for uid in self.wanted.endpoint_uids]
        ids = sorted((delivery_id for log in logs for delivery_id in log.ids), reverse=True)[:size]
        reached = max((log.reached for log in logs if log.reached is not None), default=None)
        return Found(ids, None) if reached is None else up_to(ids, reached)


@dataclass(frozen=True, slots=True)
class _All:
    """All deliveries, if no index fits; a page examines a limited number of them."""

    connection: Connection
    wanted: Search
    begin: str
    budget: RowBudget
    event_ids: Sequence[str] | None = None

    def newest(self, before: str, size: int) -> Found:
        within = _parameters(self.wanted, self.begin, before)
        matching = OF_ENDPOINTS
        if self.event_ids is not None:
            matching, within["rows"] = OF_EVENTS, packed_column(self.event_ids)
        ids, reached = search(self.connection, STRETCH, matching, within, limit=size, budget=self.budget)
        return Found(ids, None) if reached is None else up_to(ids, _end_of_millisecond(reached, before))


def _end_of_millisecond(reached: str, end: str) -> str:
    """Return a position at or above an id that does not disclose the id, which may be another tenant's delivery."""
    position = reached[:_TIME].ljust(len(reached), "Z")
    return position if position < end else reached


def _source(connection: Connection, wanted: Search, begin: str, totals: Mapping[str, int] | None) -> _Source:
    """Return the most selective source of a search; ``totals`` has the events that it lists, or is None."""
    if totals is not None:
        return _of_events(connection, wanted, begin, totals)
    if len(wanted.endpoint_uids) <= (MERGED if wanted.state in read.NEWEST else 1):
        return _Merged(connection, wanted, begin, RowBudget())
    return _All(connection, wanted, begin, RowBudget(WALKED))


def _of_events(connection: Connection, wanted: Search, begin: str, totals: Mapping[str, int]) -> _Source:
    """Return the deliveries of events; if they are spread over too many rows, each page examines the newest rows."""
    uids = packed_column(wanted.endpoint_uids)
    found = event_deliveries.find(connection, totals, uids, wanted.state, budget=RowBudget(ROWS))
    if found is not None:
        return _Listed([one for one in found if one >= begin])
    begin = max(begin, event_deliveries.earliest(min(totals)))
    return _All(connection, wanted, begin, RowBudget(ROWS), sorted(totals))


def _parameters(wanted: Search, begin: str, end: str) -> dict[str, str | None]:
    return {"begin": begin, "end": end, "uids": packed_column(wanted.endpoint_uids), "state": wanted.state}


def _events(connection: Connection, wanted: Search, by_id: Sequence[_IdCondition]) -> dict[str, int] | None:
    """Return the events of the namespace that have the ids of the search, and how many deliveries each has.

    None if each of the ids has more than `LISTED` events.
    """
    found = {one: message_index.find(connection, one.digest, most=LISTED) for one in by_id}
    listed = [ids | one.itself for one, ids in found.items() if ids is not None]
    if not listed:
        return None
    event_ids = set.intersection(*listed)
    for one, its_ids in found.items():
        if its_ids is None:
            event_ids, _ = one.met_by(connection, event_ids)
    which = {"rows": packed_column(sorted(event_ids)), "namespace": wanted.namespace}
    # SQLAlchemy's result has a method `keys`, so dict() would take it for a mapping.
    return dict(iter(run(connection, EVENTS, which)))
