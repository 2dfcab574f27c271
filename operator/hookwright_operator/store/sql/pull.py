"""Statements that lease messages to consumers, and that settle leases.

A message that is leased has the owner `owner_of` and is due when the lease ends. No replica has such an id, so no claim
of a replica and no release changes it. Only the lease that owns a message settles it: the owner is the fence against
late acknowledgements.

Sync functions on a connection. The caller begins and ends the transaction.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from pydantic_core import from_json, to_json
from sqlalchemy import (
    BigInteger,
    Connection,
    Integer,
    Text,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal_column,
    not_,
    null,
    or_,
    select,
    tuple_,
    update,
)

from hookwright_operator.store.message_leases import LeaseId, MessageCounts, Nack, SettledLease, Take, Taken
from hookwright_operator.store.records import Attempt, Settlement, State
from hookwright_operator.store.schema import attempts, deliveries, events, instances, is_pending, pull_takes
from hookwright_operator.store.sql.claim import (
    COLUMNS,
    LEASE_OWNER,
    SIZE,
    SMALL_COLUMNS,
    is_leased,
    with_bodies,
    within,
)
from hookwright_operator.store.sql.paging import AFTER_ALL
from hookwright_operator.store.sql.rows import packed, packed_column, rows
from hookwright_operator.store.sql.settle import settle_leases
from hookwright_operator.store.sql.statements import run

ACK_STATUS: Final = 200
"""The status of an acknowledged message in the log, as if a receiver had answered 200."""
LEASE_ENDED: Final = "the lease ended before the message was acknowledged"
"""The error of an attempt whose lease ended."""

NextAttempt = Callable[[int, int], int | None]
"""Returns when the next attempt is due after a number of attempts, of which the last one failed at a time."""

MOST_COUNTED: Final = 10_000
"""Messages that a count reads at most, so that a large backlog costs no more."""
_TAKES_AT_ONCE: Final = 256
_MESSAGES_AT_ONCE: Final = 1000
_MARGIN: Final = 100
"""Messages that one request examines beside those that it may take: ended leases that are not settled yet."""

_now = bindparam("now", type_=BigInteger)
_living = select(instances.c.id).where(instances.c.lease_until_ms > _now)
_free = or_(
    deliveries.c.owner.is_(None),
    and_(not_(is_leased(deliveries.c.owner)), deliveries.c.owner.not_in(_living)),
)
# The headers of a CloudEvent have its attributes. A character has up to 4 bytes, and a byte becomes 3 characters.
_answer_size = SIZE + literal_column("12") * func.coalesce(func.length(events.c.attributes, type_=Integer), 0)
_pending_messages = (deliveries.c.endpoint_uid == bindparam("endpoint", type_=Text), is_pending)
_place = tuple_(deliveries.c.due_ms, deliveries.c.id)
LAST_EXAMINED = (
    select(deliveries.c.due_ms, deliveries.c.id)
    .where(*_pending_messages, deliveries.c.due_ms <= _now)
    .order_by(deliveries.c.due_ms, deliveries.c.id)
    .offset(bindparam("count", type_=Integer))
    .limit(1)
)
TAKE = (
    select(*COLUMNS, _answer_size.label("size"), *SMALL_COLUMNS)
    .join(events, events.c.id == deliveries.c.event_id)
    .where(
        *_pending_messages,
        _place <= tuple_(bindparam("last_due", type_=BigInteger), bindparam("last_id", type_=Text)),
        _free,
    )
    .order_by(deliveries.c.due_ms, deliveries.c.id)
    .limit(bindparam("count", type_=Integer))
    .with_for_update(of=deliveries, skip_locked=True)
)
_pending = (
    select(deliveries.c.due_ms, deliveries.c.owner)
    .where(*_pending_messages)
    .order_by(deliveries.c.due_ms, deliveries.c.id)
    .limit(bindparam("count", type_=Integer))
)
_due = _pending.where(deliveries.c.due_ms <= _now).subquery("due")
_later = _pending.where(deliveries.c.due_ms > _now).subquery("due_later")
WAITING = select(func.count(), func.min(_due.c.due_ms)).select_from(_due)
NOT_DUE = select(func.count(), func.count(case((is_leased(_later.c.owner), 1)))).select_from(_later)
_ids = rows(id=Text)
_owner = bindparam("lease", type_=Text)
LEASE = (
    update(deliveries)
    .values(owner=_owner, due_ms=bindparam("until", type_=BigInteger))
    .where(deliveries.c.id.in_(select(_ids.c.id)))
)
_NOTE = insert(pull_takes)
RETURN = (
    update(deliveries)
    .values(owner=null(), due_ms=_now)
    .where(deliveries.c.id.in_(select(_ids.c.id)), deliveries.c.owner == _owner)
)
_FORGET = delete(pull_takes).where(pull_takes.c.id.in_(select(_ids.c.id)))
NEXT_END = select(func.min(pull_takes.c.until_ms))
ENDED_TAKES = (
    select(pull_takes)
    .where(pull_takes.c.until_ms <= _now)
    .order_by(pull_takes.c.until_ms)
    .limit(_TAKES_AT_ONCE)
    .with_for_update(skip_locked=True)
)
_leases = rows("leases", id=Text, lease=Text)
_state = (
    deliveries.c.id,
    deliveries.c.owner,
    deliveries.c.endpoint_uid,
    deliveries.c.event_id,
    deliveries.c.attempts,
    deliveries.c.state,
    deliveries.c.due_ms,
)
STILL_LEASED = (
    select(*_state)
    .where(deliveries.c.id == _leases.c.id, deliveries.c.owner == _leases.c.lease)
    .order_by(deliveries.c.id)
    .with_for_update(of=deliveries)
)
BY_ID = (
    select(*_state)
    .where(deliveries.c.id.in_(select(_ids.c.id)), deliveries.c.endpoint_uid == bindparam("endpoint", type_=Text))
    .order_by(deliveries.c.id)
    .with_for_update()
)
_begins = rows("begun", id=Text, started_ms=BigInteger)
LEASE_ATTEMPTS = select(attempts.c.delivery_id, attempts.c.started_ms, attempts.c.error).where(
    attempts.c.delivery_id == _begins.c.id, attempts.c.started_ms == _begins.c.started_ms
)


def owner_of(take_id: str) -> str:
    """Return the owner of the messages that one request took."""
    return f"{LEASE_OWNER}{take_id}"


def take(connection: Connection, request: Take, *, now: int) -> Taken:
    """Lease messages that are due and that no consumer has, the oldest first, and read their bodies.

    If very many leases of the endpoint have ended, newer messages wait until these are settled.

    Args:
        connection: in a transaction.
        request: the request of a consumer.
        now: when the leases begin.
    """
    parameters = {"endpoint": request.endpoint_uid, "now": now}
    last = next(
        iter(run(connection, LAST_EXAMINED, {**parameters, "count": request.limit + _MARGIN - 1})), (now, AFTER_ALL)
    )
    parameters |= {"last_due": last[0], "last_id": last[1], "count": request.limit}
    rows = list(within(run(connection, TAKE, parameters), request.room))
    until = now + request.lease_ms
    take_id = request.new_id(now)
    if rows:
        ids = [row[0] for row in rows]
        lease = {"rows": packed_column(ids), "lease": owner_of(take_id), "until": until}
        run(connection, LEASE, lease)
        ids_json = to_json(ids).decode()
        row = {"id": take_id, "endpoint_uid": request.endpoint_uid, "until_ms": until, "delivery_ids": ids_json}
        connection.execute(_NOTE, row)
    return Taken(take_id, now, until, with_bodies(connection, rows))


def give_back(connection: Connection, take: Taken, *, now: int) -> None:
    """End the leases of a request whose consumer did not get them; this is no attempt."""
    ids = packed_column([message.id for message in take.messages])
    run(connection, RETURN, {"rows": ids, "lease": owner_of(take.id), "now": now})
    run(connection, _FORGET, {"rows": packed_column([take.id])})


def count_messages(connection: Connection, endpoint_uid: str, *, now: int) -> MessageCounts:
    """Count the messages of an endpoint, each kind up to `MOST_COUNTED`."""
    of_endpoint = {"endpoint": endpoint_uid, "now": now, "count": MOST_COUNTED}
    waiting, oldest_ms = connection.execute(WAITING, of_endpoint).one()
    later, lease_count = connection.execute(NOT_DUE, of_endpoint).one()
    return MessageCounts(waiting, oldest_ms, lease_count, later - lease_count)


class EndedLeases(NamedTuple):
    """The requests whose leases have ended.

    Attributes:
        requests: how many; consumers may have settled all their messages.
        settlements: of the messages that they still had.
    """

    requests: int
    settlements: list[Settlement]


def end_leases(connection: Connection, next_attempt: NextAttempt, *, slot: int, now: int) -> EndedLeases:
    """Settle the messages of leases that have ended as failed attempts, and forget the leases, up to a limit."""
    leases: list[tuple[str, str]] = []
    until: dict[str, int] = {}
    for row in list(connection.execute(ENDED_TAKES, {"now": now})):
        ids = from_json(row.delivery_ids)
        if leases and len(leases) + len(ids) > _MESSAGES_AT_ONCE:
            break
        until[row.id] = row.until_ms
        leases += [(its_id, owner_of(row.id)) for its_id in ids]
    if not until:
        return EndedLeases(0, [])
    settlements = []
    for delivery in list(run(connection, STILL_LEASED, {"leases": packed(leases)})):
        take_id = delivery[1].removeprefix(LEASE_OWNER)
        begin_ms, end_ms = LeaseId(delivery[0], take_id).began_ms, until[take_id]
        attempt = Attempt(0, begin_ms, max(0, end_ms - begin_ms), 0, LEASE_ENDED)
        settlements.append((_failed(delivery, attempt, next_attempt(delivery[4] + 1, end_ms)), delivery[1]))
    settle_leases(connection, settlements, slot=slot, now=now)
    run(connection, _FORGET, {"rows": packed_column(until)})
    return EndedLeases(len(until), [settlement for settlement, _ in settlements])


def settle_messages(
    connection: Connection,
    endpoint_uid: str,
    leases: Sequence[LeaseId],
    refusal: Nack | None,
    next_attempt: NextAttempt,
    *,
    slot: int,
    now: int,
) -> tuple[list[Settlement], dict[LeaseId, SettledLease]]:
    """Settle the messages that the leases still own.

    Args:
        connection: in a transaction.
        endpoint_uid: the endpoint; messages of others are unknown.
        leases: each once.
        refusal: why the consumer refuses them; None: it has processed them.
        next_attempt: returns when a refused message is due again.
        slot: the slot of this replica's counters.
        now: the time.

    Returns:
        The new settlements, and the result by lease; it has no unknown message.
    """
    ids = packed_column(sorted({lease.delivery_id for lease in leases}))
    deliveries = {row[0]: row for row in run(connection, BY_ID, {"rows": ids, "endpoint": endpoint_uid})}
    current_leases = [
        lease
        for lease in leases
        if lease.delivery_id in deliveries and deliveries[lease.delivery_id][1] == owner_of(lease.take_id)
    ]
    settlements = []
    for lease in current_leases:
        delivery = deliveries[lease.delivery_id]
        attempt = Attempt(0, lease.began_ms, max(0, now - lease.began_ms), ACK_STATUS)
        if refusal is None:
            settlement = Settlement(delivery[0], delivery[2], attempt, State.DELIVERED, event_id=delivery[3])
        else:
            due_ms = next_attempt(delivery[4] + 1, now)
            later = due_ms if due_ms is None or refusal.delay_ms is None else now + refusal.delay_ms
            settlement = _failed(delivery, attempt._replace(status_code=0, error=refusal.reason), later)
        settlements.append((settlement, owner_of(lease.take_id)))
    settle_leases(connection, settlements, slot=slot, now=now)
    changes = {settlement.delivery_id: settlement for settlement, _ in settlements}
    errors = _made(connection, [lease for lease in leases if lease.delivery_id in deliveries])
    results = {}
    for lease in leases:
        if (row := deliveries.get(lease.delivery_id)) is not None:
            results[lease] = _result(row, changes.get(row[0]), errors.get((row[0], lease.began_ms)))
    return [settlement for settlement, _ in settlements], results


_Row = Sequence[str | int | None]


def _failed(delivery: _Row, attempt: Attempt, due_ms: int | None) -> Settlement:
    settlement = Settlement(str(delivery[0]), str(delivery[2]), attempt, State.FAILED, event_id=str(delivery[3]))
    return settlement if due_ms is None else settlement._replace(state=State.PENDING, due_ms=due_ms)


def _made(connection: Connection, leases: Sequence[LeaseId]) -> Mapping[tuple[str, int], str]:
    """Return the errors of the attempts that leases made, by delivery and begin; a lease that holds made none."""
    begins = packed([(lease.delivery_id, lease.began_ms) for lease in leases])
    return {(its_id, began): error for its_id, began, error in run(connection, LEASE_ATTEMPTS, {"begun": begins})}


def _result(row: _Row, settlement: Settlement | None, error: str | None) -> SettledLease:
    """Return the state of a delivery now, and the error of the attempt that the lease made."""
    if settlement is not None:
        state, due_ms = settlement.state, settlement.due_ms if settlement.state is State.PENDING else None
    else:
        state = State(str(row[5]))
        due_ms = int(str(row[6])) if state is State.PENDING and row[1] is None else None
    return SettledLease(state, due_ms, error)
