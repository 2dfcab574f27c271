"""The first schema.

The ids of revisions begin with ``r``. The revisions 0001 to 0014 and r0001 belong to development versions, whose
databases are refused as unknown.
"""

import sqlalchemy as sa
from alembic import op

revision = "r0002"
down_revision = None

Key = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables."""
    op.create_table("compatibility", sa.Column("oldest", sa.Text, nullable=False))
    op.execute(f"INSERT INTO compatibility (oldest) VALUES ('{revision}')")
    _create_replicas()
    _create_events()
    _create_deliveries()
    _create_numbers()
    _create_replays()
    _create_tables_of_the_leader()


def _table(name: str, *columns: sa.Column, has_rowid: bool = False) -> None:
    op.create_table(name, *columns, sqlite_with_rowid=has_rowid)


def _key(name: str) -> sa.Column:
    return sa.Column(name, Key, primary_key=True)


def _key_number(name: str, kind: type = sa.Integer) -> sa.Column:
    return sa.Column(name, kind, primary_key=True, autoincrement=False)


def _word(name: str) -> sa.Column:
    """A text that is searched or sorted."""
    return sa.Column(name, Key, nullable=False)


def _text(name: str) -> sa.Column:
    return sa.Column(name, sa.Text, nullable=False)


def _number(name: str, kind: type = sa.BigInteger) -> sa.Column:
    return sa.Column(name, kind, nullable=False)


def _flag(name: str) -> sa.Column:
    return sa.Column(name, sa.Boolean, nullable=False)


def _index(name: str, table: str, *columns: str, condition: str | None = None, unique: bool = False) -> None:
    where = None if condition is None else sa.text(condition)
    op.create_index(name, table, columns, unique=unique, sqlite_where=where, postgresql_where=where)


def _create_replicas() -> None:
    _table(
        "instances",
        _key("id"),
        _number("lease_until_ms"),
        _number("slot", sa.Integer),
        _word("name"),
        _flag("delivers"),
        has_rowid=True,
    )
    _table("shards", _key_number("shard"), _word("owner"))


def _create_events() -> None:
    _table(
        "event_ids",
        _key("namespace"),
        _key("project"),
        _key("event_id"),
        _text("message_id"),
        _number("accepted_ms"),
        sa.Column("digest", sa.BigInteger),
    )
    _index("event_ids_by_age", "event_ids", "accepted_ms")
    _table(
        "events",
        _key("id"),
        _text("namespace"),
        _text("project"),
        _text("type"),
        _number("accepted_ms"),
        _number("deliveries", sa.Integer),
        sa.Column("message_id_digest", sa.BigInteger),
        sa.Column("event_id_digest", sa.BigInteger),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("trace", sa.Text),
        sa.Column("attributes", sa.Text),
        sa.Column("is_test", sa.Boolean, nullable=False, server_default=sa.false()),
        has_rowid=True,
    )
    for name in ("message_id", "event_id"):
        _index(f"events_by_{name}", "events", f"{name}_digest", condition=f"{name}_digest IS NOT NULL")
    _index("events_without_deliveries", "events", "id", condition="deliveries = 0")


def _create_deliveries() -> None:
    _table(
        "deliveries",
        _key("id"),
        _word("event_id"),
        _word("endpoint_uid"),
        _text("state"),
        _text("reason"),
        _number("due_ms"),
        _number("attempts", sa.Integer),
        sa.Column("owner", Key),
        sa.Column("ended_ms", sa.BigInteger),
    )
    is_pending, is_failed, is_done = "state = 'pending'", "state = 'failed'", "state IN ('delivered', 'discarded')"
    # Of two indexes that serve a query alike, SQLite uses the one that was created last. So the partial ones follow.
    _index("deliveries_log", "deliveries", "endpoint_uid", "id")
    _index("deliveries_by_event", "deliveries", "event_id", "endpoint_uid")
    _index("deliveries_to_claim", "deliveries", "endpoint_uid", "due_ms", "id", condition=is_pending)
    _index("deliveries_failed_log", "deliveries", "endpoint_uid", "id", condition=is_failed)
    _index("deliveries_failed_by_age", "deliveries", "ended_ms", condition=is_failed)
    _index("deliveries_done_by_age", "deliveries", "ended_ms", condition=is_done)
    _table(
        "attempts",
        _key("delivery_id"),
        _key_number("number"),
        _number("started_ms"),
        _number("duration_ms"),
        _number("status_code", sa.Integer),
        _text("error"),
        _text("response"),
        sa.Column("response_headers", sa.Text),
        sa.Column("request", sa.Text),
    )
    _table("pull_takes", _key("id"), _word("endpoint_uid"), _number("until_ms"), _text("delivery_ids"))
    _index("pull_takes_by_end", "pull_takes", "until_ms")


def _create_numbers() -> None:
    _table(
        "counters",
        _key("endpoint_uid"),
        _key_number("slot"),
        *(_number(name) for name in ("accepted", "delivered", "failed", "discarded")),
        sa.Column("last_attempt_ms", sa.BigInteger),
        sa.Column("last_status_code", sa.Integer),
    )
    _table("gone_endpoints", _key("endpoint_uid"))
    _table(
        "statistics",
        _key_number("width_s"),
        _key_number("begin_s", sa.BigInteger),
        _key("endpoint_uid"),
        *(_number(name) for name in ("delivered", "failed", "attempts")),
        *(_number(f"latency_{number:02}") for number in range(12)),
    )


def _create_replays() -> None:
    _table(
        "replays",
        _key("id"),
        _word("endpoint_uid"),
        _text("state"),
        *(_number(name) for name in ("since_ms", "until_ms", "total")),
        _flag("total_is_exact"),
        *(_number(name) for name in ("done", "begun_ms")),
        sa.Column("ended_ms", sa.BigInteger),
        _word("reached_id"),
        _text("states"),
        _text("types"),
    )
    _index("replays_of_endpoint", "replays", "endpoint_uid", "id")
    _index("replays_running", "replays", "endpoint_uid", condition="state = 'running'", unique=True)


def _create_tables_of_the_leader() -> None:
    _table("key_digests", _key("digest"), _word("namespace"), _text("name"), _number("seen_ms"))
    _index("key_digests_by_namespace", "key_digests", "namespace", "seen_ms")
    _table("database_owner", _key_number("id"), _text("cluster_uid"), _text("namespace"), _number("since_ms"))
    _table("orphans", _key("endpoint_uid"), _number("since_ms"))
