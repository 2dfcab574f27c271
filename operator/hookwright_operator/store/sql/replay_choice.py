"""How a replay finds the deliveries that it chooses by state, event type and time of acceptance, the oldest first.

The ids of deliveries and events begin with the time, so a range of ids is a range of time. A chosen state or type can
be rare among many rows. So a search examines the rows in stretches, and ends when its budget is used up; the next
search begins there.

Failed deliveries have an index of their own. Delivered ones are found in the index of all deliveries of an endpoint.
Missed events are found among the events of all projects by the primary key, because an index by project costs each
acceptance one more tree entry. The endpoint's index of deliveries has those that are not missed. The event of a
recorded test was sent to one endpoint by hand, so no other endpoint has missed it.

Sync functions on a connection.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Executable,
    Integer,
    Text,
    bindparam,
    exists,
    func,
    select,
)

from hookwright_crds.events import OPERATIONAL_PREFIX
from hookwright_operator.ids import epoch_ms_of, first_delivery_id, first_event_id
from hookwright_operator.store.records import Choice, State
from hookwright_operator.store.schema import deliveries, events, is_delivered, is_failed
from hookwright_operator.store.sql.paging import AFTER_ALL, STRETCH_ROWS, Found, RowBudget
from hookwright_operator.store.sql.rows import packed_column, rows
from hookwright_operator.store.sql.statements import run

_FEWEST: Final = 100
"""Rows that a stretch has at least, so that a small step does not need many statements."""
_MARGIN_MS: Final = 1000
"""Time by which the id of a delivery may be older than that of its event, because it is made before it."""

_endpoint = bindparam("endpoint", type_=Text)
_after, _before = bindparam("after", type_=Text), bindparam("before", type_=Text)
_types = rows("types", type=Text)
_of_endpoint = deliveries.c.endpoint_uid == _endpoint
_of_project = [events.c[name] == bindparam(name, type_=Text) for name in ("namespace", "project")]
_is_of_types = events.c.type.in_(select(_types.c.type))
_has_types = exists().where(events.c.id == deliveries.c.event_id, _is_of_types)
_sent_ids = select(deliveries.c.event_id).where(
    _of_endpoint,
    deliveries.c.id >= bindparam("first_sent", type_=Text),
    deliveries.c.id < bindparam("after_sent", type_=Text),
)


class _Search:
    """The statements of a search.

    Args:
        column: the ids that are searched.
        scope: the conditions of the index whose rows a stretch examines.
        filters: the further conditions of the rows that are chosen.
        of_types: the condition of a choice of event types.
    """

    def __init__(
        self,
        column: Column[str],
        scope: Sequence[ColumnElement[bool]],
        filters: Sequence[ColumnElement[bool]],
        of_types: ColumnElement[bool],
    ) -> None:
        in_range = select(column).where(*scope, column > _after, column < _before).order_by(column)
        stretch = in_range.limit(bindparam("rows", type_=Integer)).subquery("stretch")
        self.stretch = select(func.count(), func.max(stretch.c.id))
        self.matching = in_range.where(*filters).limit(bindparam("count", type_=Integer))
        self.matching_types = self.matching.where(of_types)

    def run(
        self, connection: Connection, within: Mapping[str, str], choice: Choice, *, limit: int, budget: RowBudget
    ) -> Found:
        """Find the oldest ids of a range; see `find`."""
        matching: Executable = self.matching_types if choice.types else self.matching
        parameters = {**within, "types": packed_column(choice.types)}
        ids: list[str] = []
        after = within["after"]
        while True:
            stretch_rows = min(STRETCH_ROWS, max(4 * limit, _FEWEST), max(1, budget.rows))
            [(row_count, highest)] = run(connection, self.stretch, {**parameters, "after": after, "rows": stretch_rows})
            budget.rows -= row_count + 1
            if row_count:
                bounds = {"after": after, "before": highest + AFTER_ALL, "count": limit - len(ids)}
                sent_range = {
                    "first_sent": first_delivery_id(epoch_ms_of(after) - _MARGIN_MS),
                    "after_sent": first_delivery_id(epoch_ms_of(highest) + 1),
                }
                ids += [name for (name,) in run(connection, matching, {**parameters, **bounds, **sent_range})]
            if len(ids) >= limit:
                return Found(ids, ids[-1])
            if row_count < stretch_rows:
                return Found(ids, None)
            if budget.rows <= 0:
                return Found(ids, highest)
            after = highest


FAILURES: Final = _Search(deliveries.c.id, [_of_endpoint, is_failed], [], _has_types)
SUCCESSES: Final = _Search(deliveries.c.id, [_of_endpoint], [is_delivered], _has_types)
# The deliveries are read once, because their query names no column of an event.
_of_producers = events.c.type.not_like(f"{OPERATIONAL_PREFIX}%")
_is_missed = [*_of_project, ~events.c.is_test, _of_producers, events.c.id.not_in(_sent_ids)]
MISSES: Final = _Search(events.c.id, [], _is_missed, _is_of_types)


def start_of(choice: Choice, since_ms: int) -> str:
    """Return the id after which a replay from a time begins."""
    return first_event_id(since_ms) if choice.missed else first_delivery_id(since_ms)


def find(
    connection: Connection,
    choice: Choice,
    *,
    endpoint_uid: str,
    project: tuple[str, str],
    after: str,
    until_ms: int,
    limit: int,
    rows_at_most: int,
) -> Found:
    """Find the oldest chosen deliveries of a range of ids, or the oldest events that the endpoint missed.

    Args:
        connection: a connection that can read.
        choice: the states and event types.
        endpoint_uid: the endpoint of the deliveries.
        project: namespace and name of the endpoint's project; only a search of missed events needs it.
        after: the range begins above this id.
        until_ms: deliveries that were accepted later are not replayed.
        limit: how many ids to find at most.
        rows_at_most: how many rows to examine; each state has an equal share, and the rows that others leave.

    Returns:
        The ids, the oldest first, and the id up to which everything was examined, None if that is the whole range.
    """
    namespace, name = project
    before = start_of(choice, until_ms + 1)
    within = {"endpoint": endpoint_uid, "namespace": namespace, "project": name, "after": after, "before": before}
    if choice.missed:
        return MISSES.run(connection, within, choice, limit=limit, budget=RowBudget(rows_at_most))
    # The search for delivered ones comes last, because it is the one that can use all rows that others leave.
    results, remaining = [], rows_at_most
    for index, state in reversed(list(enumerate(sorted(choice.states)))):
        budget = RowBudget(remaining // (index + 1))
        remaining -= budget.rows
        search = FAILURES if state is State.FAILED else SUCCESSES
        results.append(search.run(connection, within, choice, limit=limit, budget=budget))
        remaining += max(0, budget.rows)
    # Above this id, deliveries of one state may be missing.
    position = min((result.position for result in results if result.position is not None), default=None)
    ids = sorted(id_ for result in results for id_ in result.ids if position is None or id_ <= position)
    return Found(ids, position) if len(ids) <= limit else Found(ids[:limit], ids[limit - 1])
