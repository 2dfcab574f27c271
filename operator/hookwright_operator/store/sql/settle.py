"""Statements that record attempts and set the next state of deliveries.

Sync functions on a connection. The caller begins and ends the transaction.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Delete,
    Integer,
    Subquery,
    Text,
    Update,
    bindparam,
    delete,
    exists,
    func,
    literal_column,
    null,
    select,
    update,
)

from hookwright_operator.store.records import TEST_REASON, Attempt, NewEvent, Settlement, Settlements, State
from hookwright_operator.store.schema import attempts, deliveries, events
from hookwright_operator.store.sql.accept import write_events
from hookwright_operator.store.sql.counters import ADD, Change, add_counts, added
from hookwright_operator.store.sql.dialect import insert
from hookwright_operator.store.sql.rows import packed, packed_column, plain, rows
from hookwright_operator.store.sql.statements import Group, run, run_all, run_group

# Locks deliveries that another replica may claim or settle at the same time.
_ids = rows(id=Text)
LOCK = (
    select(deliveries.c.id)
    .where(deliveries.c.id.in_(select(_ids.c.id)))
    .order_by(deliveries.c.id)
    .with_for_update(key_share=True)
)

_attempts = rows(
    "made",
    delivery_id=Text,
    started_ms=BigInteger,
    duration_ms=BigInteger,
    status_code=Integer,
    error=Text,
    response=Text,
    response_headers=Text,
    request=Text,
)
# An attempt is identified by its delivery, its time and its result, because the store assigns its number.
STORED_ATTEMPTS = select(_attempts.c.delivery_id).where(
    exists().where(
        attempts.c.delivery_id == _attempts.c.delivery_id,
        *(attempts.c[name] == _attempts.c[name] for name in ("started_ms", "duration_ms", "status_code")),
    )
)
_last_number = (
    select(func.coalesce(func.max(attempts.c.number), 0))
    .where(attempts.c.delivery_id == _attempts.c.delivery_id)
    .scalar_subquery()
)
INSERT_ATTEMPTS = insert(attempts).from_select([*_attempts.c.keys(), "number"], select(_attempts, _last_number + 1))


def _move(states: Subquery, owner: ColumnElement[str]) -> Update:
    """Build the statement that ends attempts of deliveries which an owner still has."""
    return (
        update(deliveries)
        .values(
            state=states.c.state,
            due_ms=func.coalesce(states.c.due_ms, deliveries.c.due_ms),
            attempts=deliveries.c.attempts + 1,
            owner=null(),
            ended_ms=states.c.ended_ms,
        )
        .where(deliveries.c.id == states.c.id, deliveries.c.owner == owner)
    )


# A delivery with an owner is pending. A condition on the state would make PostgreSQL use the index of pending
# deliveries, which is full of dead entries.
_next_states = rows("moved", id=Text, state=Text, due_ms=BigInteger, ended_ms=BigInteger)
MOVE = _move(_next_states, bindparam("me", type_=Text)).returning(deliveries.c.id)

# The attempts are recorded and counted if all deliveries change. PostgreSQL locks these in the order of the rows.
SETTLE = Group.of(MOVE, INSERT_ATTEMPTS, ADD)

_ended_leases = rows("ended_leases", id=Text, state=Text, due_ms=BigInteger, ended_ms=BigInteger, lease=Text)
MOVE_LEASED = _move(_ended_leases, _ended_leases.c.lease)

_STATE = (
    select(deliveries.c.state, deliveries.c.endpoint_uid).where(deliveries.c.id == bindparam("id")).with_for_update()
)
# Makes ended deliveries pending again, due now; the retry schedule starts again.
RENEW = update(deliveries).values(
    state=State.PENDING.value,
    reason="",
    due_ms=bindparam("now", type_=BigInteger),
    attempts=0,
    owner=null(),
    ended_ms=null(),
)
_HASTEN = (
    update(deliveries)
    .values(due_ms=bindparam("now", type_=BigInteger))
    .where(
        deliveries.c.id == bindparam("delivery_id"),
        deliveries.c.owner.is_(None),
        deliveries.c.due_ms > bindparam("now", type_=BigInteger),
    )
)
_RENEW_ONE = RENEW.where(deliveries.c.id == bindparam("delivery_id"))

KEPT_ATTEMPTS: Final = 100
"""Attempts of a delivery that stay when it becomes pending again, the newest ones."""


def _drop_old_attempts() -> Delete:
    """Build the statement that deletes the older attempts of deliveries; their numbers are not used again."""
    siblings = attempts.alias("numbered")
    last = select(func.max(siblings.c.number)).where(siblings.c.delivery_id == attempts.c.delivery_id)
    old = attempts.c.number <= last.scalar_subquery() - literal_column(str(KEPT_ATTEMPTS))
    return delete(attempts).where(attempts.c.delivery_id.in_(select(_ids.c.id)), old)


DROP_OLD_ATTEMPTS = _drop_old_attempts()


def settle(
    connection: Connection, calls: Sequence[Settlements], *, owner: str, slot: int, now: int
) -> list[frozenset[str]]:
    """Record every attempt, and set the next state of deliveries that are still pending and claimed by the owner.

    An attempt of a delivery that does not exist any more is ignored. The store numbers the attempts.

    Args:
        connection: in a transaction.
        calls: the settlements of each call.
        owner: the replica that made the attempts.
        slot: the slot of its counters.
        now: when the deliveries ended.

    Returns:
        For each call, the deliveries of all calls whose state did not change; the set is empty except after a loss.
    """
    if any(call.again for call in calls):
        run(connection, LOCK, _ids_of(settlement for call in calls for settlement in call.settlements))
    # Sorted by id, so that two transactions lock the rows in the same order. Only the fallback below locks more rows
    # after these. If it deadlocks, the database runs the transaction again.
    settlements = sorted([settlement for call in calls for settlement in _new(connection, call)], key=itemgetter(0))
    states = {"moved": packed([_next_state(settlement, now) for settlement in settlements]), "me": owner}
    number = len(settlements)
    parameters = {**states, **_recorded(settlements, settlements, slot), "number": number}
    moved_ids = {row[0] for row in run_group(connection, SETTLE, parameters)}
    if len(moved_ids) == number:
        return [frozenset()] * len(calls)
    unchanged_ids = frozenset([settlement.delivery_id for settlement in settlements]) - moved_ids
    existing = {row[0] for row in run(connection, LOCK, _ids_of(settlements))}
    settlements = [settlement for settlement in settlements if settlement.delivery_id in existing]
    state_changes = [settlement for settlement in settlements if settlement.delivery_id in moved_ids]
    run_all(connection, SETTLE.others, _recorded(settlements, state_changes, slot))
    return [unchanged_ids] * len(calls)


def settle_leases(connection: Connection, leases: Sequence[tuple[Settlement, str]], *, slot: int, now: int) -> None:
    """Record the attempts of messages, and set the next state of their deliveries.

    Args:
        connection: in a transaction that has locked the deliveries.
        leases: each settlement with the present owner of its delivery, which is a lease.
        slot: the slot of this replica's counters.
        now: when the deliveries ended.
    """
    if not leases:
        return
    settlements = [settlement for settlement, _ in leases]
    states = packed([(*_next_state(settlement, now), owner) for settlement, owner in leases])
    run(connection, MOVE_LEASED, {"ended_leases": states})
    run_all(connection, SETTLE.others, _recorded(settlements, settlements, slot))


def _recorded(settlements: Sequence[Settlement], state_changes: Sequence[Settlement], slot: int) -> dict[str, object]:
    return {"made": _attempt_rows(settlements), **added(_changes(settlements, state_changes), slot)}


def _new(connection: Connection, call: Settlements) -> Sequence[Settlement]:
    """Return the settlements of a call that are not stored.

    The outcome of a transaction is unknown if the connection to PostgreSQL was lost during COMMIT. If that transaction
    was committed, another replica may have claimed the delivery since. So its state must not change a second time. The
    server may still have been running the transaction; then LOCK has waited for its end.
    """
    if not call.again:
        return call.settlements
    stored_ids = {id_ for (id_,) in run(connection, STORED_ATTEMPTS, {"made": _attempt_rows(call.settlements)})}
    return [settlement for settlement in call.settlements if settlement.delivery_id not in stored_ids]


def _changes(settlements: Sequence[Settlement], state_changes: Sequence[Settlement]) -> list[Change]:
    """Sum up the changes of the counters."""
    numbers = Counter([(settlement.endpoint_uid, settlement.state) for settlement in state_changes])
    latest: dict[str, tuple[int, int]] = {}
    for settlement in settlements:
        attempt = settlement.attempt.started_ms, settlement.attempt.status_code
        latest[settlement.endpoint_uid] = max(latest.get(settlement.endpoint_uid, attempt), attempt)
    return [
        Change(uid, 0, numbers[uid, State.DELIVERED], numbers[uid, State.FAILED], 0, *attempt)
        for uid, attempt in latest.items()
    ]


def _ids_of(settlements: Iterable[Settlement]) -> dict[str, str]:
    return {"rows": packed_column([settlement.delivery_id for settlement in settlements])}


def _attempt_rows(settlements: Sequence[Settlement]) -> str:
    return packed([(settlement.delivery_id, *_row(settlement.attempt)) for settlement in settlements])


def _row(attempt: Attempt) -> tuple[int | str | None, ...]:
    figures = (attempt.started_ms, attempt.duration_ms, attempt.status_code)
    texts = (plain(attempt.error), plain(attempt.response))
    headers = attempt.response_headers
    return (*figures, *texts, headers if headers is None else plain(headers), attempt.request)


def _next_state(settlement: Settlement, now: int) -> tuple[str | int | None, ...]:
    """Return the delivery's id, its state, when it is due unless it has ended, and when it has ended."""
    if settlement.state is State.PENDING:
        return settlement.delivery_id, settlement.state.value, settlement.due_ms, None
    return settlement.delivery_id, settlement.state.value, None, now


