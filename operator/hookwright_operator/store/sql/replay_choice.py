"""How a replay finds the deliveries that it chooses by state, event type and time of acceptance, the oldest first.

The ids of deliveries begin with the time, so a range of ids is a range of time. A chosen state or type can be rare
among many rows. So a search examines the rows in stretches, and ends when its budget is used up; the next search begins
there.

Failed deliveries have an index of their own. Delivered ones are found in the index of all deliveries of an endpoint.

Sync functions on a connection.
"""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Integer,
    Select,
    Text,
    bindparam,
    exists,
    func,
    select,
)

from hookwright_operator.store.records import Choice, State
from hookwright_operator.store.schema import deliveries, events, is_delivered, is_failed
from hookwright_operator.store.sql.paging import AFTER_ALL, STRETCH_ROWS, Found, RowBudget
from hookwright_operator.store.sql.rows import packed_column, rows
from hookwright_operator.store.sql.statements import run

_FEWEST: Final = 100
"""Rows that a stretch has at least, so that a small step does not need many statements."""

_endpoint = bindparam("endpoint", type_=Text)
_after, _before = bindparam("after", type_=Text), bindparam("before", type_=Text)
_types = rows("types", type=Text)
_in_range = (deliveries.c.id > _after, deliveries.c.id < _before)
_of_endpoint = deliveries.c.endpoint_uid == _endpoint
_of_types = exists().where(events.c.id == deliveries.c.event_id, events.c.type.in_(select(_types.c.type)))


class _Search:
    """The statements of a search for deliveries in one state.

    Args:
        state: the condition of the chosen state.
        examined: the condition of the index whose rows a stretch examines, if the index has not all states.
    """

    def __init__(self, state: ColumnElement[bool], *examined: ColumnElement[bool]) -> None:
        stretch = select(deliveries.c.id).where(_of_endpoint, *examined, *_in_range).order_by(deliveries.c.id)
        limited = stretch.limit(bindparam("rows", type_=Integer)).subquery("stretch")
        self.stretch = select(func.count(), func.max(limited.c.id))
        self.matching = self._matching(state)
        self.matching_types = self._matching(state, _of_types)

    @staticmethod
    def _matching(*conditions: ColumnElement[bool]) -> Select[str]:
        return (
            select(deliveries.c.id)
            .where(_of_endpoint, *conditions, *_in_range)
            .order_by(deliveries.c.id)
            .limit(bindparam("count", type_=Integer))
        )

    def run(
        self, connection: Connection, within: Mapping[str, str], choice: Choice, *, limit: int, budget: RowBudget
    ) -> Found:
        """Find the oldest ids of a range; see `find`."""
        matching: Executable = self.matching_types if choice.types else self.matching
        parameters = {**within, "types": packed_column(choice.types)}
        found: list[str] = []
        after = within["after"]
        while True:
            asked = min(STRETCH_ROWS, max(4 * limit, _FEWEST), max(1, budget.rows))
            [(examined, highest)] = run(connection, self.stretch, {**parameters, "after": after, "rows": asked})
            budget.rows -= examined + 1
            if examined:
                which = {"after": after, "before": highest + AFTER_ALL, "count": limit - len(found)}
                found += [delivery_id for (delivery_id,) in run(connection, matching, {**parameters, **which})]
            if len(found) >= limit:
                return Found(found, found[-1])
            if examined < asked:
                return Found(found, None)
            if budget.rows <= 0:
                return Found(found, highest)
            after = highest


FAILED: Final = _Search(is_failed, is_failed)
DELIVERED: Final = _Search(is_delivered)


def find(
    connection: Connection, choice: Choice, *, endpoint_uid: str, after: str, before: str, limit: int, rows_at_most: int
) -> Found:
    """Find the oldest chosen deliveries of a range of ids.

    Args:
        connection: a connection that can read.
        choice: the states and event types.
        endpoint_uid: the endpoint of the deliveries.
        after: the range begins above this id.
        before: the range ends below this id.
        limit: how many ids to find at most.
        rows_at_most: how many rows to examine; each state has an equal share, and the rows that others leave.

    Returns:
        The ids, the oldest first, and the id up to which everything was examined, None if that is the whole range.
    """
    within = {"endpoint": endpoint_uid, "after": after, "before": before}
    # The search for delivered ones comes last, because it is the one that can use all rows that others leave.
    found, left = [], rows_at_most
    for others, state in reversed(list(enumerate(sorted(choice.states)))):
        budget = RowBudget(left // (others + 1))
        left -= budget.rows
        search = FAILED if state is State.FAILED else DELIVERED
        found.append(search.run(connection, within, choice, limit=limit, budget=budget))
        left += max(0, budget.rows)
    # Above this id, deliveries of one state may be missing.
    reached = min((one.reached for one in found if one.reached is not None), default=None)
    ids = sorted(one for part in found for one in part.ids if reached is None or one <= reached)
    return Found(ids, reached) if len(ids) <= limit else Found(ids[:limit], ids[limit - 1])
