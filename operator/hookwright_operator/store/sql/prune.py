"""Statements that discard pending deliveries and prune old rows, a limited number of rows at a time.

Sync functions on a connection. The caller begins and ends the transaction.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Select,
    Text,
    bindparam,
    delete,
    exists,
    func,
    null,
    select,
    tuple_,
    update,
)

from hookwright_operator.store.records import State
from hookwright_operator.store.schema import (
    attempts,
    counters,
    deliveries,
    event_ids,
    events,
    fan_outs,
    gone_endpoints,
    is_done,
    is_failed,
    is_pending,
    kept_events,
    replays,
)
from hookwright_operator.store.sql import kept_events as kept
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


DONE = _ended(is_done)
FAILED = _ended(is_failed)

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
    ~exists().where(kept_events.c.event_id == events.c.id),
)

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
_NEWEST_FAN_OUT = select(func.max(fan_outs.c.id))
_OLDEST_FAN_OUT = select(func.min(fan_outs.c.id))
_uids = rows(uid=Text)
_of_gone = deliveries.c.endpoint_uid == _uids.c.uid
FORGETTABLE = select(_uids.c.uid).where(~exists().where(_of_gone))


class EndedDelivery(NamedTuple):
    """A delivery that has ended."""

    id: str
    event_id: str


class GoneCursor(NamedTuple):
    """The position of `forget` among the deleted endpoints; the caller passes it to the next call.

    Attributes:
        after: the last endpoint that was examined; empty: begin with the first one.
        waiting: endpoints without deliveries that a fan-out may still write deliveries for.
        newest_fan_out: the newest fan-out that was open when these endpoints were examined.
    """

    after: str = ""
    waiting: tuple[str, ...] = ()
    newest_fan_out: str = ""


def discard(
    connection: Connection,
    endpoint_uid: str,
    reason: str,
    *,
    limit: int,
    slot: int,
    now: int,
    deleted: bool = True,
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
        deleted: whether the endpoint is deleted. Then deliveries that an open fan-out writes later are discarded too.
    """
    if deleted:
        connection.execute(_REMEMBER_GONE, {"endpoint": endpoint_uid})
    replay.cancel(connection, endpoint_uid, now=now)
    discarded = connection.execute(
        DISCARD, {"endpoint": endpoint_uid, "why": reason, "count": limit, "now": now}
    ).rowcount
    if discarded:
        add_counts(connection, slot, [Change(endpoint_uid, discarded=discarded)])
    return discarded


def prune(
    connection: Connection,
    *,
    delivered_before_ms: int,
    failed_before_ms: int,
    accepted_before_ms: int,
    gone: GoneCursor,
    limit: int,
) -> tuple[int, GoneCursor]:
    """Remove old rows up to a limit; return how many rows were removed, and the next position of `forget`.

    If fewer deliveries than the limit are removed, rows of deleted endpoints without deliveries are removed too.

    Args:
        connection: in a transaction.
        delivered_before_ms: delivered and discarded deliveries that ended before this time are removed, and events
            without subscribers that were accepted before it.
        failed_before_ms: failed deliveries and replays that ended before this time are removed.
        accepted_before_ms: producers' event ids that were accepted at this time or before are removed.
        gone: the position of `forget`.
        limit: how many deliveries of each sort and how many ids to remove, and deleted endpoints to examine, at most.
    """
    ended = _old(connection, DONE, before_ms=delivered_before_ms, limit=limit)
    ended += _old(connection, FAILED, before_ms=failed_before_ms, limit=limit)
    removed = _remove(connection, ended) if ended else 0
    removed += connection.execute(DROP_EVENT_IDS, {"before": accepted_before_ms, "count": limit}).rowcount
    removed += connection.execute(_OLD_REPLAYS, {"before": failed_before_ms}).rowcount
    removed += kept.forget(connection, before_ms=delivered_before_ms, limit=limit)
    if len(ended) < limit:
        forgotten, gone = forget(connection, gone, limit=limit)
        removed += forgotten
    return removed, gone


def forget(connection: Connection, cursor: GoneCursor, *, limit: int) -> tuple[int, GoneCursor]:
    """Remove the rows of the next deleted endpoints that have no delivery any more.

    A fan-out may write deliveries for deleted endpoints, and their rows in ``gone_endpoints`` cause it to discard these
    deliveries. So if a fan-out is open, these endpoints wait for later calls, until the fan-outs that are open now have
    ended. Newer fan-outs do not delay them, because an accepted event has no delivery for a deleted endpoint.

    Returns:
        How many rows were removed, and the next position. After the last endpoint, this is the first one again.
    """
    if cursor.waiting:
        oldest = connection.scalar(_OLDEST_FAN_OUT)
        if oldest is not None and oldest <= cursor.newest_fan_out:
            return 0, cursor
        return _forget_these(connection, _without_deliveries(connection, cursor.waiting)), GoneCursor(cursor.after)
    examined = connection.scalars(NEXT_GONE, {"after": cursor.after, "count": limit}).all()
    after = examined[-1] if len(examined) == limit else ""
    # Read before the deliveries: on PostgreSQL a fan-out may end between the two statements.
    newest = connection.scalar(_NEWEST_FAN_OUT)
    uids = _without_deliveries(connection, examined)
    if uids and newest is not None:
        return 0, GoneCursor(after, tuple(uids), newest)
    return _forget_these(connection, uids), GoneCursor(after)


def _without_deliveries(connection: Connection, uids: Sequence[str]) -> Sequence[str]:
    return connection.scalars(FORGETTABLE, {"rows": packed_column(uids)}).all() if uids else ()


def _forget_these(connection: Connection, uids: Sequence[str]) -> int:
    if not uids:
        return 0
    which = {"rows": packed_column(uids)}
    return sum(
        connection.execute(delete(table).where(table.c.endpoint_uid.in_(select(_uids.c.uid))), which).rowcount
        for table in (counters, replays, gone_endpoints)
    )


def _old(connection: Connection, query: Select[str, str], *, before_ms: int, limit: int) -> list[EndedDelivery]:
    return [EndedDelivery(*row) for row in connection.execute(query, {"before": before_ms, "count": limit})]


def _remove(connection: Connection, ended: Sequence[EndedDelivery]) -> int:
    ids = packed_column([one.id for one in ended])
    shares = sorted(Counter([one.event_id for one in ended]).items())
    removed = connection.execute(_DROP_ATTEMPTS, {"rows": ids}).rowcount
    removed += connection.execute(_DROP_DELIVERIES, {"rows": ids}).rowcount
    # Before the others shrink: SQLite writes the whole body again if the number before it changes.
    for number in {share for _, share in shares}:
        which = packed_column([event_id for event_id, share in shares if share == number])
        removed += connection.execute(_DROP_EVENTS, {"rows": which, "removed": number}).rowcount
    connection.execute(_SHRINK_EVENTS, {"rows": packed(shares)})
    # On PostgreSQL another transaction may have removed the other deliveries of an event meanwhile.
    which = packed_column([event_id for event_id, _ in shares])
    return removed + connection.execute(_DROP_EVENTS, {"rows": which, "removed": 0}).rowcount
