"""The index that finds events by the producer's ids: by ``messageId``, and by the id that identifies repetitions.

These ids are random, so an index in a plain tree dirties one page for each event. Here an acceptance inserts one row
into ``search_recent``, whatever the number of its events: a line for each event with digests of its ids. When enough
lines are there, they become a *segment*: `BUCKETS` rows of ``search_blocks``, each with the lines whose digests begin
alike. A segment is written in the order of its rows, and merged with others later; see `segment_merging`. A search
reads one row of each segment and all recent lines, and fetches only the rows that have the digest, the newest first, a
few at a time.

The namespace is part of a digest. A digest has 48 bits, so a search may find a wrong event of the namespace once in
millions of searches of a database with 10,000,000 events.

Sync functions on a connection.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from typing import Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Executable,
    Integer,
    Text,
    bindparam,
    delete,
    exists,
    func,
    literal_column,
    select,
)

from hookwright_operator.store.records import SOURCE_END, NewEvent
from hookwright_operator.store.schema import events, search_blocks, search_recent, search_segments
from hookwright_operator.store.sql.dialect import dialect_of, insert
from hookwright_operator.store.sql.paging import AFTER_ALL
from hookwright_operator.store.sql.rows import packed, packed_column, rows
from hookwright_operator.store.sql.statements import run

BUCKETS: Final = 512
SEGMENT: Final = 16_384
"""Digests of a segment, at least."""
_ROWS_AT_ONCE: Final = 20_000
_RECENT_AT_ONCE: Final = 64
_BLOCKS_AT_ONCE: Final = 8
"""Rows with a digest that a search fetches at once; a row can have all lines of a transaction, or of a segment."""
_ALL_ROWS: Final = (1 << 62) - 1
_DIGEST_BYTES: Final = 6
_BUCKET_DIGITS: Final = 3

_digest = bindparam("digest", type_=Text)
_count = bindparam("count", type_=Integer)
NOTE = insert(search_recent).values(lines=bindparam("lines", type_=Text)).inline()
_before = bindparam("before", type_=BigInteger)
_least, _greatest = bindparam("least", type_=Text), bindparam("greatest", type_=Text)


def _has_digest(lines: Column[str], *, postgres: bool) -> ColumnElement[bool]:
    position = func.strpos(lines, _digest) if postgres else func.instr(lines, _digest)
    return position > literal_column("0")


IN_RECENT_SQLITE, IN_RECENT_POSTGRES = [
    select(search_recent.c.id, search_recent.c.lines)
    .where(search_recent.c.id < _before, _has_digest(search_recent.c.lines, postgres=postgres))
    .order_by(search_recent.c.id.desc())
    .limit(_count)
    for postgres in (False, True)
]
_block_id = search_segments.c.segment * literal_column(str(BUCKETS)) + bindparam("bucket", type_=BigInteger)
IN_SEGMENTS_SQLITE, IN_SEGMENTS_POSTGRES = [
    select(search_segments.c.segment, search_blocks.c.lines)
    .select_from(search_segments.join(search_blocks, search_blocks.c.id == _block_id))
    .where(
        search_segments.c.segment < _before,
        search_segments.c.last_event_id >= _least,
        search_segments.c.first_event_id <= _greatest,
        _has_digest(search_blocks.c.lines, postgres=postgres),
    )
    .order_by(search_segments.c.segment.desc())
    .limit(_count)
    for postgres in (False, True)
]
OLDEST = select(search_recent.c.id, search_recent.c.lines).order_by(search_recent.c.id).limit(_count)
LAST_SEGMENT = select(func.max(search_segments.c.segment))
_ids = rows(id=BigInteger)
_LOCK_RECENT = (
    select(search_recent.c.id).where(search_recent.c.id.in_(select(_ids.c.id))).with_for_update(skip_locked=True)
)
_DROP_RECENT = delete(search_recent).where(search_recent.c.id.in_(select(_ids.c.id)))
_blocks = rows(id=BigInteger, lines=Text)
ADD_BLOCKS = insert(search_blocks).from_select(["id", "lines"], select(_blocks))
_ADD_SEGMENT = insert(search_segments)
EMPTY = select(search_segments.c.segment).where(
    ~exists().where(events.c.id >= search_segments.c.first_event_id, events.c.id <= search_segments.c.last_event_id)
)
# A merge that has moved lines into the segment has changed its row; PostgreSQL then checks the condition again.
_OLDEST_EMPTY = EMPTY.order_by(search_segments.c.segment).limit(1).with_for_update()
_DROP_BLOCKS = delete(search_blocks).where(
    search_blocks.c.id >= bindparam("begin", type_=BigInteger), search_blocks.c.id < bindparam("end", type_=BigInteger)
)
_DROP_SEGMENT = delete(search_segments).where(search_segments.c.segment == bindparam("number", type_=BigInteger))


class Segment(NamedTuple):
    """Lines that leave ``search_recent``.

    Attributes:
        ids: the rows of ``search_recent`` that the lines come from.
        blocks: the text of each bucket that has lines.
        first_event_id: the least id of an event.
        last_event_id: the greatest id of an event.
    """

    ids: Sequence[int]
    blocks: dict[int, str]
    first_event_id: str
    last_event_id: str


def message_digest(namespace: str, message_id: str) -> str:
    """Return the digest of a producer's messageId."""
    return _hashed(f"{namespace}\nmessage\n{message_id}")


def event_digest(namespace: str, event_id: str) -> str:
    """Return the digest of a producer's event id; that of a CloudEvent is without its source."""
    return _hashed(f"{namespace}\nevent\n{event_id}")


