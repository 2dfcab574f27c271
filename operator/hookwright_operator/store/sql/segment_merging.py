"""Merging of segments, so that a search reads one row for each 32 segments.

The rows of different segments are at different places of the disk. A search of 10,000,000 events would read 1,220 of
them, which takes longer than everything else if they are not in memory.

The segments ``32 n`` to ``32 n + 31`` are a *group*. It is merged when a later segment exists. The rows of each bucket
become one row of the group's first segment, a few buckets in a transaction. A line moves only to a segment with a
smaller number. A search reads the segments in descending order, so it finds a line that moves between its queries
twice, and misses none.

Sync functions on a connection.
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    literal_column,
    select,
    update,
)

from hookwright_operator.store.schema import search_blocks, search_segments
from hookwright_operator.store.sql.message_index import ADD_BLOCKS, BUCKETS, LAST_SEGMENT
from hookwright_operator.store.sql.rows import packed, packed_column, rows
from hookwright_operator.store.sql.statements import run

GROUP: Final = 32
"""Segments of a group."""
BUCKETS_AT_ONCE: Final = 16
"""Buckets of one transaction, which are about 0.7 MB."""
LONGEST: Final = 4096
"""Characters of a row that is merged. A row has about 1,400, unless one id has very many events."""

_segment = search_segments.c.segment
_buckets: ColumnElement[int] = literal_column(str(BUCKETS))
_ids = rows("ids", id=BigInteger)
_of_group = and_(_segment >= bindparam("first", type_=BigInteger), _segment < bindparam("end", type_=BigInteger))
UNMERGED = select(func.min(_segment)).where(~search_segments.c.merged)
_LOCK = (
    select(_segment, search_segments.c.first_event_id, search_segments.c.last_event_id)
    .where(_of_group)
    .order_by(_segment)
    .with_for_update()
)
BLOCKS = select(
    search_blocks.c.id,
    case((func.length(search_blocks.c.lines) <= bindparam("longest", type_=Integer), search_blocks.c.lines)),
).where(search_blocks.c.id.in_(select(_ids.c.id)))
_DROP_BLOCKS = delete(search_blocks).where(search_blocks.c.id.in_(select(_ids.c.id)))
_WIDEN = (
    update(search_segments)
    .where(_of_group)
    .values(first_event_id=bindparam("least"), last_event_id=bindparam("greatest"))
)
_DROP_WITHOUT_BLOCKS = delete(search_segments).where(
    _of_group,
    ~exists().where(
        search_blocks.c.id >= _segment * _buckets, search_blocks.c.id < (_segment + literal_column("1")) * _buckets
    ),
)
_MARK = update(search_segments).where(_of_group).values(merged=True)


def next_group(connection: Connection) -> int | None:
    """Return the number of the oldest group that is not merged, or None if segments may still be added to it."""
    oldest = connection.scalar(UNMERGED)
    if oldest is None:
        return None
    group = int(oldest) // GROUP
    return group if (connection.scalar(LAST_SEGMENT) or 0) // GROUP > group else None


def merge(connection: Connection, group: int, first_bucket: int) -> None:
    """Merge the rows of `BUCKETS_AT_ONCE` buckets of a group; merged rows, and rows that are too long, stay."""
    segments = connection.execute(_LOCK, _bounds(group)).all()
    if not segments:
        return
    buckets = range(first_bucket, first_bucket + BUCKETS_AT_ONCE)
    ids = packed_column(one.segment * BUCKETS + bucket for one in segments for bucket in buckets)
    texts: dict[int, dict[int, str | None]] = {bucket: {} for bucket in buckets}
    for block_id, lines in run(connection, BLOCKS, {"ids": ids, "longest": LONGEST}):
        texts[block_id % BUCKETS][block_id] = lines
    dropped: list[int] = []
    merged: list[tuple[int, str]] = []
    for bucket, by_id in texts.items():
        short = {block_id: lines for block_id, lines in sorted(by_id.items()) if lines is not None}
        home = segments[0].segment * BUCKETS + bucket
        if short.keys() - {home}:
            dropped += short
            merged.append((min(short) if home in by_id else home, "\n".join(short.values())))
    if not merged:
        return
    # The segment that gets the lines covers their events before it has them.
    covered = {
        "least": min(one.first_event_id for one in segments),
        "greatest": max(one.last_event_id for one in segments),
    }
    connection.execute(_WIDEN, {**_bounds(group), **covered})
    run(connection, _DROP_BLOCKS, {"ids": packed_column(dropped)})
    run(connection, ADD_BLOCKS, {"rows": packed(merged)})


def finish(connection: Connection, group: int) -> None:
    """Remove the segments of a merged group that have no rows left, and record that the group is merged."""
    connection.execute(_LOCK, _bounds(group)).all()
    connection.execute(_DROP_WITHOUT_BLOCKS, _bounds(group))
    connection.execute(_MARK, _bounds(group))


def _bounds(group: int) -> dict[str, int]:
    return {"first": group * GROUP, "end": (group + 1) * GROUP}
