"""Events, their deliveries and attempts, the counters of endpoints, the replicas that claim."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

Key = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "instances",
        sa.Column("id", Key, primary_key=True),
        sa.Column("lease_until_ms", sa.BigInteger, nullable=False),
        sa.Column("slot", sa.Integer, nullable=False),
    )
    op.create_table(
        "event_ids",
        sa.Column("namespace", Key, primary_key=True),
        sa.Column("project", Key, primary_key=True),
        sa.Column("event_id", Key, primary_key=True),
        sa.Column("message_id", sa.Text, nullable=False),
        sa.Column("accepted_ms", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("event_ids_by_age", "event_ids", ["accepted_ms"])
    op.create_table(
        "events",
        sa.Column("id", Key, primary_key=True),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("accepted_ms", sa.BigInteger, nullable=False),
        sa.Column("deliveries", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    _create_deliveries()
    op.create_table(
        "attempts",
        sa.Column("delivery_id", Key, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("started_ms", sa.BigInteger, nullable=False),
        sa.Column("duration_ms", sa.BigInteger, nullable=False),
        sa.Column("status_code", sa.Integer, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("response", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "counters",
        sa.Column("endpoint_uid", Key, primary_key=True),
        sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("accepted", sa.BigInteger, nullable=False),
        sa.Column("delivered", sa.BigInteger, nullable=False),
        sa.Column("failed", sa.BigInteger, nullable=False),
        sa.Column("discarded", sa.BigInteger, nullable=False),
        sa.Column("last_attempt_ms", sa.BigInteger),
        sa.Column("last_status_code", sa.Integer),
        sqlite_with_rowid=False,
    )
    op.create_table("compatibility", sa.Column("oldest", sa.Text, nullable=False))
    op.execute("INSERT INTO compatibility (oldest) VALUES ('0001')")


def _create_deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", Key, primary_key=True),
        sa.Column("event_id", Key, nullable=False),
        sa.Column("endpoint_uid", Key, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("due_ms", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("owner", Key),
        sa.Column("ended_ms", sa.BigInteger),
        sqlite_with_rowid=False,
    )
    op.create_index("deliveries_log", "deliveries", ["endpoint_uid", "id"])
    partial = {
        "deliveries_to_claim": (["endpoint_uid", "due_ms", "id"], "state = 'pending'"),
        "deliveries_failed_log": (["endpoint_uid", "id"], "state = 'failed'"),
        "deliveries_failed_by_age": (["ended_ms"], "state = 'failed'"),
        "deliveries_done_by_age": (["ended_ms"], "state IN ('delivered', 'discarded')"),
    }
    for name, (columns, condition) in partial.items():
        where = sa.text(condition)
        op.create_index(name, "deliveries", columns, sqlite_where=where, postgresql_where=where)
