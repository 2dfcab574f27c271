"""Replays of failed deliveries, and deleted endpoints that still have counters."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

Key = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables, and the index by which a replay finds failed deliveries."""
    op.create_table(
        "recoveries",
        sa.Column("id", Key, primary_key=True),
        sa.Column("endpoint_uid", Key, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("since_ms", sa.BigInteger, nullable=False),
        sa.Column("until_ms", sa.BigInteger, nullable=False),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("done", sa.BigInteger, nullable=False),
        sa.Column("begun_ms", sa.BigInteger, nullable=False),
        sa.Column("ended_ms", sa.BigInteger),
        sa.Column("reached_ms", sa.BigInteger, nullable=False),
        sa.Column("reached_id", Key, nullable=False),
        sqlite_with_rowid=False,
    )
    running = sa.text("state = 'running'")
    op.create_index(
        "recoveries_running",
        "recoveries",
        ["endpoint_uid"],
        unique=True,
        sqlite_where=running,
        postgresql_where=running,
    )
    op.create_table(
        "gone_endpoints",
        sa.Column("endpoint_uid", Key, primary_key=True),
        sqlite_with_rowid=False,
    )
    failed = sa.text("state = 'failed'")
    op.create_index(
        "deliveries_to_recover",
        "deliveries",
        ["endpoint_uid", "ended_ms", "id"],
        sqlite_where=failed,
        postgresql_where=failed,
    )
