"""The tables, one definition for SQLite and PostgreSQL.

Times are milliseconds since the epoch. The columns of a delivery:

- ``due_ms``: when it may be attempted next; it has no meaning once the delivery has left the pending state.
- ``attempts``: attempts since it last became pending, by acceptance or by hand; the retry schedule uses it. The running
  number of an attempt is ``attempts.number``, which a retry by hand does not reset.
- ``owner``: the replica that claimed the delivery; NULL if it is unclaimed or not pending. The claim is valid until
  that replica's row in ``instances`` expires; an owner without a row is dead. Of a message that a consumer took, it is
  ``pull:`` and the id of the row in ``pull_takes``, and ``due_ms`` is the end of the lease.
- ``ended_ms``: when it left the pending state, NULL while it is pending.

A replay processes deliveries in the order of ``id``. ``replays.states`` is a JSON array of the states that it chooses,
and ``types`` is one of event types, empty for all. ``reached_id`` is the last id that the replay examined. If the array
of states is empty, the replay sends events that its endpoint has no delivery of, in the order of their ids.

``gone_endpoints`` lists deleted endpoints that still have counters.

Counters are kept by ``slot``. Each living replica has its own slot, because two replicas that update one row would wait
for each other's commits. Only the sum over all slots is meaningful; the numbers of one slot may be negative. Of the
replicas that share a database, the owner of an endpoint's shard delivers for that endpoint. A shard is free if it has
no row or its owner is dead. ``instances.delivers`` says whether the replica takes shards. If several replicas have the
same ``instances.name`` that is not empty, only the latest of them is alive.

``database_owner`` has one row: the installation that the database belongs to. ``orphans.since_ms`` is when an endpoint
with pending deliveries was first found to be missing in the cluster.

A row of ``pull_takes`` is a request that leased messages to a consumer, until
the end of the leases; ``delivery_ids`` is a JSON array.

A row of ``statistics`` counts the settled results of an endpoint within ``width_s`` seconds from ``begin_s``; see the
modules `statistics` and `latency_classes`. The rows of an endpoint in each width count the same attempts.

``compatibility.oldest`` is the oldest schema revision whose operators can still use the current schema.

``events.trace`` is the W3C ``traceparent`` of the event's acceptance, NULL if the acceptance was not traced. An event
without subscribers has no row in ``events``, only the id that identifies duplicates of it, unless its project keeps
missed events. ``events.is_test``: the event is a test of one endpoint, so no other endpoint has missed it.

``event_ids.project`` is the uid of the Project, so that another Project of the same name begins without ids.
``event_ids.event_id`` is the producer's id; that of a CloudEvent follows its source and a line break.
``event_ids.digest`` identifies the content of the event, and is NULL if the content of a repetition is not compared.
``events.attributes`` has the context attributes of a CloudEvent as a JSON object of strings.

``attempts.response_headers`` has the head of the response, a header in each line; NULL if there was no response.
``attempts.request`` is the timestamp that was signed, in seconds, and the fingerprints of the signing secrets and of
the constant part of the request's head; NULL if no request was prepared.

``events.message_id_digest`` and ``events.event_id_digest`` find events by the producer's ``messageId`` and event id
(`ids.id_digest`), NULL if the producer gave none. The digest of a CloudEvent's id is without its source.

There are no foreign keys. The transactions in this package keep the rows consistent, and a second check would cost time
for every delivery. Without a rowid, SQLite stores the rows in the tree of their primary key and needs no second tree.
This takes 6 % less space at the same speed. Rows with bodies would make a poor tree, so ``events`` has rowids.
"""

from typing import Any, Final

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

from hookwright_operator.store.latency_classes import LATENCY_BOUNDS_MS

metadata = MetaData()

# Columns that are searched or sorted. They compare byte by byte, whatever the collation of a PostgreSQL database is.
Key = Text().with_variant(Text(collation="C"), "postgresql")

