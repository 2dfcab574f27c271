"""Counters of endpoints: statements that add to them and sum them up.

Sync functions on a connection. The caller begins and ends the transaction.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Label,
    Select,
    Text,
    bindparam,
    case,
    cast,
    func,
    literal,
    select,
    true,
)

from hookwright_operator.store.schema import counters
from hookwright_operator.store.sql.dialect import insert
from hookwright_operator.store.sql.rows import packed, rows
from hookwright_operator.store.sql.statements import run


class Change(NamedTuple):
    """Numbers to add to the counters of an endpoint.

    Attributes:
        last_attempt_ms: the time of an attempt; it is stored unless the stored attempt is later. None if there is none.
        last_status_code: the status of that attempt.
    """

    endpoint_uid: str
    accepted: int = 0
    delivered: int = 0
    failed: int = 0
    discarded: int = 0
    last_attempt_ms: int | None = None
    last_status_code: int | None = None


_changes = rows(
    "added",
    endpoint_uid=Text,
    accepted=Integer,
    delivered=Integer,
    failed=Integer,
    discarded=Integer,
    last_attempt_ms=BigInteger,
    last_status_code=Integer,
)
_add = insert(counters).from_select(
    [*Change._fields, "slot"], select(_changes, bindparam("slot", type_=Integer)).where(true())
)
_newer = _add.excluded.last_attempt_ms >= func.coalesce(counters.c.last_attempt_ms, 0)
ADD = _add.on_conflict_do_update(
    index_elements=list(counters.primary_key),
    set_={
        **{name: counters.c[name] + _add.excluded[name] for name in ("accepted", "delivered", "failed", "discarded")},
        **{
            name: case((_newer, _add.excluded[name]), else_=counters.c[name])
            for name in ("last_attempt_ms", "last_status_code")
        },
    },
)


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


def add_counts(connection: Connection, slot: int, changes: Sequence[Change]) -> None:
    """Change counters in a slot.

    Args:
        connection: in a transaction.
        slot: the slot of this replica.
        changes: each endpoint once.
    """
    run(connection, ADD, added(changes, slot))


def added(changes: Iterable[Change], slot: int) -> dict[str, object]:
    """Return the parameters of `ADD`, sorted: two transactions that lock rows in the same order cannot deadlock."""
    return {"added": packed(sorted(changes)), "slot": slot}
