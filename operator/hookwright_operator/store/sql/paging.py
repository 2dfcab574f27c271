"""Pages of the delivery log, with a limit on the rows that one read examines.

An endpoint or state can be rare among many rows. A page of it could then examine millions of rows. So a read examines
the rows in stretches, newest first, and stops when its budget is used up. The page is then short or even empty, and its
cursor is the position that the read has reached.

Sync functions on a connection.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Executable, Integer, Select, bindparam, func, select

from hookwright_operator.store.schema import deliveries
from hookwright_operator.store.sql.statements import run

ROWS: Final = 50_000
"""Rows that one read of the delivery log examines at most."""
STRETCH_ROWS: Final = 5_000
"""Rows that one statement examines: a read that finds enough rows early does not examine the rest."""

AFTER_ALL: Final = "~"
"""Sorts after every id, and after every character of one."""


class Found(NamedTuple):
    """Ids of deliveries, and the position that a search reached.

    Attributes:
        ids: the newest first.
        position: the lowest id that was examined; all ids above it were examined too. None if the search reached its
            end.
    """

    ids: list[str]
    position: str | None


def up_to(ids: list[str], position: str) -> Found:
    """Build the result of a search that stopped at a position; keep only the ids at or above it."""
    return Found([delivery_id for delivery_id in ids if delivery_id >= position], position)


@dataclass(slots=True)
class RowBudget:
    """The rows that a search may still examine."""

    rows: int = ROWS


def stretch_of(*conditions: ColumnElement[bool]) -> Select[int, str | None]:
    """Build the query for the next rows that meet conditions; it returns their number ``rows`` and the lowest id."""
    newest = select(deliveries.c.id).where(*conditions).order_by(deliveries.c.id.desc())
    stretch = newest.limit(bindparam("rows", type_=Integer)).subquery("stretch")
    return select(func.count(), func.min(stretch.c.id))


def search(
    connection: Connection,
    stretch: Executable,
    matching: Executable,
    within: Mapping[str, str | None],
    *,
    limit: int,
    budget: RowBudget,
) -> Found:
    """Find the newest matching deliveries of a range of ids.

    Args:
        connection: a connection that can read.
        stretch: the query that `stretch_of` builds.
        matching: a query for the matching ids of a stretch, the newest first, at most ``count``.
        within: parameters of both statements: ``begin`` and ``end`` of the range, ``end`` excluded, and further ones.
        limit: how many ids to find at most.
        budget: reduced by the rows examined, and by one for each statement.
    """
    ids: list[str] = []
    end = str(within["end"])
    while True:
        stretch_rows = min(STRETCH_ROWS, max(1, budget.rows))
        [(row_count, lowest)] = run(connection, stretch, {**within, "end": end, "rows": stretch_rows})
        budget.rows -= row_count + 1
        if row_count:
            parameters = {**within, "begin": lowest, "end": end, "count": limit - len(ids)}
            ids += [delivery_id for (delivery_id,) in run(connection, matching, parameters)]
        if row_count < stretch_rows or len(ids) >= limit:
            return Found(ids, None)
        if budget.rows <= 0:
            return Found(ids, lowest)
        end = lowest
