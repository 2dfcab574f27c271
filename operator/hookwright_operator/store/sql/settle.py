"""Statements that record attempts and set the next state of deliveries.

Sync functions on a connection. The caller begins and ends the transaction.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
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

from hookwright_operator.store.records import Attempt, Settlement, Settlements, State
from hookwright_operator.store.schema import attempts, deliveries
from hookwright_operator.store.sql.counters import Change, add_counts
from hookwright_operator.store.sql.dialect import dialect_of, insert
from hookwright_operator.store.sql.rows import packed, packed_column, plain, rows
from hookwright_operator.store.sql.statements import run

# If other replicas may write, this statement locks the deliveries before they are changed and counted.
_ids = rows(id=Text)
LOCK = (
    select(deliveries.c.id)
    .where(deliveries.c.id.in_(select(_ids.c.id)))
    .order_by(deliveries.c.id)
    .with_for_update(key_share=True)
)

_made = rows(
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
STORED = select(_made.c.delivery_id).where(
    exists().where(
        attempts.c.delivery_id == _made.c.delivery_id,
        *(attempts.c[name] == _made.c[name] for name in ("started_ms", "duration_ms", "status_code")),
    )
)
_last_number = (
    select(func.coalesce(func.max(attempts.c.number), 0))
    .where(attempts.c.delivery_id == _made.c.delivery_id)
    .scalar_subquery()
)
INSERT_ATTEMPTS = insert(attempts).from_select([*_made.c.keys(), "number"], select(_made, _last_number + 1))


def _move(ended: Subquery, owner: ColumnElement[str]) -> Update:
    """Build the statement that ends attempts of deliveries which an owner still has."""
    return (
        update(deliveries)
        .values(
            state=ended.c.state,
            due_ms=func.coalesce(ended.c.due_ms, deliveries.c.due_ms),
            attempts=deliveries.c.attempts + 1,
            owner=null(),
            ended_ms=ended.c.ended_ms,
        )
        .where(deliveries.c.id == ended.c.id, deliveries.c.owner == owner)
    )


# A delivery with an owner is pending. A condition on the state would make PostgreSQL use the index of pending
# deliveries, which is full of dead entries.
_moved = rows("moved", id=Text, state=Text, due_ms=BigInteger, ended_ms=BigInteger)
MOVE = _move(_moved, bindparam("me", type_=Text)).returning(deliveries.c.id)

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

KEPT: Final = 100
"""Attempts of a delivery that stay when it becomes pending again, the newest ones."""


def _drop_old_attempts() -> Delete:
    """Build the statement that deletes the older attempts of deliveries; their numbers are not used again."""
    numbered = attempts.alias("numbered")
    last = select(func.max(numbered.c.number)).where(numbered.c.delivery_id == attempts.c.delivery_id)
    old = attempts.c.number <= last.scalar_subquery() - literal_column(str(KEPT))
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
    if dialect_of(connection).shared:
        connection.execute(LOCK, _ids_of(one for call in calls for one in call.settlements))
    made = [one for call in calls for one in _new(connection, call)]
    states = packed([_next_state(one, now) for one in made])
    moved_ids = {row[0] for row in run(connection, MOVE, {"moved": states, "me": owner})}
    moved = [one for one in made if one.delivery_id in moved_ids]
    unmoved: frozenset[str] = frozenset()
    if len(moved) < len(made):
        unmoved = frozenset([one.delivery_id for one in made if one.delivery_id not in moved_ids])
        existing = {row[0] for row in run(connection, LOCK, _ids_of(made))}
        made = [one for one in made if one.delivery_id in existing]
    run(connection, INSERT_ATTEMPTS, {"made": _attempt_rows(made)})
    add_counts(connection, slot, _changes(made, moved))
    return [unmoved] * len(calls)


def settle_leases(connection: Connection, leased: Sequence[tuple[Settlement, str]], *, slot: int, now: int) -> None:
    """Record the attempts of messages, and set the next state of their deliveries.

    Args:
        connection: in a transaction that has locked the deliveries.
        leased: each settlement with the present owner of its delivery, which is a lease.
        slot: the slot of this replica's counters.
        now: when the deliveries ended.
    """
    if not leased:
        return
    made = [settlement for settlement, _ in leased]
    states = packed([(*_next_state(settlement, now), owner) for settlement, owner in leased])
    run(connection, MOVE_LEASED, {"ended_leases": states})
    run(connection, INSERT_ATTEMPTS, {"made": _attempt_rows(made)})
    add_counts(connection, slot, _changes(made, made))


def _new(connection: Connection, call: Settlements) -> Sequence[Settlement]:
    """Return the settlements of a call that are not stored.

    The outcome of a transaction is unknown if the connection to PostgreSQL was lost during COMMIT. If that transaction
    was committed, another replica may have claimed the delivery since. So its state must not change a second time. The
    server may still have been running the transaction; then LOCK has waited for its end.
    """
    if not call.again:
        return call.settlements
    stored = {delivery_id for (delivery_id,) in run(connection, STORED, {"made": _attempt_rows(call.settlements)})}
    return [one for one in call.settlements if one.delivery_id not in stored]


def _changes(made: Sequence[Settlement], moved: Sequence[Settlement]) -> list[Change]:
    """Sum up the changes of the counters."""
    ended = Counter([(one.endpoint_uid, one.state) for one in moved])
    latest: dict[str, tuple[int, int]] = {}
    for one in made:
        attempt = one.attempt.started_ms, one.attempt.status_code
        latest[one.endpoint_uid] = max(latest.get(one.endpoint_uid, attempt), attempt)
    return [
        Change(uid, 0, ended[uid, State.DELIVERED], ended[uid, State.FAILED], 0, *attempt)
        for uid, attempt in latest.items()
    ]


def _ids_of(settlements: Iterable[Settlement]) -> dict[str, str]:
    return {"rows": packed_column([one.delivery_id for one in settlements])}


def _attempt_rows(settlements: Sequence[Settlement]) -> str:
    return packed([(one.delivery_id, *_recorded(one.attempt)) for one in settlements])


def _recorded(attempt: Attempt) -> tuple[int | str | None, ...]:
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
    found = connection.execute(_STATE, {"id": delivery_id}).one_or_none()
    if found is None:
        return None
    state = State(found.state)
    if state is State.PENDING:
        connection.execute(_HASTEN, {"delivery_id": delivery_id, "now": now})
    if state in {State.DELIVERED, State.FAILED}:
        connection.execute(_RENEW_ONE, {"delivery_id": delivery_id, "now": now})
        connection.execute(DROP_OLD_ATTEMPTS, {"rows": packed_column([delivery_id])})
        delivered = int(state is State.DELIVERED)
        add_counts(connection, slot, [Change(found.endpoint_uid, delivered=-delivered, failed=delivered - 1)])
    return state, found.endpoint_uid
