"""The tables, one definition for SQLite and PostgreSQL.

Times are milliseconds since the epoch. The columns of a delivery:

- ``due_ms``: when it may be attempted next; it has no meaning once the delivery has left the pending state.
- ``attempts``: attempts since it last became pending, by acceptance or by hand; the retry schedule uses it. The running
  number of an attempt is ``attempts.number``, which a retry by hand does not reset.
- ``owner``: the replica that claimed the delivery; NULL if it is unclaimed or not pending. The claim is valid until
  that replica's row in ``instances`` expires; an owner without a row is dead.
- ``ended_ms``: when it left the pending state, NULL while it is pending.

A replay processes failed deliveries in the order of ``ended_ms`` and ``id``; ``reached_ms`` and ``reached_id`` are
those of the last delivery that it made pending. ``gone_endpoints`` lists deleted endpoints that still have counters.

Counters are kept by ``slot``. Each living replica has its own slot, because two replicas that update one row would wait
for each other's commits. Only the sum over all slots is meaningful; the numbers of one slot may be negative. Of the
replicas that share a database, the owner of an endpoint's shard delivers for that endpoint. A shard is free if it has
no row or its owner is dead. ``instances.delivers`` says whether the replica takes shards. If several replicas have the
same ``instances.name`` that is not empty, only the latest of them is alive.

``database_owner`` has one row: the installation that the database belongs to. ``orphans.since_ms`` is when an endpoint
with pending deliveries was first found to be missing in the cluster.

``ended_slices.ended_s`` is in seconds.

A row of ``fan_outs`` is a group of accepted events whose deliveries are not all written: one for each of its endpoints
and events, endpoint by endpoint. Both are JSON arrays of ids; ``written`` counts the deliveries that exist.

``compatibility.oldest`` is the oldest schema revision whose operators can still use the current schema.

``events.trace`` is the W3C ``traceparent`` of the event's acceptance, NULL if the acceptance was not traced. An event
without subscribers has no row in ``events``, only the id that identifies duplicates of it.

There are no foreign keys. The transactions in this package keep the rows consistent, and a second check would cost time
for every delivery. Without a rowid, SQLite stores the rows in the tree of their primary key and needs no second tree.
This takes 6 % less space at the same speed. Rows with bodies would make a poor tree, so ``events`` has rowids.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    false,
    literal_column,
)

metadata = MetaData()
sqlite_metadata = MetaData()
"""Options of tables that only SQLite has."""

# Columns that are searched or sorted. They compare byte by byte, whatever the collation of a PostgreSQL database is.
Key = Text().with_variant(Text(collation="C"), "postgresql")

instances = Table(
    "instances",
    metadata,
    Column("id", Key, primary_key=True),
    Column("lease_until_ms", BigInteger, nullable=False),
    Column("slot", Integer, nullable=False),
    Column("name", Key, nullable=False, server_default=""),
    Column("delivers", Boolean, nullable=False, server_default=false()),
)

shards = Table(
    "shards",
    metadata,
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("owner", Key, nullable=False),
    sqlite_with_rowid=False,
)

event_ids = Table(
    "event_ids",
    metadata,
    Column("namespace", Key, primary_key=True),
    Column("project", Key, primary_key=True),
    Column("event_id", Key, primary_key=True),
    Column("message_id", Text, nullable=False),
    Column("accepted_ms", BigInteger, nullable=False),
    Index("event_ids_by_age", "accepted_ms"),
    sqlite_with_rowid=False,
)

events = Table(
    "events",
    metadata,
    Column("id", Key, primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("accepted_ms", BigInteger, nullable=False),
    Column("deliveries", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("trace", Text),
)

fan_outs = Table(
    "fan_outs",
    metadata,
    Column("id", Key, primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("endpoint_uids", Text, nullable=False),
    Column("event_ids", Text, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("written", BigInteger, nullable=False),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Key, primary_key=True),
    Column("event_id", Key, nullable=False),
    Column("endpoint_uid", Key, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("due_ms", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("owner", Key),
    Column("ended_ms", BigInteger),
    Index("deliveries_log", "endpoint_uid", "id").ddl_if("postgresql"),
    sqlite_with_rowid=False,
)

# Queries use exactly these conditions. SQLite uses a partial index only if a query repeats the index's condition with
# constants. If the query has a parameter instead, SQLite prepares the statement again at every execution.
is_pending = deliveries.c.state == literal_column("'pending'")
is_delivered = deliveries.c.state == literal_column("'delivered'")
is_failed = deliveries.c.state == literal_column("'failed'")
is_discarded = deliveries.c.state == literal_column("'discarded'")
is_done = deliveries.c.state.in_([literal_column("'delivered'"), literal_column("'discarded'")])


def _partial(name: str, *columns: Column[Any], where: ColumnElement[bool], unique: bool = False) -> Index:
    return Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


_partial("deliveries_to_claim", deliveries.c.endpoint_uid, deliveries.c.due_ms, deliveries.c.id, where=is_pending)
_partial("deliveries_failed_log", deliveries.c.endpoint_uid, deliveries.c.id, where=is_failed)
_partial("deliveries_to_recover", deliveries.c.endpoint_uid, deliveries.c.ended_ms, deliveries.c.id, where=is_failed)
_partial("deliveries_failed_by_age", deliveries.c.ended_ms, where=is_failed)
_partial("deliveries_done_by_age", deliveries.c.ended_ms, where=is_done).ddl_if("postgresql")

# SQLite finds delivered deliveries by slices; see the module `slices`.
_partial("deliveries_pending_log", deliveries.c.endpoint_uid, deliveries.c.id, where=is_pending).ddl_if("sqlite")
_partial("deliveries_discarded_log", deliveries.c.endpoint_uid, deliveries.c.id, where=is_discarded).ddl_if("sqlite")
_partial("deliveries_discarded_by_age", deliveries.c.ended_ms, where=is_discarded).ddl_if("sqlite")

log_slices = Table(
    "log_slices",
    sqlite_metadata,
    Column("endpoint_uid", Text, primary_key=True),
    Column("slice", Text, primary_key=True),
    sqlite_with_rowid=False,
)

ended_slices = Table(
    "ended_slices",
    sqlite_metadata,
    Column("ended_s", Integer, primary_key=True, autoincrement=False),
    Column("slice", Text, primary_key=True),
    sqlite_with_rowid=False,
)

attempts = Table(
    "attempts",
    metadata,
    Column("delivery_id", Key, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("duration_ms", BigInteger, nullable=False),
    Column("status_code", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("response", Text, nullable=False),
    sqlite_with_rowid=False,
)

counters = Table(
    "counters",
    metadata,
    Column("endpoint_uid", Key, primary_key=True),
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("accepted", BigInteger, nullable=False),
    Column("delivered", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("discarded", BigInteger, nullable=False),
    Column("last_attempt_ms", BigInteger),
    Column("last_status_code", Integer),
    sqlite_with_rowid=False,
)

recoveries = Table(
    "recoveries",
    metadata,
    Column("id", Key, primary_key=True),
    Column("endpoint_uid", Key, nullable=False),
    Column("state", Text, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("begun_ms", BigInteger, nullable=False),
    Column("ended_ms", BigInteger),
    Column("reached_ms", BigInteger, nullable=False),
    Column("reached_id", Key, nullable=False),
    sqlite_with_rowid=False,
)

is_running = recoveries.c.state == literal_column("'running'")
_partial("recoveries_running", recoveries.c.endpoint_uid, where=is_running, unique=True)

gone_endpoints = Table(
    "gone_endpoints",
    metadata,
    Column("endpoint_uid", Key, primary_key=True),
    sqlite_with_rowid=False,
)

key_digests = Table(
    "key_digests",
    metadata,
    Column("digest", Key, primary_key=True),
    Column("namespace", Key, nullable=False),
    Column("name", Text, nullable=False),
    Column("seen_ms", BigInteger, nullable=False),
    Index("key_digests_by_namespace", "namespace", "seen_ms"),
    sqlite_with_rowid=False,
)
"""The ApiKey that declared a digest first; the row stays when the ApiKey is deleted."""
database_owner = Table(
    "database_owner",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("cluster_uid", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

orphans = Table(
    "orphans",
    metadata,
    Column("endpoint_uid", Key, primary_key=True),
    Column("since_ms", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

compatibility = Table("compatibility", metadata, Column("oldest", Text, nullable=False))
