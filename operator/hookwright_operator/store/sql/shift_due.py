"""Statements that make retries due earlier after the clock was set back.

A clock that is set back moves due times far into the future.

Sync functions on a connection. The caller begins and ends the transaction.
"""

from sqlalchemy import BigInteger, Connection, Integer, Text, bindparam, select, tuple_, update

from hookwright_operator.store.schema import deliveries, is_pending
from hookwright_operator.store.sql.rows import packed_column, rows

Reached = tuple[int, str]
"""The previous ``due_ms`` and the id of a delivery. An endpoint's deliveries are processed in this order."""

_reached = (bindparam("reached_ms", type_=BigInteger), bindparam("reached_id", type_=Text))
NEXT = (
    select(deliveries.c.id, deliveries.c.due_ms)
    .where(
        deliveries.c.endpoint_uid == bindparam("endpoint", type_=Text),
        is_pending,
        tuple_(deliveries.c.due_ms, deliveries.c.id) > tuple_(*_reached),
    )
    .order_by(deliveries.c.due_ms, deliveries.c.id)
    .limit(bindparam("count", type_=Integer))
    .with_for_update()
)
_ids = rows(id=Text)
SHIFT = (
    update(deliveries)
    .values(due_ms=deliveries.c.due_ms - bindparam("by", type_=BigInteger))
    .where(deliveries.c.id.in_(select(_ids.c.id)), is_pending)
)


def shift(connection: Connection, endpoint_uid: str, *, by_ms: int, reached: Reached, limit: int) -> Reached | None:
    """Make pending deliveries that are due after a position due earlier; return the next position, None at the end.

    Args:
        connection: in a transaction.
        endpoint_uid: the endpoint of the deliveries.
        by_ms: how much earlier they are due, in milliseconds.
        reached: the position. Deliveries that are due at it or before it do not change. A changed delivery lies before
            the next position, so no call changes it again.
        limit: how many deliveries to change at most.
    """
    at = {"reached_ms": reached[0], "reached_id": reached[1]}
    found = connection.execute(NEXT, {"endpoint": endpoint_uid, "count": limit, **at}).all()
    if found:
        connection.execute(SHIFT, {"rows": packed_column([row.id for row in found]), "by": by_ms})
    return (found[-1].due_ms, found[-1].id) if len(found) == limit else None
