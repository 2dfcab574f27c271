"""Queries of the store: counters, due times, the delivery log.

Sync functions on a connection.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from pydantic_core import from_json, to_json
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    LargeBinary,
    Row,
    Select,
    Subquery,
    Text,
    bindparam,
    cast,
    func,
    select,
)

from hookwright_operator.store.records import TEST_REASON, Attempt, Counts, DeliveryRecord, State
from hookwright_operator.store.schema import attempts, counters, deliveries, events, is_failed, is_pending
from hookwright_operator.store.sql.claim import claimable
from hookwright_operator.store.sql.counters import BUSY, SUMS, pending
from hookwright_operator.store.sql.paging import AFTER_ALL, Found, RowBudget, search, stretch_of
from hookwright_operator.store.sql.rows import packed_column, rows
from hookwright_operator.store.sql.statements import run

PAGE_ATTEMPTS: Final = 20
"""Attempts of each delivery that a page of the log shows, the newest ones. The default schedule makes 6 attempts."""
PAGE_BYTES: Final = 2 * 1024 * 1024
"""Size of the attempts on one page, as JSON. A page with larger ones ends early, but has at least one delivery."""
SHOWN_OF_ONE: Final = 100
"""Attempts that the record of a single delivery shows, the newest ones."""
BYTES_OF_ONE: Final = 512 * 1024
"""Size of the attempts of a single delivery, as JSON. Older attempts that do not fit are not shown."""
HEAD_BYTES: Final = 2048
"""Bytes of an event's body that a row of the log reads; the type and the messageId come first, and always fit."""
RECIPIENT_FIELDS: Final = ("recipient", "to")
"""Fields of a payload that name the recipient; the first one counts that is a text."""
_DELIVERIES_AT_ONCE: Final = 50
"""Deliveries whose attempts one statement reads."""


def _next_due(busy: Subquery) -> Select[str, int | None]:
    """Build a query that reads one row of the claim index for each endpoint with pending deliveries."""
    earliest = (
        select(deliveries.c.due_ms)
        .where(deliveries.c.endpoint_uid == busy.c.endpoint_uid, is_pending, claimable())
        .order_by(deliveries.c.due_ms, deliveries.c.id)
        .limit(1)
        .scalar_subquery()
    )
    return select(busy.c.endpoint_uid, earliest)


_uids = rows(uid=Text)
NEXT_DUE = _next_due(BUSY.subquery("busy"))
_of_uids = counters.c.endpoint_uid.in_(select(_uids.c.uid))
NEXT_DUE_OF = _next_due(BUSY.where(_of_uids).subquery("busy"))
PENDING_OF = select(cast(pending, BigInteger)).where(_of_uids)
SUMS_OF = SUMS.where(_of_uids)
NAMESPACES_OF = select(
    _uids.c.uid,
    select(events.c.namespace)
    .join(deliveries, deliveries.c.event_id == events.c.id)
    .where(deliveries.c.endpoint_uid == _uids.c.uid, is_pending)
    .limit(1)
    .scalar_subquery(),
)

head = func.substr(events.c.body, 1, HEAD_BYTES, type_=LargeBinary)
_records = select(
    deliveries.c.id,
    deliveries.c.event_id,
    events.c.type,
    deliveries.c.endpoint_uid,
    deliveries.c.state,
    deliveries.c.reason,
    events.c.accepted_ms,
    deliveries.c.due_ms,
    head,
).join(events, events.c.id == deliveries.c.event_id)

_ids = rows(id=Text)
_PAGE = _records.where(deliveries.c.id.in_(select(_ids.c.id))).order_by(deliveries.c.id.desc())


def _newest_attempts(*columns: Column[str] | Column[int] | Column[str | None]) -> Select[*tuple[Any, ...]]:
    """Build the query for the newest attempts of deliveries, at most ``most`` of each."""
    # An attempt has the next number of its delivery, so the numbers of the newest ones have no gaps.
    siblings = attempts.alias("numbered")
    last = select(func.max(siblings.c.number)).where(siblings.c.delivery_id == _ids.c.id).correlate(_ids)
    newest = attempts.c.number > last.scalar_subquery() - bindparam("most", type_=Integer)
    return select(*columns).select_from(_ids.join(attempts, (attempts.c.delivery_id == _ids.c.id) & newest))


