"""The deliveries of a few events, found by the primary key.

An index by event writes one more tree entry for each delivery at acceptance. So there is none, and a read uses the time
that is part of each id. The deliveries of an event have the time of the event, or a little less. A read examines all
deliveries from shortly before the event on, until it has found as many as the event has.

Sync functions on a connection.
"""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection, Integer, Text, and_, bindparam, func, or_, select

from hookwright_operator.ids import epoch_ms_of, first_delivery_id
from hookwright_operator.store.schema import deliveries
from hookwright_operator.store.sql.paging import STRETCH_ROWS, RowBudget
from hookwright_operator.store.sql.rows import among, packed_column, rows
from hookwright_operator.store.sql.statements import run

MARGIN_MS: Final = 1000
"""Time by which the id of a delivery may be older than that of its event, because it is made before it."""
_FIRST_ROWS: Final = 250
"""Rows that the first statement examines; each further statement examines twice as many, up to `STRETCH_ROWS`."""

_begin, _end = bindparam("begin", type_=Text), bindparam("end", type_=Text)
_state = bindparam("state", type_=Text)
_uids = rows("uids", uid=Text)
_ids = rows(id=Text)
_next = (
    select(deliveries.c.id)
    .where(deliveries.c.id > _begin)
    .order_by(deliveries.c.id)
    .limit(bindparam("count", type_=Integer))
    .subquery("stretch")
)
NEXT = select(func.count(), func.max(_next.c.id))
_of_endpoints = and_(
    deliveries.c.endpoint_uid.in_(select(_uids.c.uid)), or_(_state.is_(None), deliveries.c.state == _state)
)
OF_EVENTS = select(deliveries.c.id, deliveries.c.event_id, _of_endpoints).where(
    deliveries.c.id > _begin,
    deliveries.c.id <= _end,
    among(deliveries.c.event_id, _ids),
)


def earliest(event_id: str) -> str:
    """Return an id below those of all deliveries of an event."""
    return first_delivery_id(epoch_ms_of(event_id) - MARGIN_MS)


def find(
    connection: Connection,
    totals: Mapping[str, int],
    uids: str,
    state: str | None,
    *,
    budget: RowBudget,
) -> list[str] | None:
    """Find the deliveries of events to some endpoints.

    Args:
        connection: a connection that can read.
        totals: by event, how many deliveries it has, those to other endpoints included.
        uids: the endpoints, packed.
        state: only deliveries in this state, or None.
        budget: reduced by the rows examined, and by the number of events for each statement.

    Returns:
        The ids, the newest first, or None if the budget was used up before all deliveries were found.
    """
    missing = dict(totals)
    which = {"rows": packed_column(totals), "uids": uids, "state": state}
    found: list[str] = []
    reached, size = "", _FIRST_ROWS
    for event_id in sorted(totals):
        reached = max(reached, earliest(event_id))
        while missing[event_id] > 0:
            if budget.rows <= 0:
                return None
            asked = min(size, budget.rows)
            [(examined, last)] = run(connection, NEXT, {"begin": reached, "count": asked})
            budget.rows -= examined + len(totals)
            for delivery_id, its_event, wanted in run(connection, OF_EVENTS, {**which, "begin": reached, "end": last}):
                missing[its_event] -= 1
                if wanted:
                    found.append(delivery_id)
            if examined < asked:
                return sorted(found, reverse=True)
            reached, size = last, min(2 * size, STRETCH_ROWS)
    return sorted(found, reverse=True)
