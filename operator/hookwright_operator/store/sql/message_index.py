"""The index that finds events by the producer's ids: by ``messageId``, and by the id that identifies repetitions.

These ids are random, so an index in a plain tree dirties one page for each event. Here an acceptance inserts one row
into ``search_recent``, whatever the number of its events: a line for each event with digests of its ids. When enough
lines are there, they become a *segment*: `BUCKETS` rows of ``search_blocks``, each with the lines whose digests begin
alike. A segment is written once, in the order of its rows. A search reads one row of each segment and all recent lines.

The namespace is part of a digest. A digest has 48 bits, so a search may find a wrong event of the namespace once in
millions of searches of a database with 10,000,000 events.

Sync functions on a connection.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Connection,
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
from hookwright_operator.store.sql.rows import packed, packed_column, rows
from hookwright_operator.store.sql.statements import run

BUCKETS: Final = 512
SEGMENT: Final = 16_384
"""Digests of a segment, at least."""
_ROWS_AT_ONCE: Final = 20_000
_DIGEST_BYTES: Final = 6
_BUCKET_DIGITS: Final = 3

_digest = bindparam("digest", type_=Text)
_count = bindparam("count", type_=Integer)
NOTE = insert(search_recent).values(lines=bindparam("lines", type_=Text)).inline()
_lines = select(search_recent.c.lines)
IN_RECENT_SQLITE = _lines.where(func.instr(search_recent.c.lines, _digest) > literal_column("0"))
IN_RECENT_POSTGRES = _lines.where(func.strpos(search_recent.c.lines, _digest) > literal_column("0"))
IN_SEGMENTS = select(search_blocks.c.lines).join(
    search_segments,
    search_blocks.c.id
    == search_segments.c.segment * literal_column(str(BUCKETS)) + bindparam("bucket", type_=BigInteger),
)
OLDEST = select(search_recent.c.id, search_recent.c.lines).order_by(search_recent.c.id).limit(_count)
_LAST_SEGMENT = select(func.max(search_segments.c.segment))
_ids = rows(id=BigInteger)
_LOCK_RECENT = (
    select(search_recent.c.id).where(search_recent.c.id.in_(select(_ids.c.id))).with_for_update(skip_locked=True)
)
_DROP_RECENT = delete(search_recent).where(search_recent.c.id.in_(select(_ids.c.id)))
_blocks = rows(id=BigInteger, lines=Text)
_ADD_BLOCKS = insert(search_blocks).from_select(["id", "lines"], select(_blocks))
_ADD_SEGMENT = insert(search_segments)
EMPTY = select(search_segments.c.segment).where(
    ~exists().where(events.c.id >= search_segments.c.first_event_id, events.c.id <= search_segments.c.last_event_id)
)
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


def find(connection: Connection, digest: str) -> set[str]:
    """Return the ids of the events that have a digest; an event may have been removed meanwhile."""
    in_recent = IN_RECENT_POSTGRES if dialect_of(connection).shared else IN_RECENT_SQLITE
    # Recent lines first: a line that becomes part of a segment between the two queries is found twice, not missed.
    recent = list(run(connection, in_recent, {"digest": digest}))
    blocks = list(run(connection, IN_SEGMENTS, {"bucket": _bucket(digest)}))
    # Few blocks have the digest, so the others are not parsed.
    texts = [text for (text,) in [*recent, *blocks] if digest in text]
    return {event_id for text in texts for digests, event_id in _parsed(text) if digest in digests}


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
    number = 1 + (connection.scalar(_LAST_SEGMENT) or 0)
    places = [(number * BUCKETS + bucket, text) for bucket, text in sorted(segment.blocks.items())]
    run(connection, _ADD_BLOCKS, {"rows": packed(places)})
    bounds = {"first_event_id": segment.first_event_id, "last_event_id": segment.last_event_id}
    connection.execute(_ADD_SEGMENT, {"segment": number, **bounds})
    return True


def forget(connection: Connection) -> int:
    """Remove a segment whose events are all removed; return how many segments were removed."""
    number = connection.scalar(EMPTY.order_by(search_segments.c.segment).limit(1))
    if number is None:
        return 0
    connection.execute(_DROP_BLOCKS, {"begin": number * BUCKETS, "end": (number + 1) * BUCKETS})
    return connection.execute(_DROP_SEGMENT, {"number": number}).rowcount
