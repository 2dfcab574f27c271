"""Statements that claim and release deliveries, and that renew the claim leases of replicas.

Sync functions on a connection. The caller begins and ends the transaction.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Any, Final

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
    case,
    delete,
    func,
    literal_column,
    not_,
    null,
    or_,
    select,
    true,
    update,
)

from hookwright_operator.store.records import Claimed, ClaimRequest, Replica
from hookwright_operator.store.schema import deliveries, events, instances, is_pending
from hookwright_operator.store.sql.dialect import dialect_of, insert, lock
from hookwright_operator.store.sql.rows import packed, packed_column, rows
from hookwright_operator.store.sql.statements import run

# Expired rows are kept for this many lease lengths, for people who read the database. No code needs them.
_REMEMBERED_LEASES = 10

# The key of the lock under which replicas get their slots, one replica at a time.
REGISTERING = 4_716_552_002

_now = bindparam("now", type_=BigInteger)
_me = bindparam("me", type_=Text)


def claimable() -> ColumnElement[bool]:
    """Return the condition that no living replica has claimed a delivery; it takes the parameters ``me`` and ``now``.

    A replica whose claim lease expired still knows its deliveries in flight, so it never claims them a second time.
    """
    living = select(instances.c.id).where(instances.c.lease_until_ms > _now)
    return or_(deliveries.c.owner.is_(None), and_(deliveries.c.owner != _me, deliveries.c.owner.not_in(living)))


LEASE_OWNER: Final = "pull:"
"""The owners of messages that consumers lease begin with it."""
_AFTER_LEASE_OWNERS: Final = "pull;"


def is_leased(owner: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that a consumer leases a message, by the owner of its delivery, which must not be NULL."""
    return and_(owner >= LEASE_OWNER, owner < _AFTER_LEASE_OWNERS)


SMALL_BODY: Final = 2048
"""Bytes up to which a body is read together with its delivery; larger bodies are read later, once for each event."""

GROUP_BYTES: Final = 4 * 1024 * 1024
"""Bytes of large bodies that one statement reads at most, except a single larger body: the driver copies them all."""

SIZE = func.length(events.c.body, type_=Integer)
_is_small = literal_column(str(SMALL_BODY)) >= SIZE
COLUMNS = (
    deliveries.c.id,
    deliveries.c.endpoint_uid,
    deliveries.c.event_id,
    events.c.type,
    deliveries.c.attempts,
    events.c.accepted_ms,
)
# The columns behind a large body would be reached through all of its pages.
SMALL_COLUMNS = tuple(case((_is_small, events.c[name])).label(name) for name in ("body", "trace", "attributes"))
_claimable = and_(is_pending, deliveries.c.due_ms <= _now, claimable())
_oldest_first = (deliveries.c.due_ms, deliveries.c.id)

CLAIM = (
    select(*COLUMNS, SIZE.label("size"), *SMALL_COLUMNS)
    .join(events, events.c.id == deliveries.c.event_id)
    .where(deliveries.c.endpoint_uid == bindparam("endpoint_uid", type_=Text), _claimable)
    .order_by(*_oldest_first)
    .limit(bindparam("count", type_=Integer))
)