def _hashed(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()


def note(connection: Connection, new: Iterable[NewEvent]) -> None:
    """Record the producer's ids of accepted events."""
    lines = [line for event in new if (line := line_of(event))]
    if lines:
        run(connection, NOTE, {"lines": "\n".join(lines)})


def line_of(event: NewEvent) -> str:
    """Return the digests of an event and its id, separated by spaces; empty if the producer gave no id."""
    digests = []
    if event.message_id:
        digests.append(message_digest(event.namespace, event.message_id))
    if event.event_id is not None:
        digests.append(event_digest(event.namespace, event.event_id.rpartition(SOURCE_END)[2]))
    return " ".join([*digests, event.id]) if digests else ""


def find(connection: Connection, digest: str, *, most: int) -> set[str] | None:
    """Return the ids of the events that have a digest, or None if there are more than ``most``.

    An event may have been removed meanwhile.
    """
    found: set[str] = set()
    for text in _texts(connection, digest):
        for event_id in _event_ids(text, digest):
            found.add(event_id)
            if len(found) > most:
                return None
    return found


def having(connection: Connection, digest: str, event_ids: AbstractSet[str]) -> tuple[set[str], int]:
    """Return those of some events that have a digest, and how many lines with the digest were examined."""
    found: set[str] = set()
    examined = 0
    if event_ids:
        for text in _texts(connection, digest, least=min(event_ids), greatest=max(event_ids)):
            with_digest = list(_event_ids(text, digest))
            examined += len(with_digest)
            found |= event_ids & set(with_digest)
            if len(found) == len(event_ids):
                break
    return found, examined


def _texts(connection: Connection, digest: str, *, least: str = "", greatest: str = AFTER_ALL) -> Iterator[str]:
    """Yield the texts that have a digest: all recent ones, and those of segments with events between two ids."""
    postgres = dialect_of(connection).shared
    # Recent lines first: a line that becomes part of a segment between the queries is found twice, not missed.
    recent = IN_RECENT_POSTGRES if postgres else IN_RECENT_SQLITE
    yield from _newest_first(connection, recent, {"digest": digest}, _RECENT_AT_ONCE)
    within = {"digest": digest, "bucket": _bucket(digest), "least": least, "greatest": greatest}
    segments = IN_SEGMENTS_POSTGRES if postgres else IN_SEGMENTS_SQLITE
    yield from _newest_first(connection, segments, within, _BLOCKS_AT_ONCE)


def _newest_first(
    connection: Connection, statement: Executable, which: Mapping[str, object], at_once: int
) -> Iterator[str]:
    before = _ALL_ROWS
    while True:
        fetched = list(run(connection, statement, {**which, "before": before, "count": at_once}))
        for number, text in fetched:
            before = number
            yield text
        if len(fetched) < at_once:
            return


def _event_ids(text: str, digest: str) -> Iterator[str]:
    """Yield the events of the lines that have a digest; the other lines are not parsed."""
    at = text.find(digest)
    while at >= 0:
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        *digests, event_id = text[text.rfind("\n", 0, at) + 1 : end].split(" ")
        if digest in digests:
            yield event_id
        at = text.find(digest, end)


def _parsed(text: str) -> Iterator[tuple[list[str], str]]:
    for line in text.split("\n"):
        *digests, event_id = line.split(" ")
        yield digests, event_id


def _bucket(digest: str) -> int:
    return int(digest[:_BUCKET_DIGITS], 16) % BUCKETS


def blocks_of(lines: Iterable[str]) -> dict[int, str]:
    """Return the text of each bucket that has lines."""
    blocks: dict[int, list[str]] = {}
    for digests, event_id in _parsed("\n".join(lines)):
        for digest in digests:
            blocks.setdefault(_bucket(digest), []).append(f"{digest} {event_id}")
    return {bucket: "\n".join(part) for bucket, part in blocks.items()}


def gather(connection: Connection, *, least: int = SEGMENT) -> Segment | None:
    """Read the oldest recent lines and arrange them as a segment; return None if they have less than ``least`` digests.

    A segment has all lines of a transaction, so it may be larger.
    """
    ids: list[int] = []
    lines: list[str] = []
    digests = 0
    for row_id, text in run(connection, OLDEST, {"count": _ROWS_AT_ONCE}):
        ids.append(row_id)
        lines += text.split("\n")
        digests += text.count(" ")
        if digests >= least:
            break
    if not ids or (digests < least and len(ids) < _ROWS_AT_ONCE):
        return None
    event_ids = [line.rpartition(" ")[2] for line in lines]
    return Segment(ids, blocks_of(lines), min(event_ids), max(event_ids))


def add_segment(connection: Connection, segment: Segment) -> bool:
    """Write a segment in place of its recent lines; write nothing if another replica has done so already."""
    ids = {"rows": packed_column(segment.ids)}
    if len(list(run(connection, _LOCK_RECENT, ids))) < len(segment.ids):
        return False
    run(connection, _DROP_RECENT, ids)
    number = 1 + (connection.scalar(LAST_SEGMENT) or 0)
    places = [(number * BUCKETS + bucket, text) for bucket, text in sorted(segment.blocks.items())]
    run(connection, ADD_BLOCKS, {"rows": packed(places)})
    bounds = {"first_event_id": segment.first_event_id, "last_event_id": segment.last_event_id}
    connection.execute(_ADD_SEGMENT, {"segment": number, "merged": False, **bounds})
    return True


def forget(connection: Connection) -> int:
    """Remove a segment whose events are all removed; return how many segments were removed."""
    number = connection.scalar(_OLDEST_EMPTY)
    if number is None:
        return 0
    connection.execute(_DROP_BLOCKS, {"begin": number * BUCKETS, "end": (number + 1) * BUCKETS})
    return connection.execute(_DROP_SEGMENT, {"number": number}).rowcount
