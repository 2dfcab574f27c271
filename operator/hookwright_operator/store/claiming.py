"""Claims and the leases behind them.

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
    delete,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.sqlite import insert

from hookwright_operator.store.model import Claimed
from hookwright_operator.store.rows import packed, rows
from hookwright_operator.store.schema import deliveries, events, instances, is_pending

# Expired rows are kept this many leases long for whoever looks into the database; nothing needs them.
_REMEMBERED_LEASES = 10

_now = bindparam("now", type_=BigInteger)
_me = bindparam("me", type_=Text)


def claimable() -> ColumnElement[bool]:
    """The condition that nobody living holds a delivery; takes the parameters ``me`` and ``now``.

    An instance whose lease ran out still knows what it has in flight, so it never takes that a second time itself.
    """
    living = select(instances.c.id).where(instances.c.lease_until_ms > _now)
    return or_(deliveries.c.owner.is_(None), and_(deliveries.c.owner != _me, deliveries.c.owner.not_in(living)))


CLAIM = (
    select(
        deliveries.c.id,
        deliveries.c.endpoint_uid,
        deliveries.c.event_id,
        events.c.type,
        events.c.body,
        deliveries.c.attempts,
        events.c.accepted_ms,
    )
    .join(events, events.c.id == deliveries.c.event_id)
    .where(
        deliveries.c.endpoint_uid == bindparam("endpoint_uid", type_=Text),
        is_pending,
        deliveries.c.due_ms <= _now,
        claimable(),
    )
    .order_by(deliveries.c.due_ms, deliveries.c.id)
    .limit(bindparam("count", type_=Integer))
    .with_for_update(of=deliveries, skip_locked=True)
)
_ids = rows(id=Text)
OWN = update(deliveries).values(owner=_me).where(deliveries.c.id.in_(select(_ids.c.id)))
RELEASE = (
    update(deliveries)
    .values(owner=null())
    .where(deliveries.c.id.in_(select(_ids.c.id)), deliveries.c.owner == _me, is_pending)
)

_register = insert(instances).values(id=_me, lease_until_ms=bindparam("until", type_=BigInteger))
RENEW = _register.on_conflict_do_update(
    index_elements=list(instances.primary_key), set_={"lease_until_ms": _register.excluded.lease_until_ms}
)
FORGET = delete(instances).where(instances.c.lease_until_ms < bindparam("before", type_=BigInteger))


def claim(
    connection: Connection, calls: Sequence[Sequence[tuple[str, int]]], *, owner: str, now: int
) -> list[list[Claimed]]:
    """Give the owner the deliveries that are due, the oldest first; a call names each endpoint once, with a limit."""
    answers = []
    for wants in calls:
        claimed = [
            Claimed(*row)
            for endpoint_uid, count in wants
            for row in connection.execute(
                CLAIM, {"endpoint_uid": endpoint_uid, "count": count, "now": now, "me": owner}
            )
        ]
        if claimed:
            ids = packed([(delivery.id,) for delivery in claimed])
            connection.execute(OWN, {"rows": ids, "me": owner})
        answers.append(claimed)
    return answers


def release(connection: Connection, calls: Sequence[Sequence[str]], *, owner: str) -> list[None]:
    """Let go of deliveries that the owner claimed and that are still pending."""
    ids = packed([(delivery_id,) for call in calls for delivery_id in call])
    connection.execute(RELEASE, {"rows": ids, "me": owner})
    return [None] * len(calls)


def renew_lease(connection: Connection, *, owner: str, now: int, lease_ms: int) -> int:
    """Let the owner's claims hold from now on for the length of a lease, and return until when."""
    until = now + lease_ms
    connection.execute(RENEW, {"me": owner, "until": until})
    connection.execute(FORGET, {"before": now - _REMEMBERED_LEASES * lease_ms})
    return until


def bury_others(connection: Connection, *, owner: str) -> None:
    """Declare every other instance dead, so that what it had claimed is free at once."""
    connection.execute(delete(instances).where(instances.c.id != owner))
