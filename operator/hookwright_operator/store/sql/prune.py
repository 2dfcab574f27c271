"""Statements that discard pending deliveries and prune old rows, a limited number of rows at a time.

Sync functions on a connection. The caller begins and ends the transaction.
"""

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Row,
    Select,
    Text,
    bindparam,
    delete,
    exists,
    null,
    select,
    tuple_,
    update,
)

from hookwright_operator.ids import first_event_id
from hookwright_operator.store.records import State
from hookwright_operator.store.schema import (
    attempts,
    counters,
    deliveries,
    event_ids,
    events,
    gone_endpoints,
    is_done,
    is_failed,
    is_pending,
    is_without_deliveries,
    replays,
)
from hookwright_operator.store.sql import replay
from hookwright_operator.store.sql.counters import Change, add_counts
from hookwright_operator.store.sql.dialect import insert
from hookwright_operator.store.sql.rows import packed, packed_column, rows

_before = bindparam("before", type_=BigInteger)
_limit = bindparam("count", type_=Integer)

_pending = (
    select(deliveries.c.id)
    .where(deliveries.c.endpoint_uid == bindparam("endpoint"), is_pending)
    .limit(_limit)
    .with_for_update(key_share=True)
)
DISCARD = (
    update(deliveries)
    .values(
        state=State.DISCARDED.value,
        reason=bindparam("why", type_=Text),
        owner=null(),
        ended_ms=bindparam("now", type_=BigInteger),
    )
    .where(deliveries.c.id.in_(_pending))
)


def _ended(condition: ColumnElement[bool]) -> Select[str, str]:
    return (
        select(deliveries.c.id, deliveries.c.event_id)
        .where(condition, deliveries.c.ended_ms < _before)
        .order_by(deliveries.c.ended_ms)
        .limit(_limit)
        .with_for_update(skip_locked=True)
    )


OLD_DONE = _ended(is_done)
OLD_FAILED = _ended(is_failed)

_ids = rows(id=Text)
_DROP_ATTEMPTS = delete(attempts).where(attempts.c.delivery_id.in_(select(_ids.c.id)))
_DROP_DELIVERIES = delete(deliveries).where(deliveries.c.id.in_(select(_ids.c.id)))
_shares = rows(id=Text, removed=Integer)
_SHRINK_EVENTS = (
    update(events).values(deliveries=events.c.deliveries - _shares.c.removed).where(events.c.id == _shares.c.id)
)
_DROP_EVENTS = delete(events).where(
    events.c.id.in_(select(_ids.c.id)),
    events.c.deliveries <= bindparam("removed", type_=Integer),
)

_unsent = (
    select(events.c.id)
    .where(is_without_deliveries, events.c.id < bindparam("before", type_=Text))
    .order_by(events.c.id)
    .limit(_limit)
    .with_for_update(skip_locked=True)
)
DROP_UNSENT = delete(events).where(events.c.id.in_(_unsent))

_key = (event_ids.c.namespace, event_ids.c.project, event_ids.c.event_id)
_old_keys = (
    select(*_key)
    .where(event_ids.c.accepted_ms <= _before)
    .order_by(event_ids.c.accepted_ms)
    .limit(_limit)
    .with_for_update(skip_locked=True)
)
DROP_EVENT_IDS = delete(event_ids).where(tuple_(*_key).in_(_old_keys))

_OLD_REPLAYS = delete(replays).where(replays.c.ended_ms < _before)
_REMEMBER_GONE = insert(gone_endpoints).values(endpoint_uid=bindparam("endpoint", type_=Text)).on_conflict_do_nothing()
NEXT_GONE = (
    select(gone_endpoints.c.endpoint_uid)
    .where(gone_endpoints.c.endpoint_uid > bindparam("after", type_=Text))
    .order_by(gone_endpoints.c.endpoint_uid)
    .limit(_limit)
)
_uids = rows(uid=Text)
_of_gone = deliveries.c.endpoint_uid == _uids.c.uid
FORGETTABLE = select(_uids.c.uid).where(~exists().where(_of_gone))