# A page does not show the columns after these.
ATTEMPTS_OF_PAGE = _newest_attempts(*list(attempts.c)[: attempts.c.keys().index("response") + 1])
ATTEMPTS_OF_ONE = _newest_attempts(*attempts.c)

_of_endpoint = (
    deliveries.c.endpoint_uid == bindparam("endpoint", type_=Text),
    deliveries.c.id >= bindparam("begin", type_=Text),
    deliveries.c.id < bindparam("end", type_=Text),
)
_newest = select(deliveries.c.id).order_by(deliveries.c.id.desc()).limit(bindparam("count", type_=Integer))
NEWEST: Final = {None: _newest.where(*_of_endpoint), State.FAILED: _newest.where(*_of_endpoint, is_failed)}
"""The queries for an endpoint's newest deliveries; the other states have no index."""
STRETCH = stretch_of(*_of_endpoint)
IN_STATE = _newest.where(*_of_endpoint, deliveries.c.state == bindparam("state", type_=Text))


def counts(connection: Connection, uids: Sequence[str] | None = None) -> dict[str, Counts]:
    """Return the counters by endpoint uid, for each endpoint that has ever had a delivery; None means all of them.

    A deleted endpoint has counters until its last delivery is pruned.
    """
    query, parameters = (SUMS, {}) if uids is None else (SUMS_OF, {"rows": packed_column(uids)})
    return {row[0]: Counts(*row[1:]) for row in connection.execute(query, parameters)}


def counts_of(connection: Connection, endpoint_uid: str) -> Counts:
    """Return one endpoint's counters, zeros if it has never had a delivery."""
    row = connection.execute(SUMS.where(counters.c.endpoint_uid == endpoint_uid)).one_or_none()
    return Counts(*row[1:]) if row else Counts()


def pending_of(connection: Connection, uids: Sequence[str]) -> int:
    """Return how many pending deliveries endpoints have together."""
    return connection.scalar(PENDING_OF, {"rows": packed_column(uids)}) or 0


def pending_uids(connection: Connection) -> frozenset[str]:
    """Return the endpoints that have pending deliveries."""
    return frozenset(connection.scalars(BUSY))


def namespaces_of(connection: Connection, uids: Sequence[str]) -> dict[str, str | None]:
    """Return by endpoint uid the namespace of its pending deliveries, None without any."""
    return {row[0]: row[1] for row in connection.execute(NAMESPACES_OF, {"rows": packed_column(uids)})}


def next_due(connection: Connection, uids: Sequence[str] | None, *, owner: str, now: int) -> dict[str, int]:
    """Return by endpoint uid when its earliest unclaimed delivery is due, in the past or the future."""
    query, parameters = (NEXT_DUE, {}) if uids is None else (NEXT_DUE_OF, {"rows": packed_column(uids)})
    due_times = connection.execute(query, {"me": owner, "now": now, **parameters})
    return {uid: due_ms for uid, due_ms in due_times if due_ms is not None}


def log(
    connection: Connection, endpoint_uid: str, *, state: State | None = None, limit: int = 50, cursor: str | None = None
) -> tuple[list[DeliveryRecord], str | None]:
    """Return one page of an endpoint's delivery log, and the cursor of the next page if there may be one.

    A page has less than ``limit`` deliveries, or none, if the read had to examine too many rows of other deliveries. It
    also ends before attempts that do not fit into `PAGE_BYTES`. A page of one state has no tests.

    Args:
        connection: a connection that can read.
        endpoint_uid: the endpoint.
        state: only deliveries in this state.
        limit: how many deliveries at most.
        cursor: the cursor that an earlier page returned, None for the first page.
    """
    before, budget = cursor or AFTER_ALL, RowBudget()
    ids, position = newest(connection, endpoint_uid, state, limit=limit + 1, before=before, budget=budget)
    # A test is stored as discarded. On PostgreSQL a delivery of the first query may have changed, or may be deleted.
    page, ended_at = records(connection, ids[:limit])
    matches = [record for record in page if state in {None, record.state}]
    return matches, ended_at or (ids[limit - 1] if len(ids) > limit else position)


