"""Replays: all deliveries of an endpoint that failed within a time become pending again, in limited steps.

Sync functions on a connection. The caller begins and ends the transaction.

A step runs only when most of the endpoint's due deliveries are gone. So a new event waits behind one step of old
deliveries at most. If its endpoint cannot keep up, it waits behind none, because no step runs. The replay of a
suspended endpoint waits until the endpoint is active again. A delivery that fails again is due later and delays no
other delivery.
"""

from dataclasses import asdict

from sqlalchemy import (
    BigInteger,
    Connection,
    Integer,
    Row,
    Text,
    bindparam,
    func,
    literal_column,
    select,
    tuple_,
    update,
)

from hookwright_operator.store.records import Replay, ReplayState
from hookwright_operator.store.schema import deliveries, is_failed, is_pending, is_running, recoveries
from hookwright_operator.store.sql.counters import Change, add_counts
from hookwright_operator.store.sql.dialect import insert
from hookwright_operator.store.sql.rows import packed, rows
from hookwright_operator.store.sql.settle import RENEW

_now = bindparam("now", type_=BigInteger)
_uid = bindparam("endpoint", type_=Text)
_count = bindparam("count", type_=Integer)
_until = bindparam("until", type_=BigInteger)
_reached = (bindparam("reached_ms", type_=BigInteger), bindparam("reached_id", type_=Text))

_shown = select(
    recoveries.c.id,
    recoveries.c.endpoint_uid,
    recoveries.c.state,
    recoveries.c.since_ms,
    recoveries.c.until_ms,
    recoveries.c.total,
    recoveries.c.done,
    recoveries.c.begun_ms,
    recoveries.c.ended_ms,
)
_RUNNING_FOR = _shown.where(recoveries.c.endpoint_uid == _uid, is_running)
_RUNNING = _shown.where(is_running)
_ONE = _shown.where(recoveries.c.id == bindparam("id", type_=Text))
_TAKEN_UP = (
    select(recoveries)
    .where(recoveries.c.id == bindparam("id", type_=Text), is_running)
    .with_for_update(skip_locked=True)
)

_BEGIN = insert(recoveries).on_conflict_do_nothing(index_elements=[recoveries.c.endpoint_uid], index_where=is_running)

_failed = (deliveries.c.endpoint_uid == _uid, is_failed, deliveries.c.ended_ms <= _until)
TOTAL = (
    select(func.count())
    .select_from(deliveries)
    .where(*_failed, deliveries.c.ended_ms >= bindparam("since", type_=BigInteger))
)
NEXT = (
    select(deliveries.c.id, deliveries.c.ended_ms)
    .where(*_failed, tuple_(deliveries.c.ended_ms, deliveries.c.id) > tuple_(*_reached))
    .order_by(deliveries.c.ended_ms, deliveries.c.id)
    .limit(_count)
    .with_for_update()
)
DUE = select(func.count()).select_from(
    select(literal_column("1"))
    .where(deliveries.c.endpoint_uid == _uid, is_pending, deliveries.c.due_ms <= _now)
    .limit(_count)
    .subquery("due")
)
_ids = rows(id=Text)
_RENEW_MANY = RENEW.where(deliveries.c.id.in_(select(_ids.c.id)))


def begin(
    connection: Connection, replay_id: str, endpoint_uid: str, *, since_ms: int, until_ms: int | None, now: int
) -> Replay:
    """Begin a replay unless one is running for the endpoint; return the replay that is running afterwards.

    Args:
        connection: in a transaction.
        replay_id: the id of the new replay.
        endpoint_uid: the endpoint of the failed deliveries.
        since_ms: deliveries that failed earlier stay failed.
        until_ms: deliveries that failed later stay failed. Deliveries that fail after the beginning of the replay also
            do.
        now: the time at which it begins.
    """
    until = now if until_ms is None else min(until_ms, now)
    total = connection.scalar(TOTAL, {"endpoint": endpoint_uid, "since": since_ms, "until": until}) or 0
    begun = Replay(replay_id, endpoint_uid, ReplayState.RUNNING, since_ms, until, total, 0, now)
    # The running replay may end between the two statements, and the next replay may begin.
    while not connection.execute(_BEGIN, {**asdict(begun), "reached_ms": since_ms, "reached_id": ""}).rowcount:
        running = connection.execute(_RUNNING_FOR, {"endpoint": endpoint_uid}).one_or_none()
        if running is not None:
            return _replay(running)
    return begun


def advance(connection: Connection, replay_id: str, *, limit: int, slot: int, now: int) -> tuple[int, str]:
    """Make the next failed deliveries pending, oldest failure first.

    Args:
        connection: in a transaction.
        replay_id: the replay; nothing happens unless it is running.
        limit: how many of the endpoint's deliveries may be due afterwards. Nothing happens while more than half as many
            are already due.
        slot: the slot of this replica's counters.
        now: when the deliveries are due.

    Returns:
        How many became pending, and their endpoint's uid.
    """
    job = connection.execute(_TAKEN_UP, {"id": replay_id}).one_or_none()
    if job is None:
        return 0, ""
    due = connection.scalar(DUE, {"endpoint": job.endpoint_uid, "now": now, "count": limit}) or 0
    if due * 2 > limit:
        return 0, job.endpoint_uid
    position = {"until": job.until_ms, "reached_ms": job.reached_ms, "reached_id": job.reached_id}
    batch = connection.execute(NEXT, {"endpoint": job.endpoint_uid, "count": limit - due, **position}).all()
    if batch:
        connection.execute(_RENEW_MANY, {"rows": packed([(row.id,) for row in batch]), "now": now})
        add_counts(connection, slot, [Change(job.endpoint_uid, failed=-len(batch))])
    done = job.done + len(batch)
    moved = {"done": done, "total": max(job.total, done)}
    if batch:
        moved |= {"reached_ms": batch[-1].ended_ms, "reached_id": batch[-1].id}
    if len(batch) < limit - due:
        moved |= {"state": ReplayState.COMPLETED.value, "ended_ms": now}
    connection.execute(update(recoveries).where(recoveries.c.id == replay_id).values(moved))
    return len(batch), job.endpoint_uid


def cancel(connection: Connection, endpoint_uid: str, *, now: int) -> None:
    """End the replay that is running for an endpoint, if there is one."""
    connection.execute(
        update(recoveries)
        .where(recoveries.c.endpoint_uid == endpoint_uid, is_running)
        .values(state=ReplayState.CANCELLED.value, ended_ms=now)
    )


def running(connection: Connection) -> list[Replay]:
    """Return every replay that is running."""
    return [_replay(row) for row in connection.execute(_RUNNING)]


def one(connection: Connection, replay_id: str) -> Replay | None:
    """Return a replay, or None if the id is unknown."""
    row = connection.execute(_ONE, {"id": replay_id}).one_or_none()
    return _replay(row) if row else None


def _replay(row: Row[*tuple[object, ...]]) -> Replay:
    return Replay(**{**row._mapping, "state": ReplayState(row.state)})  # noqa: SLF001 - SQLAlchemy's public face