def discard(
    connection: Connection,
    endpoint_uid: str,
    reason: str,
    *,
    limit: int,
    slot: int,
    now: int,
    is_deleted: bool = True,
) -> int:
    """Discard pending deliveries of an endpoint, up to a limit, and return how many were discarded.

    Claimed deliveries are discarded too, and a running replay of the endpoint ends.

    Args:
        connection: in a transaction.
        endpoint_uid: the endpoint.
        reason: the reason in the delivery log.
        limit: how many to discard at most.
        slot: the slot of this replica's counters.
        now: when the deliveries end.
        is_deleted: whether the endpoint is deleted. Then its counters are removed with its last delivery.
    """
    if is_deleted:
        connection.execute(_REMEMBER_GONE, {"endpoint": endpoint_uid})
    replay.cancel(connection, replays.c.endpoint_uid == endpoint_uid, now=now)
    number = connection.execute(DISCARD, {"endpoint": endpoint_uid, "why": reason, "count": limit, "now": now}).rowcount
    if number:
        add_counts(connection, slot, [Change(endpoint_uid, discarded=number)])
    return number


def prune(
    connection: Connection,
    *,
    delivered_before_ms: int,
    failed_before_ms: int,
    accepted_before_ms: int,
    after: str,
    limit: int,
) -> tuple[int, str]:
    """Remove old rows up to a limit; return how many rows were removed, and the next ``after``.

    If fewer deliveries than the limit are removed, rows of deleted endpoints without deliveries are removed too.

    Args:
        connection: in a transaction.
        delivered_before_ms: delivered and discarded deliveries that ended before this time are removed, and events
            without subscribers that were accepted before it.
        failed_before_ms: failed deliveries and replays that ended before this time are removed.
        accepted_before_ms: producers' event ids that were accepted at this time or before are removed.
        after: the last deleted endpoint that was examined; empty: begin with the first one.
        limit: how many deliveries of each sort and how many ids to remove, and deleted endpoints to examine, at most.
    """
    old_deliveries = [
        delivery
        for query, before_ms in ((OLD_DONE, delivered_before_ms), (OLD_FAILED, failed_before_ms))
        for delivery in connection.execute(query, {"before": before_ms, "count": limit})
    ]
    total = _remove(connection, old_deliveries) if old_deliveries else 0
    total += connection.execute(DROP_EVENT_IDS, {"before": accepted_before_ms, "count": limit}).rowcount
    total += connection.execute(_OLD_REPLAYS, {"before": failed_before_ms}).rowcount
    unsent = {"before": first_event_id(delivered_before_ms), "count": limit}
    total += connection.execute(DROP_UNSENT, unsent).rowcount
    if len(old_deliveries) < limit:
        number, after = forget(connection, after, limit=limit)
        total += number
    return total, after


def forget(connection: Connection, after: str, *, limit: int) -> tuple[int, str]:
    """Remove the rows of the next deleted endpoints that have no delivery any more.

    Returns:
        How many rows were removed, and the last endpoint that was examined, empty after the last one of all.
    """
    candidates = connection.scalars(NEXT_GONE, {"after": after, "count": limit}).all()
    uids = connection.scalars(FORGETTABLE, {"rows": packed_column(candidates)}).all()
    parameters = {"rows": packed_column(uids)}
    total = sum(
        connection.execute(delete(table).where(table.c.endpoint_uid.in_(select(_uids.c.uid))), parameters).rowcount
        for table in (counters, replays, gone_endpoints)
    )
    return total, candidates[-1] if len(candidates) == limit else ""


def _remove(connection: Connection, old_deliveries: Sequence[Row[str, str]]) -> int:
    ids = packed_column([delivery.id for delivery in old_deliveries])
    shares = sorted(Counter([delivery.event_id for delivery in old_deliveries]).items())
    total = connection.execute(_DROP_ATTEMPTS, {"rows": ids}).rowcount
    total += connection.execute(_DROP_DELIVERIES, {"rows": ids}).rowcount
    # Before the others shrink: SQLite writes the whole body again if the number before it changes.
    for number in {share for _, share in shares}:
        packed_ids = packed_column([event_id for event_id, share in shares if share == number])
        total += connection.execute(_DROP_EVENTS, {"rows": packed_ids, "removed": number}).rowcount
    connection.execute(_SHRINK_EVENTS, {"rows": packed(shares)})
    # On PostgreSQL another transaction may have removed the other deliveries of an event meanwhile.
    packed_ids = packed_column([event_id for event_id, _ in shares])
    return total + connection.execute(_DROP_EVENTS, {"rows": packed_ids, "removed": 0}).rowcount
