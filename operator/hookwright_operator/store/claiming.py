"""Claims and the leases behind them.

Sync functions on a connection, inside a transaction that the caller begins and ends.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, count

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Connection,
    Integer,
    Row,
    Text,
    and_,
    bindparam,
    delete,
    func,
    null,
    or_,
    select,
    true,
    update,
)

# Of the two engines' identical spellings the one that both compile.
from sqlalchemy.dialects.postgresql import insert

from hookwright_operator.store.engine import has_company
from hookwright_operator.store.model import Claimed, Member, Wants
from hookwright_operator.store.rows import packed, rows
from hookwright_operator.store.schema import deliveries, events, instances, is_pending
from hookwright_operator.store.statements import run

# Expired rows are kept this many leases long for whoever looks into the database; nothing needs them.
_REMEMBERED_LEASES = 10

# The key of the lock under which PostgreSQL gives out slots, one at a time.
REGISTERING = 4_716_552_002

_now = bindparam("now", type_=BigInteger)
_me = bindparam("me", type_=Text)


def claimable() -> ColumnElement[bool]:
    """The condition that nobody living holds a delivery; takes the parameters ``me`` and ``now``.

    An instance whose lease ran out still knows what it has in flight, so it never takes that a second time itself.
    """
    living = select(instances.c.id).where(instances.c.lease_until_ms > _now)
    return or_(deliveries.c.owner.is_(None), and_(deliveries.c.owner != _me, deliveries.c.owner.not_in(living)))


_columns = (
    deliveries.c.id,
    deliveries.c.endpoint_uid,
    deliveries.c.event_id,
    events.c.type,
    events.c.body,
    deliveries.c.attempts,
    events.c.accepted_ms,
    events.c.trace,
)
_claimable = and_(is_pending, deliveries.c.due_ms <= _now, claimable())
_oldest_first = (deliveries.c.due_ms, deliveries.c.id)

CLAIM = (
    select(*_columns)
    .join(events, events.c.id == deliveries.c.event_id)
    .where(deliveries.c.endpoint_uid == bindparam("endpoint_uid", type_=Text), _claimable)
    .order_by(*_oldest_first)
    .limit(bindparam("count", type_=Integer))
)

# The same for many endpoints in one round trip; SQLite, which needs none, has no LATERAL.
_wants = rows(endpoint_uid=Text, count=Integer)
_picked = (
    select(deliveries.c.id)
    .where(deliveries.c.endpoint_uid == _wants.c.endpoint_uid, _claimable)
    .order_by(*_oldest_first)
    .limit(_wants.c.count)
    .with_for_update(skip_locked=True)
    .correlate(_wants)
    .lateral("picked")
)
CLAIM_BESIDE_OTHERS = (
    select(*_columns)
    .select_from(_wants.join(_picked, true()))
    .join(deliveries, deliveries.c.id == _picked.c.id)
    .join(events, events.c.id == deliveries.c.event_id)
    .order_by(*_oldest_first)
)
_ids = rows(id=Text)
OWN = update(deliveries).values(owner=_me).where(deliveries.c.id.in_(select(_ids.c.id)))
RELEASE = (
    update(deliveries)
    .values(owner=null())
    .where(deliveries.c.id.in_(select(_ids.c.id)), deliveries.c.owner == _me)
    .returning(deliveries.c.endpoint_uid)
)

_register = insert(instances).values(
    id=_me,
    lease_until_ms=bindparam("until", type_=BigInteger),
    slot=bindparam("slot", type_=Integer),
    name=bindparam("name", type_=Text),
    delivers=bindparam("delivers", type_=Boolean),
)
RENEW = _register.on_conflict_do_update(
    index_elements=list(instances.primary_key), set_={"lease_until_ms": _register.excluded.lease_until_ms}
)
_TAKEN_SLOTS = select(instances.c.slot).where(instances.c.lease_until_ms > _now)
_SUCCEED = delete(instances).where(instances.c.name == bindparam("name", type_=Text))
FORGET = delete(instances).where(instances.c.lease_until_ms < bindparam("before", type_=BigInteger))


def claim(connection: Connection, calls: Sequence[Wants], *, owner: str, now: int) -> list[list[Claimed]]:
    """Give the owner the deliveries that are due, the oldest first; a call names each endpoint once, with a limit."""
    answers = []
    for wants in calls:
        claimed = [Claimed(*row) for row in _pick(connection, wants, owner=owner, now=now)]
        if claimed:
            ids = packed([(delivery.id,) for delivery in claimed])
            run(connection, OWN, {"rows": ids, "me": owner})
        answers.append(claimed)
    return answers


def _pick(
    connection: Connection, wants: Wants, *, owner: str, now: int
) -> Iterable[Row[str, str, str, str, bytes, int, int, str | None]]:
    if has_company(connection):
        return connection.execute(CLAIM_BESIDE_OTHERS, {"rows": packed(wants), "now": now, "me": owner})
    common = {"now": now, "me": owner}
    return chain.from_iterable(
        run(connection, CLAIM, {"endpoint_uid": uid, "count": limit, **common}) for uid, limit in wants
    )


def release(connection: Connection, calls: Sequence[Sequence[str]], *, owner: str) -> list[frozenset[str]]:
    """Let go of deliveries that the owner claimed and that are still pending; return the uids of their endpoints."""
    ids = packed([(delivery_id,) for call in calls for delivery_id in call])
    uids = frozenset(connection.scalars(RELEASE, {"rows": ids, "me": owner}))
    return [uids] * len(calls)


def register(connection: Connection, member: Member, *, now: int, lease_ms: int, alone: bool) -> int:
    """Enter an instance with a lease, and return the slot of its counters, which no living instance has.

    Args:
        connection: in a transaction.
        member: the instance. An earlier one of its name is dead, so what that had claimed is free at once.
        now: when its lease begins.
        lease_ms: for how long it holds.
        alone: every other instance is known to be dead, so what it had claimed is free at once.
    """
    if alone:
        connection.execute(delete(instances))
    if has_company(connection):
        connection.execute(select(func.pg_advisory_xact_lock(REGISTERING)))
    if member.name:
        connection.execute(_SUCCEED, {"name": member.name})
    taken = set(connection.scalars(_TAKEN_SLOTS, {"now": now}))
    slot = next(slot for slot in count() if slot not in taken)
    renew_lease(connection, member, slot=slot, now=now, lease_ms=lease_ms)
    return slot


def renew_lease(connection: Connection, member: Member, *, slot: int, now: int, lease_ms: int) -> int:
    """Let an instance's claims and shards be its own from now on for the length of a lease, and return until when."""
    until = now + lease_ms
    row = {"me": member.id, "name": member.name, "delivers": member.delivers}
    connection.execute(RENEW, {**row, "until": until, "slot": slot})
    connection.execute(FORGET, {"before": now - _REMEMBERED_LEASES * lease_ms})
    return until
