"""Events of a project that an endpoint has no delivery of, and deliveries of them that a replay makes.

No index finds the events of a project. A search examines all events of a range of ids in stretches, and ends when its
budget is used up. The deliveries that a replay makes have ids with the times of their events, so reads that start at
the time of an event find them.

The event of a recorded test was sent to one endpoint by hand, so no other endpoint has missed it.

A fan-out writes the deliveries of its events later than the events. So a search ends before the oldest fan-out of the
namespace that has not ended; otherwise the endpoint would get these events twice.

Sync functions on a connection.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from sqlalchemy import Connection, Integer, Text, bindparam, func, select, update

from hookwright_operator.ids import delivery_id_like
from hookwright_operator.store.schema import deliveries, events, fan_outs
from hookwright_operator.store.sql import event_deliveries
from hookwright_operator.store.sql.accept import write_deliveries
from hookwright_operator.store.sql.paging import AFTER_ALL, ROWS, Found, RowBudget
from hookwright_operator.store.sql.rows import packed_column, rows
from hookwright_operator.store.sql.statements import run

_STRETCH_ROWS: Final = 500
"""Events that one statement examines."""
_TRIES: Final = ((_STRETCH_ROWS, 8), (_STRETCH_ROWS // 8, 8), (_STRETCH_ROWS // 64, 8), (1, 1))
"""Numbers of events whose deliveries are looked for together, and the divisor of the rows that this may examine.

The deliveries of a few events can be spread over many rows of other tenants. Then fewer events are examined.
"""

_after, _before = bindparam("after", type_=Text), bindparam("before", type_=Text)
_next = (
    select(events.c.id)
    .where(events.c.id > _after, events.c.id < _before)
    .order_by(events.c.id)
    .limit(bindparam("count", type_=Integer))
    .subquery("stretch")
)
STRETCH = select(func.count(), func.max(_next.c.id))
_types = rows("types", type=Text)
OF_PROJECT = (
    select(events.c.id, events.c.deliveries)
    .where(
        events.c.id > _after,
        events.c.id < _before,
        events.c.namespace == bindparam("namespace", type_=Text),
        events.c.project == bindparam("project", type_=Text),
        events.c.type.in_(select(_types.c.type)),
    )
    .order_by(events.c.id)
)
FIRST_FAN_OUT = (
    select(fan_outs.c.id)
    .where(fan_outs.c.id < _before, fan_outs.c.namespace == bindparam("namespace", type_=Text))
    .order_by(fan_outs.c.id)
    .limit(1)
)
_ids = rows(id=Text)
EVENTS_OF = select(deliveries.c.event_id).where(deliveries.c.id.in_(select(_ids.c.id)))
_COUNT_ONE_MORE = update(events).values(deliveries=events.c.deliveries + 1).where(events.c.id.in_(select(_ids.c.id)))
_EXISTING = select(events.c.id).where(events.c.id.in_(select(_ids.c.id))).order_by(events.c.id)


class Range(NamedTuple):
    """A range of the events that an endpoint would have got.

    Attributes:
        project: namespace and name of the endpoint's project.
        types: the event types.
        after: the range begins above this id.
        before: the range ends below this id.
    """

    endpoint_uid: str
    project: tuple[str, str]
    types: Sequence[str]
    after: str
    before: str


def find(connection: Connection, within: Range, *, limit: int, rows_at_most: int) -> Found:
    """Find the oldest events of a range that the endpoint has no delivery of.

    Args:
        connection: a connection that can read.
        within: the range.
        limit: how many events to find at most.
        rows_at_most: how many events to examine; beside them, up to `ROWS` deliveries are examined.

    Returns:
        The ids of the events, the oldest first, and the id up to which everything was examined, None if that is the
        whole range. This id is the beginning of the range if the first event belongs to a fan-out that has not ended.
    """
    namespace, project = within.project
    of_project = {"namespace": namespace, "project": project, "types": packed_column(within.types)}
    after = within.after
    of_events, of_deliveries = RowBudget(rows_at_most), RowBudget(ROWS)
    found: list[str] = []
    while True:
        asked = min(_STRETCH_ROWS, max(1, of_events.rows))
        [(examined, highest)] = run(connection, STRETCH, {"after": after, "before": within.before, "count": asked})
        of_events.rows -= examined + 1
        if examined:
            which = {**of_project, "after": after, "before": highest + AFTER_ALL}
            # SQLAlchemy's result has a method `keys`, so dict() would take it for a mapping.
            totals = dict(iter(run(connection, OF_PROJECT, which)))
            # After the events: a fan-out of these events that ends from here on is seen, or its deliveries are.
            unwritten = [one for (one,) in run(connection, FIRST_FAN_OUT, which)]
            written = {event: total for event, total in totals.items() if not unwritten or event < unwritten[0]}
            missed, reached = _missed(connection, written, within.endpoint_uid, of_deliveries)
            found += missed
            if len(found) >= limit:
                return Found(found[:limit], found[limit - 1])
            if reached is not None:
                return Found(found, reached)
            if unwritten:
                return Found(found, max(written, default=after))
        if examined < asked:
            return Found(found, None)
        if of_events.rows <= 0 or of_deliveries.rows < ROWS // 2:
            return Found(found, highest)
        after = highest


def _missed(
    connection: Connection, totals: Mapping[str, int], endpoint_uid: str, left: RowBudget
) -> tuple[list[str], str | None]:
    """Return the events that an endpoint has missed, and the last one that was examined, None if all were.

    Args:
        connection: a connection that can read.
        totals: by event, the oldest first, how many deliveries it has.
        endpoint_uid: the endpoint.
        left: the rows that may be examined; reduced by those that were.
    """
    part: dict[str, int] = {}
    got: list[str] | None = []
    for number, divisor in _TRIES:
        if number > 1 and len(part) == min(number, len(totals)):
            continue
        part = dict(islice(totals.items(), number))
        sent = {event: total for event, total in part.items() if total}
        budget = RowBudget(left.rows // divisor)
        left.rows -= budget.rows
        got = event_deliveries.find(connection, sent, packed_column([endpoint_uid]), None, budget=budget, tests=True)
        left.rows += budget.rows
        if got is not None:
            break
    # A single event whose deliveries are spread over too many rows is not sent: the endpoint may have got it.
    known = set(part) if got is None else {one for (one,) in run(connection, EVENTS_OF, {"rows": packed_column(got)})}
    return [event for event in part if event not in known], None if len(part) == len(totals) else [*part][-1]


def deliver(connection: Connection, event_ids: Sequence[str], endpoint_uid: str, *, slot: int, now: int) -> int:
    """Write pending deliveries of events that still exist, due now; return how many there are.

    Args:
        connection: in a transaction.
        event_ids: events that the endpoint has no delivery of.
        endpoint_uid: the endpoint.
        slot: the slot of this replica's counters.
        now: the time at which they are due.
    """
    which = {"rows": packed_column(event_ids)}
    # The update locks the events, so that they are not pruned before this transaction ends.
    if not connection.execute(_COUNT_ONE_MORE, which).rowcount:
        return 0
    existing = list(connection.scalars(_EXISTING, which))
    write_deliveries(
        connection, [(delivery_id_like(one), one, endpoint_uid, None) for one in existing], slot=slot, now=now
    )
    return len(existing)