instances = Table(
    "instances",
    metadata,
    Column("id", Key, primary_key=True),
    Column("lease_until_ms", BigInteger, nullable=False),
    Column("slot", Integer, nullable=False),
    Column("name", Key, nullable=False),
    Column("delivers", Boolean, nullable=False),
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
    Column("digest", BigInteger),
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
    # Before the body: SQLite reads a large body to find the columns after it.
    Column("message_id_digest", BigInteger),
    Column("event_id_digest", BigInteger),
    Column("body", LargeBinary, nullable=False),
    Column("trace", Text),
    Column("attributes", Text),
    Column("is_test", Boolean, nullable=False, server_default=false()),
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
    Index("deliveries_log", "endpoint_uid", "id"),
    Index("deliveries_by_event", "event_id", "endpoint_uid"),
    sqlite_with_rowid=False,
)

# Queries use exactly these conditions. SQLite uses a partial index only if a query repeats the index's condition with
# constants. If the query has a parameter instead, SQLite prepares the statement again at every execution.
is_pending = deliveries.c.state == literal_column("'pending'")
is_delivered = deliveries.c.state == literal_column("'delivered'")
is_failed = deliveries.c.state == literal_column("'failed'")
is_without_deliveries = events.c.deliveries == literal_column("0")
is_done = deliveries.c.state.in_([literal_column("'delivered'"), literal_column("'discarded'")])


def _partial(name: str, *columns: Column[Any], where: ColumnElement[bool], unique: bool = False) -> Index:
    return Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


_partial("events_by_message_id", events.c.message_id_digest, where=events.c.message_id_digest.is_not(None))
_partial("events_by_event_id", events.c.event_id_digest, where=events.c.event_id_digest.is_not(None))
_partial("deliveries_to_claim", deliveries.c.endpoint_uid, deliveries.c.due_ms, deliveries.c.id, where=is_pending)
_partial("deliveries_failed_log", deliveries.c.endpoint_uid, deliveries.c.id, where=is_failed)
_partial("deliveries_failed_by_age", deliveries.c.ended_ms, where=is_failed)
_partial("deliveries_done_by_age", deliveries.c.ended_ms, where=is_done)
_partial("events_without_deliveries", events.c.id, where=is_without_deliveries)

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
    Column("response_headers", Text),
    Column("request", Text),
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

replays = Table(
    "replays",
    metadata,
    Column("id", Key, primary_key=True),
    Column("endpoint_uid", Key, nullable=False),
    Column("state", Text, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("total_is_exact", Boolean, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("begun_ms", BigInteger, nullable=False),
    Column("ended_ms", BigInteger),
    Column("reached_id", Key, nullable=False),
    Column("states", Text, nullable=False),
    Column("types", Text, nullable=False),
    Index("replays_of_endpoint", "endpoint_uid", "id"),
    sqlite_with_rowid=False,
)
is_running = replays.c.state == literal_column("'running'")
_partial("replays_running", replays.c.endpoint_uid, where=is_running, unique=True)

LATENCY_COLUMNS: Final = tuple(f"latency_{number:02}" for number in range(len(LATENCY_BOUNDS_MS)))
"""The columns of ``statistics`` that count attempts by latency, one for each class."""

statistics = Table(
    "statistics",
    metadata,
    Column("width_s", Integer, primary_key=True, autoincrement=False),
    Column("begin_s", BigInteger, primary_key=True, autoincrement=False),
    Column("endpoint_uid", Key, primary_key=True),
    Column("delivered", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("attempts", BigInteger, nullable=False),
    *(Column(name, BigInteger, nullable=False) for name in LATENCY_COLUMNS),
    sqlite_with_rowid=False,
)

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
pull_takes = Table(
    "pull_takes",
    metadata,
    Column("id", Key, primary_key=True),
    Column("endpoint_uid", Key, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
    Column("delivery_ids", Text, nullable=False),
    Index("pull_takes_by_end", "until_ms"),
    sqlite_with_rowid=False,
)
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
