"""Replays: deliveries of an endpoint become pending again, in limited steps.

A replay takes deliveries by state, event type and time of acceptance, in the order of their acceptance. A replay of
missed events makes deliveries of events that have none to its endpoint. Their ids have the times of their events, so
reads that start at the time of an event find them.

The steps of a replay search before they write, because a search can examine many rows and the writer is one thread.

Sync functions on a connection. The caller begins and ends the transaction.

A step runs only when most of the endpoint's due deliveries are gone. So a new event waits behind one step of old
deliveries at most. If its endpoint cannot keep up, it waits behind none, because no step runs. The replay of a
suspended endpoint waits until the endpoint is active again. A delivery that fails again is due later and delays no
other delivery.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final

from pydantic_core import from_json, to_json
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Row,
    Text,
    bindparam,
    delete,
    func,
    literal_column,
    select,
    update,
)

from hookwright_operator.ids import delivery_id_like
from hookwright_operator.store.records import Choice, Replay, ReplayState, State
from hookwright_operator.store.schema import deliveries, events, is_pending, is_running, replays
from hookwright_operator.store.sql import replay_choice
from hookwright_operator.store.sql.accept import write_deliveries
from hookwright_operator.store.sql.counters import Change, add_counts
from hookwright_operator.store.sql.dialect import insert
from hookwright_operator.store.sql.paging import Found
from hookwright_operator.store.sql.rows import packed_column, rows
from hookwright_operator.store.sql.settle import DROP_OLD_ATTEMPTS, RENEW

KEPT_REPLAYS: Final = 50
"""Replays of an endpoint that are kept; older ones are removed when a new one begins."""
STEP_ROWS: Final = 5_000
"""Rows that one step of a replay examines at most; of a replay of missed events, events."""

_now = bindparam("now", type_=BigInteger)
_uid = bindparam("endpoint", type_=Text)
_count = bindparam("count", type_=Integer)

_PLAIN: Final = tuple(field.name for field in fields(Replay) if field.name not in {"state", "choice"})
"""The columns that have the value of a replay's attribute."""
_replays = select(*[replays.c[name] for name in (*_PLAIN, "state", "states", "types")])
_RUNNING_FOR = _replays.where(replays.c.endpoint_uid == _uid, is_running)
_RUNNING = _replays.where(is_running)
_BY_ID = _replays.where(replays.c.id == bindparam("id", type_=Text))
_LATEST = _replays.where(replays.c.endpoint_uid == _uid).order_by(replays.c.id.desc()).limit(KEPT_REPLAYS)
_ONE_RUNNING = select(replays).where(replays.c.id == bindparam("id", type_=Text), is_running)
_TAKEN_UP = _ONE_RUNNING.where(replays.c.reached_id == bindparam("reached_id", type_=Text)).with_for_update(
    skip_locked=True
)
_superfluous = (
    select(replays.c.id).where(replays.c.endpoint_uid == _uid).order_by(replays.c.id.desc()).offset(KEPT_REPLAYS)
).limit(KEPT_REPLAYS)
_DROP_SUPERFLUOUS = delete(replays).where(replays.c.id.in_(_superfluous), ~is_running)

_BEGIN = insert(replays).on_conflict_do_nothing()

MOST_COUNTED: Final = 10_000
"""Deliveries that are counted before a replay begins; of a larger number, the replay has a minimum."""
DUE = select(func.count()).select_from(
    select(literal_column("1"))
    .where(deliveries.c.endpoint_uid == _uid, is_pending, deliveries.c.due_ms <= _now)
    .limit(_count)
    .subquery("due")
)
_ids = rows(id=Text)
_STATES = (
    select(deliveries.c.id, deliveries.c.endpoint_uid, deliveries.c.state)
    .where(deliveries.c.id.in_(select(_ids.c.id)))
    .order_by(deliveries.c.id)
    .with_for_update()
)
_RENEW_MANY = RENEW.where(deliveries.c.id.in_(select(_ids.c.id)))
_COUNT_ONE_MORE = update(events).values(deliveries=events.c.deliveries + 1).where(events.c.id.in_(select(_ids.c.id)))
_EXISTING = select(events.c.id).where(events.c.id.in_(select(_ids.c.id))).order_by(events.c.id)


def insert_replay(connection: Connection, replay: Replay, *, reached_id: str) -> Replay:
    """Insert a replay unless one is running for its endpoint; return the one that runs afterwards.

    The oldest replays of the endpoint are removed if it has more than `KEPT_REPLAYS`.

    Args:
        connection: in a transaction.
        replay: the new replay.
        reached_id: the id after which it begins.
    """
    values = {
        **{column: getattr(replay, column) for column in _PLAIN},
        "state": replay.state.value,
        "states": to_json(replay.choice.states).decode(),
        "types": to_json(replay.choice.types).decode(),
        "reached_id": reached_id,
    }
    # The running replay may end between the two statements, and the next replay may begin.
    while not connection.execute(_BEGIN, values).rowcount:
        running = connection.execute(_RUNNING_FOR, {"endpoint": replay.endpoint_uid}).one_or_none()
        if running is not None:
            return _replay(running)
    connection.execute(_DROP_SUPERFLUOUS, {"endpoint": replay.endpoint_uid})
    return replay