def records(connection: Connection, ids: Sequence[str]) -> tuple[list[DeliveryRecord], str | None]:
    """Return the deliveries that still exist, the newest first, with their newest attempts.

    Returns:
        The deliveries, and the id of the last one if the attempts of the next one exceed `PAGE_BYTES`, None otherwise.
    """
    existing = connection.execute(_PAGE, {"rows": packed_column(ids)}).all()
    page: list[DeliveryRecord] = []
    room = PAGE_BYTES
    for begin in range(0, len(existing), _DELIVERIES_AT_ONCE):
        part = existing[begin : begin + _DELIVERIES_AT_ONCE]
        attempts = _attempts(connection, ATTEMPTS_OF_PAGE, [row.id for row in part], limit=PAGE_ATTEMPTS)
        for row in part:
            room -= sum(map(_size, attempts[row.id]))
            if page and room < 0:
                return page, page[-1].id
            page.append(_record(row, attempts[row.id]))
    return page, None


def newest(
    connection: Connection,
    endpoint_uid: str,
    state: State | None,
    *,
    limit: int,
    before: str,
    budget: RowBudget,
    begin: str = "",
) -> Found:
    """Find an endpoint's newest deliveries of a range of ids, in a state if one is given.

    Args:
        connection: a connection that can read.
        endpoint_uid: the endpoint.
        state: the state, or None for all states.
        limit: how many ids to find at most.
        before: the range ends below this id.
        budget: reduced by the rows examined, if no index has only the rows of the state.
        begin: the range begins at this id.
    """
    within = {"endpoint": endpoint_uid, "begin": begin, "end": before}
    if state in NEWEST:
        ids = [delivery_id for (delivery_id,) in run(connection, NEWEST[state], {**within, "count": limit})]
        return Found(ids, None)
    return search(connection, STRETCH, IN_STATE, {**within, "state": str(state)}, limit=limit, budget=budget)


def delivery(connection: Connection, delivery_id: str) -> DeliveryRecord | None:
    """Return one delivery with its newest attempts, or None if the id is unknown."""
    row = connection.execute(_records.where(deliveries.c.id == delivery_id)).one_or_none()
    if row is None:
        return None
    attempts = _attempts(connection, ATTEMPTS_OF_ONE, [delivery_id], limit=SHOWN_OF_ONE)[delivery_id]
    return _record(row, _fitting(attempts))


def _attempts(
    connection: Connection, statement: Select[*tuple[Any, ...]], ids: Sequence[str], *, limit: int
) -> defaultdict[str, list[Attempt]]:
    """Return the newest attempts of deliveries, the oldest of them first."""
    attempts: defaultdict[str, list[Attempt]] = defaultdict(list)
    for delivery_id, *attempt in run(connection, statement, {"rows": packed_column(ids), "most": limit}):
        attempts[delivery_id].append(Attempt(*attempt))
    for series in attempts.values():
        series.sort(key=lambda attempt: attempt.number)
    return attempts


def _fitting(attempts: Sequence[Attempt]) -> Sequence[Attempt]:
    """Return the newest attempts that fit into `BYTES_OF_ONE`, at least one."""
    room = BYTES_OF_ONE
    for place in range(len(attempts) - 1, -1, -1):
        room -= _size(attempts[place])
        if room < 0:
            return attempts[min(place + 1, len(attempts) - 1) :]
    return attempts


def _size(attempt: Attempt) -> int:
    """Return the bytes of an attempt as JSON: a control character of a response takes six."""
    return len(to_json(attempt))


def _record(row: Row[*tuple[Any, ...]], attempts: Sequence[Attempt]) -> DeliveryRecord:
    id_, event_id, event_type, uid, state, reason, accepted_ms, due_ms, begin = row
    state = shown(State(state), reason, attempts)
    ids = ids_in(begin)
    return DeliveryRecord(id_, event_id, event_type, uid, state, reason, accepted_ms, due_ms, *ids, tuple(attempts))


def ids_in(begin: bytes) -> tuple[str, str | None]:
    """Return the messageId and the recipient in the first `HEAD_BYTES` of a body; None if they have no recipient."""
    try:
        fields = from_json(begin, allow_partial=True)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        return "", None
    recipients = (fields.get(name) for name in RECIPIENT_FIELDS)
    return fields.get("messageId", ""), next((text for text in recipients if isinstance(text, str)), None)


def shown(state: State, reason: str, attempts: Sequence[Attempt]) -> State:
    """Return the state of a delivery for readers: of a test, the result of its attempt."""
    if state is not State.DISCARDED or reason != TEST_REASON:
        return state
    return State.DELIVERED if attempts and not attempts[-1].error else State.FAILED