def retry(connection: Connection, delivery_id: str, *, slot: int, now: int) -> tuple[State, str] | None:
    """Make an ended delivery pending again, or a pending one due now; return its previous state and its endpoint's uid.

    A pending delivery keeps the number of its attempts. A discarded delivery does not change, nor one that a replica
    has claimed: its attempt is under way, or it waits in the replica's memory and is due already.
    """
    row = connection.execute(_STATE, {"id": delivery_id}).one_or_none()
    if row is None:
        return None
    state = State(row.state)
    if state is State.PENDING:
        connection.execute(_HASTEN, {"delivery_id": delivery_id, "now": now})
    if state in {State.DELIVERED, State.FAILED}:
        connection.execute(_RENEW_ONE, {"delivery_id": delivery_id, "now": now})
        connection.execute(DROP_OLD_ATTEMPTS, {"rows": packed_column([delivery_id])})
        was_delivered = int(state is State.DELIVERED)
        add_counts(connection, slot, [Change(row.endpoint_uid, delivered=-was_delivered, failed=was_delivered - 1)])
    return state, row.endpoint_uid


def record_test(connection: Connection, event: NewEvent, attempt: Attempt, *, accepted_ms: int, now: int) -> None:
    """Write a test of an endpoint: an event, a delivery and its one attempt, which has ended.

    The delivery is stored as discarded, with the reason `TEST_REASON`. So no claim, retry or replay finds it; it is
    pruned with the delivered ones; and it changes no counter. `read.shown` returns the state that readers see.

    Args:
        connection: in a transaction.
        event: with one delivery.
        attempt: the attempt.
        accepted_ms: when the test was requested.
        now: when it ended.
    """
    [delivery] = event.deliveries
    write_events(connection, [event], now=accepted_ms)
    connection.execute(update(events).where(events.c.id == event.id).values(is_test=True))
    end_state = {"state": State.DISCARDED.value, "reason": TEST_REASON, "due_ms": now, "attempts": 1, "ended_ms": now}
    identity = {"id": delivery.id, "event_id": event.id, "endpoint_uid": delivery.endpoint_uid}
    connection.execute(insert(deliveries).values({**identity, **end_state}))
    run(
        connection,
        INSERT_ATTEMPTS,
        {"made": _attempt_rows([Settlement(delivery.id, delivery.endpoint_uid, attempt, State.DISCARDED)])},
    )
