"""Slices: how SQLite finds delivered deliveries by endpoint and by age.

A per-endpoint index dirties one page per endpoint and transaction: half of all page writes with 100 endpoints. So
SQLite has no such index of delivered deliveries. A *slice* is the set of deliveries whose ids begin alike. Because ids
are ULIDs, these are the deliveries of 1.024 s. ``log_slices`` records the slices in which an endpoint has delivered
deliveries. ``ended_slices`` records the seconds in which deliveries of a slice were delivered. A read of a slice
examines all endpoints' deliveries in it.

PostgreSQL has indexes instead, because replicas of two versions may use it at the same time.

Sync functions on a connection. The caller begins and ends the transaction.
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Connection,
    Executable,
    Integer,
    Text,
    bindparam,
    delete,
    select,
    true,
    tuple_,
)

from hookwright_operator.store.records import Settlement, State
from hookwright_operator.store.schema import deliveries, ended_slices, is_delivered, log_slices
from hookwright_operator.store.sql.dialect import insert
from hookwright_operator.store.sql.paging import AFTER_ALL, Found, RowBudget, search, stretch_of, up_to
from hookwright_operator.store.sql.rows import packed, packed_column, rows
from hookwright_operator.store.sql.statements import run

SLICE: Final = len("dlv_") + 8
"""How many characters the ids of one slice have in common; two more characters identify the millisecond."""

_MOST_KNOWN: Final = 10_000
_ID: Final = len("dlv_") + 26
_LAST_DIGIT: Final = "Z"

_endpoint = bindparam("endpoint", type_=Text)
_begin, _end = bindparam("begin", type_=Text), bindparam("end", type_=Text)
_count = bindparam("count", type_=Integer)
_uids = rows("uids", uid=Text)
_in_slice = (deliveries.c.id >= _begin, deliveries.c.id < _end, is_delivered)
SLICES = (
    select(log_slices.c.slice)
    .where(log_slices.c.endpoint_uid == _endpoint, log_slices.c.slice < _end)
    .order_by(log_slices.c.slice.desc())
)
STRETCH = stretch_of(deliveries.c.id >= _begin, deliveries.c.id < _end)
IN_SLICE = (
    select(deliveries.c.id)
    .where(*_in_slice, deliveries.c.endpoint_uid.in_(select(_uids.c.uid)))
    .order_by(deliveries.c.id.desc())
    .limit(_count)
)
ENDED = (
    select(ended_slices)
    .where(ended_slices.c.ended_s <= bindparam("second", type_=Integer))
    .order_by(ended_slices.c.ended_s, ended_slices.c.slice)
    .limit(_count)
)
ENDED_IN_SLICE = (
    select(deliveries.c.id, deliveries.c.event_id, deliveries.c.endpoint_uid)
    .where(*_in_slice, deliveries.c.ended_ms < bindparam("before", type_=BigInteger))
    .limit(_count)
)
_seconds = rows(ended_s=Integer, slice=Text)
STRIKE_OUT = delete(ended_slices).where(
    tuple_(ended_slices.c.ended_s, ended_slices.c.slice).in_(select(_seconds.c.ended_s, _seconds.c.slice))
)
_keys = rows(endpoint_uid=Text, slice=Text)
NOTE = insert(log_slices).from_select(_keys.c.keys(), select(_keys).where(true())).on_conflict_do_nothing()
NOTE_SECOND = (
    insert(ended_slices).from_select(_seconds.c.keys(), select(_seconds).where(true())).on_conflict_do_nothing()
)
FORGET = delete(log_slices).where(
    tuple_(log_slices.c.endpoint_uid, log_slices.c.slice).in_(select(_keys.c.endpoint_uid, _keys.c.slice))
)
LEFT_IN_SLICE = select(deliveries.c.endpoint_uid).where(*_in_slice).distinct()


class EndedDelivery(NamedTuple):
    """A delivery that has ended."""

    id: str
    event_id: str
    endpoint_uid: str


def note(connection: Connection, settlements: Iterable[Settlement], *, now: int) -> None:
    """Record the slices of deliveries that are delivered now."""
    keys = {(one.endpoint_uid, one.delivery_id[:SLICE]) for one in settlements if one.state is State.DELIVERED}
    _enter(connection, NOTE, keys)
    _enter(connection, NOTE_SECOND, {(now // 1000, begin) for _, begin in keys})


def _enter(connection: Connection, statement: Executable, entries: set[tuple[Any, str]]) -> None:
    """Insert entries that this process has not inserted before; a rollback clears this knowledge."""
    known: set[tuple[Any, str]] = connection.info.setdefault(statement, set())
    if new := sorted(entries - known):
        run(connection, statement, {"rows": packed(new)})
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known.update(new)


def delivered(
    connection: Connection, endpoint_uids: Sequence[str], *, limit: int, before: str, budget: RowBudget
) -> Found:
    """Find the newest delivered deliveries of some endpoints with ids below a given id.

    Args:
        connection: a connection that can read.
        endpoint_uids: the endpoints.
        limit: how many deliveries at most.
        before: the given id.
        budget: reduced by the rows examined, and by one for each statement.
    """
    found: list[str] = []
    uids = packed_column(endpoint_uids)
    for begin in _slices(connection, endpoint_uids, before):
        end = min(begin + AFTER_ALL, before)
        if end <= begin.ljust(_ID, "0"):
            continue  # the cursor is the position before this slice
        within = {"uids": uids, "begin": begin, "end": end}
        ids, reached = search(connection, STRETCH, IN_SLICE, within, limit=limit - len(found), budget=budget)
        found += ids
        if len(found) >= limit:
            break
        if reached is not None:
            return up_to(found, end_of_millisecond(reached, end))
        if budget.rows <= 0:
            return Found(found, begin.ljust(_ID, "0"))
    return Found(found, None)


def _slices(connection: Connection, endpoint_uids: Sequence[str], before: str) -> Iterator[str]:
    """Yield the slices of some endpoints, each once, the newest first; the queries read no more than is needed."""
    queries = [run(connection, SLICES, {"endpoint": uid, "end": before}) for uid in endpoint_uids]
    return (begin for (begin,), _ in groupby(merge(*queries, reverse=True)))


def end_of_millisecond(reached: str, end: str) -> str:
    """Return a position at or above an id that does not disclose the id, which may be another tenant's delivery."""
    position = reached[: SLICE + 2].ljust(_ID, _LAST_DIGIT)
    return position if position < end else reached


