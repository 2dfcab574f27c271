"""Events that are stored without a subscriber, a limited number for each project.

Sync functions on a connection. The caller begins and ends the transaction.
"""

import zlib
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, Integer, Text, bindparam, delete, select

from hookwright_operator.ids import first_event_id
from hookwright_operator.store.records import NewEvent
from hookwright_operator.store.schema import events, kept_events
from hookwright_operator.store.sql.dialect import insert
from hookwright_operator.store.sql.rows import packed, packed_column, rows

MOST: Final = 10_000
"""Events of one project that are kept; new ones replace the oldest ones."""
TRIMMED_EVERY: Final = 32
"""New events of a project after which its oldest ones are removed, on average: finding these reads `MOST` rows."""
_AT_ONCE: Final = 1024
"""Events that are removed at once, at most."""

_new = rows(event_id=Text, namespace=Text, project=Text)
_KEEP = insert(kept_events).from_select([*_new.c.keys()], select(_new))
_beyond = (
    select(kept_events.c.event_id)
    .where(
        kept_events.c.namespace == bindparam("namespace", type_=Text),
        kept_events.c.project == bindparam("project", type_=Text),
    )
    .order_by(kept_events.c.event_id.desc())
    .offset(bindparam("most", type_=Integer))
    .limit(bindparam("count", type_=Integer))
)
# PostgreSQL also locks the rows that an offset skips, so the statement with the offset locks none.
_OLDEST = select(kept_events.c.event_id).where(kept_events.c.event_id.in_(_beyond)).with_for_update(skip_locked=True)
_EXPIRED = (
    select(kept_events.c.event_id)
    .where(kept_events.c.event_id < bindparam("before", type_=Text))
    .order_by(kept_events.c.event_id)
    .limit(bindparam("count", type_=Integer))
    .with_for_update(skip_locked=True)
)
_ids = rows(id=Text)
_DROP = delete(kept_events).where(kept_events.c.event_id.in_(select(_ids.c.id)))
_DROP_EVENTS = delete(events).where(events.c.id.in_(select(_ids.c.id)), events.c.deliveries <= 0)


def note(
    connection: Connection, new: Sequence[NewEvent], *, most: int = MOST, trimmed_every: int = TRIMMED_EVERY
) -> None:
    """Keep events that are written without deliveries, and remove the oldest ones of their projects beyond a number.

    Not every call removes some: the random part of an event's id decides, so that most calls read few rows.
    """
    connection.execute(_KEEP, {"rows": packed([(event.id, event.namespace, event.project) for event in new])})
    chosen = [event for event in new if zlib.crc32(event.id.encode()) % trimmed_every == 0]
    for namespace, project in sorted({(event.namespace, event.project) for event in chosen}):
        which = {"namespace": namespace, "project": project, "most": most, "count": _AT_ONCE}
        _drop(connection, list(connection.scalars(_OLDEST, which)))


def forget(connection: Connection, *, before_ms: int, limit: int) -> int:
    """Remove events that were accepted before a time, up to a limit; return how many rows were removed.

    An event that a replay has sent stays until its last delivery is removed.
    """
    expired = connection.scalars(_EXPIRED, {"before": first_event_id(before_ms), "count": limit})
    return _drop(connection, list(expired))


def _drop(connection: Connection, ids: Sequence[str]) -> int:
    if not ids:
        return 0
    which = {"rows": packed_column(ids)}
    return connection.execute(_DROP, which).rowcount + connection.execute(_DROP_EVENTS, which).rowcount