def next_step(
    connection: Connection, replay_id: str, *, limit: int, now: int, project: tuple[str, str] = ("", "")
) -> tuple[str, Found] | None:
    """Search for the next deliveries of a replay, or for the next events that its endpoint missed.

    Args:
        connection: a connection that can read.
        replay_id: the replay.
        limit: how many of the endpoint's deliveries may be due afterwards. Nothing happens while more than half as many
            are already due.
        now: the current time.
        project: namespace and name of the endpoint's project; only a replay of missed events needs it.

    Returns:
        The id that the replay had reached before the step, and what the step takes; None if the replay does not run or
        has to wait.
    """
    job = connection.execute(_ONE_RUNNING, {"id": replay_id}).one_or_none()
    if job is None:
        return None
    due = connection.scalar(DUE, {"endpoint": job.endpoint_uid, "now": now, "count": limit}) or 0
    if due * 2 > limit:
        return None
    result = replay_choice.find(
        connection,
        _choice(job.states, job.types),
        endpoint_uid=job.endpoint_uid,
        project=project,
        after=job.reached_id,
        until_ms=job.until_ms,
        limit=limit - due,
        rows_at_most=STEP_ROWS,
    )
    return None if not result.ids and result.position == job.reached_id else (job.reached_id, result)


def take_step(
    connection: Connection, replay_id: str, after: str, step: Found, *, slot: int, now: int
) -> tuple[int, str]:
    """Make the deliveries of a step pending, unless another replica has taken the step or the replay does not run.

    Return how many became pending, and their endpoint's uid. A delivery whose state has changed since the search
    does not change.
    """
    job = connection.execute(_TAKEN_UP, {"id": replay_id, "reached_id": after}).one_or_none()
    if job is None:
        return 0, ""
    choice = _choice(job.states, job.types)
    if choice.missed:
        number = _deliver(connection, step.ids, job.endpoint_uid, slot=slot, now=now)
    else:
        number = _renew(connection, step.ids, job.endpoint_uid, choice, slot=slot, now=now)
    progress = job.done + number
    values = {"done": progress, "total": max(job.total, progress)}
    if step.position is None:
        values |= {"state": ReplayState.COMPLETED.value, "ended_ms": now}
    else:
        values |= {"reached_id": step.position}
    connection.execute(update(replays).where(replays.c.id == replay_id).values(values))
    return number, job.endpoint_uid


def _renew(
    connection: Connection, ids: Sequence[str], endpoint_uid: str, choice: Choice, *, slot: int, now: int
) -> int:
    """Make deliveries pending that are still in a chosen state; return how many there are."""
    rows = connection.execute(_STATES, {"rows": packed_column(ids)}).all()
    batch = [row for row in rows if row.endpoint_uid == endpoint_uid and State(row.state) in choice.states]
    if batch:
        parameters = {"rows": packed_column([row.id for row in batch])}
        connection.execute(_RENEW_MANY, {**parameters, "now": now})
        connection.execute(DROP_OLD_ATTEMPTS, parameters)
        states = Counter([State(row.state) for row in batch])
        change = Change(endpoint_uid, delivered=-states[State.DELIVERED], failed=-states[State.FAILED])
        add_counts(connection, slot, [change])
    return len(batch)


def _deliver(connection: Connection, event_ids: Sequence[str], endpoint_uid: str, *, slot: int, now: int) -> int:
    """Write pending deliveries, due now, of the events that still exist; return how many there are."""
    parameters = {"rows": packed_column(event_ids)}
    # The update locks the events, so that they are not pruned before this transaction ends.
    connection.execute(_COUNT_ONE_MORE, parameters)
    existing = connection.scalars(_EXISTING, parameters)
    delivery_rows = [(delivery_id_like(event_id), event_id, endpoint_uid, None) for event_id in existing]
    write_deliveries(connection, delivery_rows, slot=slot, now=now)
    return len(delivery_rows)


def cancel(connection: Connection, condition: ColumnElement[bool], *, now: int) -> None:
    """End the running replays that meet a condition; deliveries that they made pending stay pending."""
    end = {"state": ReplayState.CANCELLED.value, "ended_ms": now}
    connection.execute(update(replays).where(condition, is_running).values(end))


def running(connection: Connection) -> list[Replay]:
    """Return every replay that is running."""
    return [_replay(row) for row in connection.execute(_RUNNING)]


def one(connection: Connection, replay_id: str) -> Replay | None:
    """Return a replay, or None if the id is unknown."""
    row = connection.execute(_BY_ID, {"id": replay_id}).one_or_none()
    return _replay(row) if row else None


def latest_replays(connection: Connection, endpoint_uid: str) -> list[Replay]:
    """Return the latest replays of an endpoint, the newest first; at most `KEPT_REPLAYS`."""
    return [_replay(row) for row in connection.execute(_LATEST, {"endpoint": endpoint_uid})]


def _replay(row: Row[*tuple[Any, ...]]) -> Replay:
    *plain, state, states, types = row
    return Replay(**dict(zip(_PLAIN, plain, strict=True)), state=ReplayState(state), choice=_choice(states, types))


@lru_cache(maxsize=256)
def _choice(states: str, types: str) -> Choice:
    return Choice(tuple(map(State, from_json(states))), tuple(from_json(types)))