# The same for many endpoints in one round trip. SQLite has no round trips, and no LATERAL. PostgreSQL's driver reads
# all rows at once, so the statement itself stops at the end of an endpoint's share of the bytes.
_wants = rows(endpoint_uid=Text, count=Integer)
_picks = (
    select(deliveries.c.id, deliveries.c.due_ms)
    .where(deliveries.c.endpoint_uid == _wants.c.endpoint_uid, _claimable)
    .order_by(*_oldest_first)
    .limit(_wants.c.count)
    .with_for_update(skip_locked=True)
    .correlate(_wants)
    .lateral("picked")
)
# Not columns of `deliveries`: PostgreSQL would read the whole index in this order instead of sorting a few rows.
_in_order = (_picks.c.due_ms, _picks.c.id)
_candidates = (
    select(
        *COLUMNS,
        SIZE.label("size"),
        *SMALL_COLUMNS,
        func.row_number().over(partition_by=_wants.c.endpoint_uid, order_by=_in_order).label("place"),
        func.sum(SIZE).over(partition_by=_wants.c.endpoint_uid, order_by=_in_order, rows=(None, 0)).label("bytes"),
    )
    .select_from(_wants.join(_picks, true()))
    .join(deliveries, deliveries.c.id == _picks.c.id)
    .join(events, events.c.id == deliveries.c.event_id)
    .subquery("sized")
)
_columns = [column for column in _candidates.c if column.name not in {"place", "bytes"}]
CLAIM_BESIDE_OTHERS = (
    select(*_columns)
    .where(or_(_candidates.c.place == literal_column("1"), _candidates.c.bytes <= bindparam("share", type_=BigInteger)))
    .order_by(_candidates.c.endpoint_uid, _candidates.c.place)
)
_ids = rows(id=Text)
BODIES = select(events.c.id, events.c.body, events.c.trace, events.c.attributes).where(
    events.c.id.in_(select(_ids.c.id))
)
SET_OWNER = update(deliveries).values(owner=_me).where(deliveries.c.id.in_(select(_ids.c.id)))
RELEASE = (
    update(deliveries)
    .values(owner=null())
    .where(deliveries.c.id.in_(select(_ids.c.id)), deliveries.c.owner == _me)
    .returning(deliveries.c.endpoint_uid)
)