def take_old(connection: Connection, *, before_ms: int, limit: int) -> tuple[list[EndedDelivery], int]:
    """Find deliveries that were delivered before a time; delete the seconds in which no others were delivered.

    Args:
        connection: in a transaction in which the caller removes the deliveries.
        before_ms: the time.
        limit: how many deliveries at most.

    Returns:
        The deliveries, and how many rows of ``ended_slices`` were deleted.
    """
    found: list[EndedDelivery] = []
    read: set[str] = set()
    over: list[tuple[int, str]] = []
    for second, begin in list(run(connection, ENDED, {"second": before_ms // 1000, "count": limit})):
        if begin not in read:
            within = {"begin": begin, "end": begin + AFTER_ALL, "before": before_ms, "count": limit - len(found)}
            found += [EndedDelivery(*row) for row in run(connection, ENDED_IN_SLICE, within)]
            if len(found) >= limit:
                break
            read.add(begin)
        if (second + 1) * 1000 <= before_ms:
            over.append((second, begin))
    if over:
        connection.info.pop(NOTE_SECOND, None)
        run(connection, STRIKE_OUT, {"rows": packed(over)})
    return found, len(over)


def forget(connection: Connection, removed: Iterable[EndedDelivery]) -> None:
    """Remove the slices in which an endpoint has no delivered deliveries any more; each slice is read once."""
    connection.info.pop(NOTE, None)
    endpoints_of: dict[str, set[str]] = {}
    for one in removed:
        endpoints_of.setdefault(one.id[:SLICE], set()).add(one.endpoint_uid)
    ended: list[tuple[str, str]] = []
    for begin, uids in endpoints_of.items():
        left = {uid for (uid,) in run(connection, LEFT_IN_SLICE, {"begin": begin, "end": begin + AFTER_ALL})}
        ended += [(uid, begin) for uid in uids - left]
    run(connection, FORGET, {"rows": packed(sorted(ended))})
