"""Statements that record attempts and set the next state of deliveries.

Sync functions on a connection. The caller begins and ends the transaction.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    ScalarSelect,
    Text,
    Update,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal,
    null,
    select,
    update,
)

# The PostgreSQL construct compiles on SQLite too: both dialects spell ON CONFLICT alike.
from sqlalchemy.dialects.postgresql import Insert, insert

from hookwright_operator.store.records import Attempt, Settlement, State
from hookwright_operator.store.schema import attempts, counters, deliveries
from hookwright_operator.store.sql import counters as counters_sql
from hookwright_operator.store.sql import delivered_index
from hookwright_operator.store.sql.rows import packed, plain, rows
from hookwright_operator.store.sql.statements import Each, Steps, few, has_company, run

_now = bindparam("now", type_=BigInteger)
_me = bindparam("me", type_=Text)

_RECORDED: Final = ("started_ms", "duration_ms", "status_code", "error", "response")
"""The recorded columns of an attempt."""

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


def _last_number_of(delivery_id: ColumnElement[str]) -> ScalarSelect[int]:
    number = func.coalesce(func.max(attempts.c.number), 0)
    return select(number).where(attempts.c.delivery_id == delivery_id).scalar_subquery()


# If other replicas may write, the settled deliveries are locked before they are counted and changed.
HOLD = select(func.count()).select_from(
    select(deliveries.c.id)
    .where(deliveries.c.id.in_(select(_settled.c.delivery_id)))
    .order_by(deliveries.c.id)
    .with_for_update(key_share=True)
    .subquery()
)
_known = _settled.join(deliveries, deliveries.c.id == _settled.c.delivery_id)
# A delivery with an owner is pending. A condition on the state would make PostgreSQL use the index of pending
# deliveries, which is full of dead entries.
_moves = deliveries.c.owner == _me

INSERT_ATTEMPTS = insert(attempts).from_select(
    ["delivery_id", "number", *_RECORDED],
    select(
        deliveries.c.id,
        _last_number_of(deliveries.c.id) + 1,
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


def _counting(new: Insert) -> Insert:
    newer = new.excluded.last_attempt_ms >= func.coalesce(counters.c.last_attempt_ms, 0)
    return new.on_conflict_do_update(
        index_elements=list(counters.primary_key),
        set_={
            "delivered": counters.c.delivered + new.excluded.delivered,
            "failed": counters.c.failed + new.excluded.failed,
            "last_attempt_ms": case((newer, new.excluded.last_attempt_ms), else_=counters.c.last_attempt_ms),
            "last_status_code": case((newer, new.excluded.last_status_code), else_=counters.c.last_status_code),
        },
    )


COUNT = _counting(
    insert(counters).from_select(
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
)


def _moving(delivery_id: ColumnElement[str], state: ColumnElement[str], due_ms: ColumnElement[int]) -> Update:
    ends = state != State.PENDING.value
    return (
        update(deliveries)
        .values(
            state=state,
            due_ms=case((ends, deliveries.c.due_ms), else_=due_ms),
            attempts=deliveries.c.attempts + 1,
            owner=null(),
            ended_ms=case((ends, _now), else_=null()),
        )
        .where(deliveries.c.id == delivery_id, _moves)
    )


MOVE = _moving(_settled.c.delivery_id, _settled.c.state, _settled.c.due_ms)
# COUNT runs before MOVE, because it counts the deliveries that MOVE will change.
SETTLE = Steps("settled", INSERT_ATTEMPTS, COUNT, MOVE)

_of, _due = bindparam("of", type_=Text), bindparam("due", type_=BigInteger)
_MOVE_ONE = Each(_moving(_of, bindparam("to", type_=Text), _due), "of", "to", "due", "now", "me")
_INSERT_ATTEMPT = Each(
    insert(attempts).values(
        delivery_id=_of,
        number=_last_number_of(_of) + 1,
        **{name: bindparam(f"its_{name}", type_=attempts.c[name].type) for name in _RECORDED},
    ),
    *("of", *(f"its_{name}" for name in _RECORDED)),
)
_COUNT_EACH = Each(_counting(insert(counters)), *counters.columns.keys())

_STATE = (
    select(deliveries.c.state, deliveries.c.endpoint_uid).where(deliveries.c.id == bindparam("id")).with_for_update()
)
# Makes ended deliveries pending again, due now; the retry schedule starts again.
RENEW = update(deliveries).values(
    state=State.PENDING.value, reason="", due_ms=_now, attempts=0, owner=null(), ended_ms=null()
)
_RENEW_ONE = RENEW.where(deliveries.c.id == bindparam("delivery_id"))

# An attempt is identified by its delivery, its time and its result, because the store assigns its number.
STORED = select(_settled.c.delivery_id).where(
    exists().where(
        attempts.c.delivery_id == _settled.c.delivery_id,
        *(attempts.c[name] == _settled.c[name] for name in ("started_ms", "duration_ms", "status_code")),
    )
)


class Settle(Protocol):
    """The signature of `settle` and `settle_again`."""

    def __call__(
        self, connection: Connection, calls: Sequence[Sequence[Settlement]], /, *, owner: str, slot: int, now: int
    ) -> list[None]:
        """Settle the deliveries of all calls."""


def settle(
    connection: Connection, calls: Sequence[Sequence[Settlement]], *, owner: str, slot: int, now: int
) -> list[None]:
    """Record every attempt, and set the next state of deliveries that are still pending and claimed by the owner.

    An attempt of a delivery that does not exist any more is ignored. The store numbers the attempts.

    Args:
        connection: in a transaction.
        calls: the settlements of each call.
        owner: the replica that made the attempts.
        slot: the slot of its counters.
        now: when the deliveries ended.
    """
    settlements = [settlement for call in calls for settlement in call]
    if delivered_index.used(connection):
        delivered_index.note(connection, settlements, now=now)
    if few(connection, settlements):
        settlements = _settle_each(connection, settlements, owner=owner, slot=slot, now=now)
    if settlements:
        settled = packed([_row(settlement) for settlement in settlements])
        if has_company(connection):
            connection.execute(HOLD, {"rows": settled})
        SETTLE.run(connection, {"rows": settled, "me": owner, "slot": slot, "now": now})
    return [None] * len(calls)


def settle_again(
    connection: Connection, calls: Sequence[Sequence[Settlement]], *, owner: str, slot: int, now: int
) -> list[None]:
    """Settle the deliveries that an earlier transaction with an unknown outcome did not settle; see `settle`.

    The outcome is unknown if the connection to PostgreSQL was lost during COMMIT. If that transaction was committed,
    another replica may have claimed the delivery since. So its state must not change a second time.
    """
    settlements = [settlement for call in calls for settlement in call]
    settled = {"rows": packed([_row(settlement) for settlement in settlements])}
    if has_company(connection):
        # The server may still run the earlier transaction, which locks these rows until it ends.
        connection.execute(HOLD, settled)
    stored = {delivery_id for (delivery_id,) in run(connection, STORED, settled)}
    left = [settlement for settlement in settlements if settlement.delivery_id not in stored]
    settle(connection, [left], owner=owner, slot=slot, now=now)
    return [None] * len(calls)


def _settle_each(
    connection: Connection, settlements: Sequence[Settlement], *, owner: str, slot: int, now: int
) -> list[Settlement]:
    """Settle deliveries that the owner has claimed; return the settlements of all other deliveries."""
    moved: list[Settlement] = []
    others: list[Settlement] = []
    for settlement in settlements:
        row = (settlement.delivery_id, settlement.state.value, settlement.due_ms, now, owner)
        (moved if _MOVE_ONE.change(connection, row) else others).append(settlement)
    _INSERT_ATTEMPT.run(connection, [(one.delivery_id, *_recorded(one.attempt)) for one in moved])
    _COUNT_EACH.run(connection, _tallies(moved, slot))
    return others


def _tallies(moved: Sequence[Settlement], slot: int) -> list[tuple[str | int, ...]]:
    """Sum up the changes of counters, as rows of the table."""
    ended = Counter([(settlement.endpoint_uid, settlement.state.value) for settlement in moved])
    latest: dict[str, tuple[int, int]] = {}
    for settlement in moved:
        uid, attempt = settlement.endpoint_uid, settlement.attempt
        latest[uid] = max(latest.get(uid, (0, 0)), (attempt.started_ms, attempt.status_code))
    delivered, failed = State.DELIVERED.value, State.FAILED.value
    return [(uid, slot, 0, ended[uid, delivered], ended[uid, failed], 0, *last) for uid, last in latest.items()]


def _row(settlement: Settlement) -> tuple[str | int, ...]:
    return (settlement.delivery_id, settlement.state.value, settlement.due_ms, *_recorded(settlement.attempt))


def _recorded(attempt: Attempt) -> tuple[int, int, int, str, str]:
    """Return the recorded fields of an attempt, in the order of `_RECORDED`."""
    return (
        attempt.started_ms,
        attempt.duration_ms,
        attempt.status_code,
        plain(attempt.error),
        plain(attempt.response),
    )


def retry(connection: Connection, delivery_id: str, *, slot: int, now: int) -> tuple[State, str] | None:
    """Make an ended delivery pending again; return its previous state and its endpoint's uid.

    A pending or discarded delivery does not change.
    """
    found = connection.execute(_STATE, {"id": delivery_id}).one_or_none()
    if found is None:
        return None
    state = State(found.state)
    if state in {State.DELIVERED, State.FAILED}:
        connection.execute(_RENEW_ONE, {"delivery_id": delivery_id, "now": now})
        delivered = int(state is State.DELIVERED)
        counters_sql.add(connection, slot, [(found.endpoint_uid, 0, -delivered, delivered - 1, 0)])
    return state, found.endpoint_uid