_not_leased = or_(deliveries.c.owner.is_(None), not_(is_leased(deliveries.c.owner)))
_longest = rows(endpoint_uid=Text, longest_ms=BigInteger)
_due_too_late = (
    select(deliveries.c.id)
    .select_from(_longest.join(deliveries, deliveries.c.endpoint_uid == _longest.c.endpoint_uid))
    .where(is_pending, deliveries.c.due_ms > _now + _longest.c.longest_ms, claimable(), _not_leased)
    .limit(bindparam("count", type_=Integer))
    .with_for_update(of=deliveries, skip_locked=True)
)
HASTEN = (
    update(deliveries)
    .values(due_ms=_now)
    .where(deliveries.c.id.in_(_due_too_late))
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
_DROP_PREDECESSOR = delete(instances).where(instances.c.name == bindparam("name", type_=Text))
FORGET = delete(instances).where(instances.c.lease_until_ms < bindparam("before", type_=BigInteger))


def claim(connection: Connection, calls: Sequence[ClaimRequest], *, owner: str, now: int) -> list[list[Claimed]]:
    """Claim deliveries that are due, the oldest first, and read their bodies.

    An endpoint always gets its oldest delivery, even a large one. It gets more deliveries while their bodies fit into
    an equal share of the call's ``room``. Deliveries of one event share one body.
    """
    answers = []
    for call in calls:
        rows = list(_pick(connection, call, owner=owner, now=now))
        if rows:
            run(connection, SET_OWNER, {"rows": packed_column([row[0] for row in rows]), "me": owner})
        answers.append(with_bodies(connection, rows))
    return answers


ClaimRow = Row[str, str, str, str, int, int, int, bytes | None, str | None, str | None]
"""A delivery that a claim takes; body, trace and attributes are None if the body is large."""


def _pick(connection: Connection, call: ClaimRequest, *, owner: str, now: int) -> Iterable[ClaimRow]:
    common = {"now": now, "me": owner}
    share = call.room // max(1, len(call.wants))
    if dialect_of(connection).is_shared:
        return run(connection, CLAIM_BESIDE_OTHERS, {"rows": packed(call.wants), "share": share, **common})
    return chain.from_iterable(
        within(run(connection, CLAIM, {"endpoint_uid": uid, "count": limit, **common}), share)
        for uid, limit in call.wants
    )


def within(rows: Iterable[ClaimRow], share: int) -> Iterator[ClaimRow]:
    """Yield the first delivery, and the next ones while all bodies together fit into a share of bytes."""
    total = 0
    for row in rows:
        before, total = total, total + row[6]
        if before and total > share:
            return
        yield row


def with_bodies(connection: Connection, rows: Sequence[ClaimRow]) -> list[Claimed]:
    """Read the large bodies, once for each event, and return the deliveries."""
    bodies: dict[str, Sequence[Any]] = {row[2]: row[7:] for row in rows}
    large = {event_id: size for _, _, event_id, _, _, _, size, body, *_ in rows if body is None}
    for group in groups(large, GROUP_BYTES):
        for event_id, *body in run(connection, BODIES, {"rows": packed_column(group)}):
            bodies[event_id] = body
    claims = []
    for delivery_id, endpoint_uid, event_id, event_type, attempts, accepted_ms, *_ in rows:
        identity = (delivery_id, endpoint_uid, event_id, event_type)
        body, *rest = bodies[event_id]
        claims.append(Claimed(*identity, body, attempts, accepted_ms, *rest))
    return claims


def groups(sizes: Mapping[str, int], room: int) -> Iterator[list[str]]:
    """Split events into groups whose bodies have at most so many bytes together; a larger body is alone."""
    group: list[str] = []
    total = 0
    for event_id, size in sizes.items():
        if group and total + size > room:
            yield group
            group, total = [], 0
        group.append(event_id)
        total += size
    if group:
        yield group


def release(connection: Connection, calls: Sequence[Sequence[str]], *, owner: str) -> list[frozenset[str]]:
    """Release pending deliveries that the owner claimed; return the uids of their endpoints."""
    ids = packed_column([delivery_id for call in calls for delivery_id in call])
    uids = frozenset(connection.scalars(RELEASE, {"rows": ids, "me": owner}))
    return [uids] * len(calls)


def hasten(
    connection: Connection, longest_ms: Sequence[tuple[str, int]], *, owner: str, now: int, limit: int
) -> list[str]:
    """Make unclaimed deliveries due now that are due too late, because the clock was set back or the schedule changed.

    Args:
        connection: in a transaction.
        longest_ms: endpoint uids, each with the longest time until a delivery of the endpoint may be due.
        owner: the replica that asks.
        now: the time.
        limit: how many deliveries to change at most.

    Returns:
        The endpoint uid of each changed delivery.
    """
    bounds = {"rows": packed(longest_ms), "count": limit}
    return list(connection.scalars(HASTEN, {**bounds, "me": owner, "now": now}))


def register(connection: Connection, member: Replica, *, now: int, lease_ms: int, alone: bool) -> int:
    """Register a replica with a claim lease; return a slot for its counters that no living replica uses.

    Args:
        connection: in a transaction.
        member: the replica. An earlier replica of this name is dead, so its claims are released at once.
        now: when its claim lease begins.
        lease_ms: how long the claim lease lasts.
        alone: every other replica is known to be dead, so their claims are released at once.
    """
    if alone:
        connection.execute(delete(instances))
    lock(connection, REGISTERING)
    if member.name:
        connection.execute(_DROP_PREDECESSOR, {"name": member.name})
    used_slots = set(connection.scalars(_TAKEN_SLOTS, {"now": now}))
    slot = next(slot for slot in count() if slot not in used_slots)
    renew_lease(connection, member, slot=slot, now=now, lease_ms=lease_ms)
    return slot


def renew_lease(connection: Connection, member: Replica, *, slot: int, now: int, lease_ms: int) -> int:
    """Renew a replica's claim lease, which covers its claims and shards; return when the lease expires."""
    until = now + lease_ms
    row = {"me": member.id, "name": member.name, "delivers": member.delivers}
    connection.execute(RENEW, {**row, "until": until, "slot": slot})
    connection.execute(FORGET, {"before": now - _REMEMBERED_LEASES * lease_ms})
    return until
