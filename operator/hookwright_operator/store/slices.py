"""What was delivered to an endpoint, as its log finds it on SQLite.

An index by endpoint has one page at work for each endpoint: with 100, half of what a transaction wrote was that. So
there is none of what was delivered. A *slice* is the deliveries whose ids begin alike, which are those of 1.024 s, for
ids are ULIDs. ``log_slices`` holds in which slices an endpoint has any, and within a slice all endpoints' deliveries
are read. PostgreSQL, where replicas of two versions may be at work at a time, has the index.

Sync functions on a connection, inside a transaction that the caller begins and ends.
"""

from collections.abc import Iterable
from typing import Final

from sqlalchemy import BigInteger, Connection, Integer, Text, bindparam, delete, select, tuple_

# Of the two engines' identical spellings the one that both compile.
from sqlalchemy.dialects.postgresql import insert

from hookwright_operator.store.model import Settlement, State
from hookwright_operator.store.schema import deliveries, is_delivered, log_slices
from hookwright_operator.store.statements import Each, run

SLICE: Final = len("dlv_") + 8
"""How many characters a delivery's id has in common with those of its slice; ten say the millisecond."""

_AHEAD_MS: Final = 2000
"""For how long the row of a slice does for what is yet to be delivered of it."""

_MOST_KNOWN: Final = 10_000
_KNOWN: Final = "slices"
_AFTER_ALL: Final = "~"
"""Sorts after every character of an id."""

_new = insert(log_slices)
_NOTE = Each(
    _new.on_conflict_do_update(
        index_elements=list(log_slices.primary_key),
        set_={"until_ms": _new.excluded.until_ms},
        where=log_slices.c.until_ms < _new.excluded.until_ms,
    ),
    *log_slices.columns.keys(),
)

_endpoint = bindparam("endpoint", type_=Text)
_end = bindparam("end", type_=Text)
SLICES = (
    select(log_slices.c.slice)
    .where(log_slices.c.endpoint_uid == _endpoint, log_slices.c.slice < _end)
    .order_by(log_slices.c.slice.desc())
)
IN_SLICE = (
    select(deliveries.c.id)
    .where(
        deliveries.c.id >= bindparam("slice", type_=Text),
        deliveries.c.id < _end,
        deliveries.c.endpoint_uid == _endpoint,
        is_delivered,
    )
    .order_by(deliveries.c.id.desc())
    .limit(bindparam("count", type_=Integer))
)

_key = (log_slices.c.endpoint_uid, log_slices.c.slice)
_old = (
    select(*_key)
    .where(log_slices.c.until_ms < bindparam("before", type_=BigInteger))
    .order_by(log_slices.c.until_ms)
    .limit(bindparam("count", type_=Integer))
)
DROP = delete(log_slices).where(tuple_(*_key).in_(_old))


def used(connection: Connection) -> bool:
    """Whether a database's log goes by slices."""
    return connection.dialect.name == "sqlite"


def note(connection: Connection, settlements: Iterable[Settlement], *, now: int) -> None:
    """Enter the slices of what is delivered, those that are not known to be there."""
    known: dict[tuple[str, str], int] = connection.info.setdefault(_KNOWN, {})
    keys = {(one.endpoint_uid, one.delivery_id[:SLICE]) for one in settlements if one.state is State.DELIVERED}
    if new := sorted([key for key in keys if known.get(key, -1) < now]):
        until = now + _AHEAD_MS
        _NOTE.run(connection, [(*key, until) for key in new])
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known.update(dict.fromkeys(new, until))


def delivered(connection: Connection, endpoint_uid: str, *, limit: int, before: str) -> list[str]:
    """Return the ids of an endpoint's newest delivered deliveries, of those before an id, the newest first."""
    found: list[str] = []
    for (begin,) in run(connection, SLICES, {"endpoint": endpoint_uid, "end": before}):
        end = min(begin + _AFTER_ALL, before)
        within = {"endpoint": endpoint_uid, "slice": begin, "end": end, "count": limit - len(found)}
        found += [delivery_id for (delivery_id,) in run(connection, IN_SLICE, within)]
        if len(found) >= limit:
            break
    return found


def prune(connection: Connection, *, delivered_before_ms: int, limit: int) -> int:
    """Remove slices of which all was removed that was delivered before a time, and return how many there were."""
    removed = run(connection, DROP, {"before": delivered_before_ms, "count": limit}).rowcount
    if removed:
        connection.info.pop(_KNOWN, None)
    return removed
