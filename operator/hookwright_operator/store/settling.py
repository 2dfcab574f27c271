"""Recording attempts and moving deliveries on.

Sync functions on a connection, inside a transaction that the caller begins and ends.
"""

from collections.abc import Sequence

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Text,
    and_,
    bindparam,
    case,
    func,
    literal,
    null,
    select,
    update,
)

# Of the two engines' identical spellings the one that both compile.
from sqlalchemy.dialects.postgresql import insert

from hookwright_operator.store import counting
from hookwright_operator.store.engine import has_company
from hookwright_operator.store.model import Settlement, State
from hookwright_operator.store.rows import packed, plain, rows
from hookwright_operator.store.schema import attempts, counters, deliveries
from hookwright_operator.store.statements import Steps

_now = bindparam("now", type_=BigInteger)
_me = bindparam("me", type_=Text)

_settled = rows(
    delivery_id=Text,
    state=Text,
    due_ms=BigInteger,
    started_ms=BigInteger,
    duration_ms=BigInteger,
    status_code=Integer,
    error=Text,
    response=Text,
)
_last_number = (
    select(func.coalesce(func.max(attempts.c.number), 0))
    .where(attempts.c.delivery_id == deliveries.c.id)
    .scalar_subquery()
)
# Where others may write meanwhile, what is settled is held still before it is counted and moved.
HOLD = select(func.count()).select_from(
    select(deliveries.c.id)
    .where(deliveries.c.id.in_(select(_settled.c.delivery_id)))
    .order_by(deliveries.c.id)
    .with_for_update(key_share=True)
    .subquery()
)
_known = _settled.join(deliveries, deliveries.c.id == _settled.c.delivery_id)
# Who has an owner is pending. To say so as well would lead PostgreSQL to the index of what is pending, which is full of
# what no longer is.
_moves = deliveries.c.owner == _me

INSERT_ATTEMPTS = insert(attempts).from_select(
    ["delivery_id", "number", "started_ms", "duration_ms", "status_code", "error", "response"],
    select(
        deliveries.c.id,
        _last_number + 1,
        _settled.c.started_ms,
        _settled.c.duration_ms,
        _settled.c.status_code,
        _settled.c.error,
        _settled.c.response,
    ).select_from(_known),
)


def _ended_as(state: State) -> ColumnElement[int]:
    return func.sum(case((and_(_settled.c.state == state.value, _moves), 1), else_=0))


# One number for the time and the status of the latest attempt, so that one max() finds both.
_latest = func.max(_settled.c.started_ms * 1000 + _settled.c.status_code)
_sums = (
    select(
        deliveries.c.endpoint_uid,
        _ended_as(State.DELIVERED).label("delivered"),
        _ended_as(State.FAILED).label("failed"),
        _latest.label("latest"),
    )
    .select_from(_known)
    .group_by(deliveries.c.endpoint_uid)
    .order_by(deliveries.c.endpoint_uid)
    .subquery("sums")
)
_count = insert(counters).from_select(
    ["endpoint_uid", "slot", "accepted", "delivered", "failed", "discarded", "last_attempt_ms", "last_status_code"],
    select(
        _sums.c.endpoint_uid,
        bindparam("slot", type_=Integer),
        literal(0),
        _sums.c.delivered,
        _sums.c.failed,
        literal(0),
        _sums.c.latest // 1000,
        _sums.c.latest % 1000,
    ).where(_sums.c.latest.is_not(None)),
)
_newer = _count.excluded.last_attempt_ms >= func.coalesce(counters.c.last_attempt_ms, 0)
COUNT = _count.on_conflict_do_update(
    index_elements=list(counters.primary_key),
    set_={
        "delivered": counters.c.delivered + _count.excluded.delivered,
        "failed": counters.c.failed + _count.excluded.failed,
        "last_attempt_ms": case((_newer, _count.excluded.last_attempt_ms), else_=counters.c.last_attempt_ms),
        "last_status_code": case((_newer, _count.excluded.last_status_code), else_=counters.c.last_status_code),
    },
)

MOVE = (
    update(deliveries)
    .values(
        state=_settled.c.state,
        due_ms=case((_settled.c.state == State.PENDING.value, _settled.c.due_ms), else_=deliveries.c.due_ms),
        attempts=deliveries.c.attempts + 1,
        owner=null(),
        ended_ms=case((_settled.c.state != State.PENDING.value, _now), else_=null()),
    )
    .where(deliveries.c.id == _settled.c.delivery_id, _moves)
)
# Counted before the deliveries move, for that counts those that will.
SETTLE = Steps("settled", INSERT_ATTEMPTS, COUNT, MOVE)

_STATE = (
    select(deliveries.c.state, deliveries.c.endpoint_uid).where(deliveries.c.id == bindparam("id")).with_for_update()
)
# Makes ended deliveries pending again: due now, with the schedule at its beginning.
RENEW = update(deliveries).values(
    state=State.PENDING.value, reason="", due_ms=_now, attempts=0, owner=null(), ended_ms=null()
)
_RENEW_ONE = RENEW.where(deliveries.c.id == bindparam("delivery_id"))


def settle(
    connection: Connection, calls: Sequence[Sequence[Settlement]], *, owner: str, slot: int, now: int
) -> list[None]:
    """Record every attempt, and move on the deliveries that are still pending and claimed by the owner.

    An attempt for a delivery that is not known any more is dropped. The store numbers the attempts.

    Args:
        connection: in a transaction.
        calls: the settlements of each call.
        owner: the instance that made the attempts.
        slot: of its counters.
        now: when the deliveries ended.
    """
    settled = packed([_row(settlement) for call in calls for settlement in call])
    if has_company(connection):
        connection.execute(HOLD, {"rows": settled})
    SETTLE.run(connection, {"rows": settled, "me": owner, "slot": slot, "now": now})
    return [None] * len(calls)


def _row(settlement: Settlement) -> tuple[str | int, ...]:
    attempt = settlement.attempt
    return (
        settlement.delivery_id,
        settlement.state.value,
        settlement.due_ms,
        attempt.started_ms,
        attempt.duration_ms,
        attempt.status_code,
        plain(attempt.error),
        plain(attempt.response),
    )


def retry(connection: Connection, delivery_id: str, *, slot: int, now: int) -> tuple[State, str] | None:
    """Make an ended delivery pending again, and return the state it had and its endpoint's uid.

    What is pending already or was discarded stays as it is.
    """
    found = connection.execute(_STATE, {"id": delivery_id}).one_or_none()
    if found is None:
        return None
    state = State(found.state)
    if state in {State.DELIVERED, State.FAILED}:
        connection.execute(_RENEW_ONE, {"delivery_id": delivery_id, "now": now})
        delivered = int(state is State.DELIVERED)
        counting.add(connection, slot, [(found.endpoint_uid, 0, -delivered, delivered - 1, 0)])
    return state, found.endpoint_uid
