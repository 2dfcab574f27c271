"""Counters of endpoints: statements that add to them and sum them up.

Sync functions on a connection. The caller begins and ends the transaction.
"""

from collections.abc import Iterable, Sequence

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Label,
    Select,
    Text,
    bindparam,
    cast,
    func,
    literal,
    select,
    true,
)

# The PostgreSQL construct compiles on SQLite too: both dialects spell ON CONFLICT alike.
from sqlalchemy.dialects.postgresql import Insert, insert

from hookwright_operator.store.schema import counters
from hookwright_operator.store.sql.rows import packed, rows
from hookwright_operator.store.sql.statements import Each, few, run

Change = tuple[str, int, int, int, int]
"""An endpoint's uid, then the numbers to add to accepted, delivered, failed and discarded."""


def _adding(new: Insert) -> Insert:
    return new.on_conflict_do_update(
        index_elements=list(counters.primary_key),
        set_={name: counters.c[name] + new.excluded[name] for name in ("accepted", "delivered", "failed", "discarded")},
    )


_added = rows("added", endpoint_uid=Text, accepted=Integer, delivered=Integer, failed=Integer, discarded=Integer)
ADD = _adding(
    insert(counters).from_select(
        ["endpoint_uid", "slot", "accepted", "delivered", "failed", "discarded"],
        select(
            _added.c.endpoint_uid,
            bindparam("slot", type_=Integer),
            _added.c.accepted,
            _added.c.delivered,
            _added.c.failed,
            _added.c.discarded,
        ).where(true()),
    )
)
_ADD_EACH = Each(_adding(insert(counters)), *counters.columns.keys())


def _sum(column: ColumnElement[int]) -> Label[int]:
    return cast(func.sum(column), BigInteger).label(None)


pending = func.sum(counters.c.accepted - counters.c.delivered - counters.c.failed - counters.c.discarded)
"""An aggregate: how many deliveries of an endpoint are pending."""

# Time and status of the latest attempt as one number, so that one max() finds both.
_latest = func.max(counters.c.last_attempt_ms * 1000 + counters.c.last_status_code)

SUMS: Select[str, int, int, int, int, int | None, int | None] = select(
    counters.c.endpoint_uid,
    cast(pending, BigInteger),
    _sum(counters.c.delivered),
    _sum(counters.c.failed),
    _sum(counters.c.discarded),
    _latest // literal(1000),
    _latest % literal(1000),
).group_by(counters.c.endpoint_uid)
"""The fields of `records.Counts` by endpoint uid."""

BUSY: Select[str] = select(counters.c.endpoint_uid).group_by(counters.c.endpoint_uid).having(pending > 0)
"""The endpoints that have pending deliveries."""


def add(connection: Connection, slot: int, changes: Sequence[Change]) -> None:
    """Change counters in a slot.

    Args:
        connection: in a transaction.
        slot: the slot of this replica.
        changes: each endpoint once.
    """
    if few(connection, changes):
        _ADD_EACH.run(connection, [(uid, slot, *numbers, None, None) for uid, *numbers in changes])
    else:
        run(connection, ADD, added(slot, changes))


def added(slot: int, changes: Iterable[Change]) -> dict[str, object]:
    """Return the parameters of ADD."""
    # Sorted by uid, because two transactions that lock rows in the same order cannot deadlock.
    return {"added": packed(sorted(changes)), "slot": slot}
