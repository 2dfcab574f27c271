"""Statements on the statistics of endpoints and projects: add to buckets, read them, remove old ones.

Sync functions on a connection. The caller begins and ends the transaction.
"""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import BigInteger, Connection, Integer, Text, and_, bindparam, cast, delete, func, select, true, tuple_

from hookwright_operator.store.schema import LATENCY_COLUMNS, statistics
from hookwright_operator.store.sql.dialect import insert
from hookwright_operator.store.sql.rows import packed, rows
from hookwright_operator.store.sql.statements import run

_NUMBERS = ("delivered", "failed", "attempts", *LATENCY_COLUMNS)
_KEY = ("width_s", "begin_s", "endpoint_uid")

_cells = rows("added", width_s=Integer, begin_s=BigInteger, endpoint_uid=Text, **dict.fromkeys(_NUMBERS, BigInteger))
_add = insert(statistics).from_select([*_KEY, *_NUMBERS], select(_cells).where(true()))
ADD = _add.on_conflict_do_update(
    index_elements=list(statistics.primary_key),
    set_={name: statistics.c[name] + _add.excluded[name] for name in _NUMBERS},
)

_keys = rows("keys", begin_s=BigInteger, uid=Text)
_width = bindparam("width", type_=Integer)
# Each sum is of one row. The group is by a column without an index, so both engines find each bucket by the primary
# key. With a list of begins and one uid, or with a range, their planners may read the buckets of all endpoints.
BUCKETS = (
    select(_keys.c.begin_s, *(cast(func.sum(statistics.c[name]), BigInteger) for name in _NUMBERS))
    .join(
        statistics,
        and_(
            statistics.c.width_s == _width,
            statistics.c.begin_s == _keys.c.begin_s,
            statistics.c.endpoint_uid == _keys.c.uid,
        ),
    )
    .group_by(_keys.c.begin_s)
)

_key = tuple_(*(statistics.c[name] for name in _KEY))
_old = (
    select(*(statistics.c[name] for name in _KEY))
    .where(statistics.c.width_s == _width, statistics.c.begin_s < bindparam("before", type_=BigInteger))
    .limit(bindparam("count", type_=Integer))
    .with_for_update(skip_locked=True)
)
DROP_OLD = delete(statistics).where(_key.in_(_old))


def add(connection: Connection, cells: Sequence[tuple[str | int, ...]]) -> None:
    """Add numbers to buckets; each row is width and begin in seconds, a uid, and the numbers of a bucket."""
    # Sorted, because two transactions that lock rows in the same order cannot deadlock.
    run(connection, ADD, {"added": packed(sorted(cells))})


def buckets(connection: Connection, uid: str, *, width_s: int, begins: Collection[int]) -> list[tuple[int, ...]]:
    """Return the begin and the numbers of each bucket that has an attempt.

    Args:
        connection: a connection that can read.
        uid: of an endpoint or of a project.
        width_s: the width of the buckets in seconds.
        begins: the begins of the buckets, each once, in seconds since the epoch.
    """
    keys = packed([(begin, uid) for begin in begins])
    return [tuple(row) for row in connection.execute(BUCKETS, {"width": width_s, "keys": keys})]


def drop_old(connection: Connection, before_s: Mapping[int, int], *, limit: int) -> int:
    """Remove old buckets, and return how many were removed.

    Args:
        connection: in a transaction.
        before_s: by width of a bucket, the time before which a bucket of this width is old.
        limit: how many buckets of each width to remove at most.
    """
    return sum(
        connection.execute(DROP_OLD, {"width": width, "before": before, "count": limit}).rowcount
        for width, before in before_s.items()
    )
