"""Statistics of endpoints, and replays that choose deliveries by state and type.

An operator of an earlier revision does not write statistics. It does not see a replay that chooses deliveries, because
the state of this replay is ``choosing``; a newer replica advances the replay.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

Key = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table of statistics, and the columns and indexes of replays."""
    op.add_column("recoveries", sa.Column("states", sa.Text))
    op.add_column("recoveries", sa.Column("types", sa.Text))
    op.add_column("recoveries", sa.Column("total_is_exact", sa.Boolean, nullable=False, server_default=sa.true()))
    op.create_index("recoveries_of_endpoint", "recoveries", ["endpoint_uid", "id"])
    # The index recoveries_running stays, because an earlier operator names its condition in ON CONFLICT.
    running = sa.text("state IN ('running', 'choosing')")
    op.create_index(
        "recoveries_active",
        "recoveries",
        ["endpoint_uid"],
        unique=True,
        sqlite_where=running,
        postgresql_where=running,
    )
    op.create_table(
        "statistics",
        sa.Column("width_s", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("begin_s", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("endpoint_uid", Key, primary_key=True),
        sa.Column("delivered", sa.BigInteger, nullable=False),
        sa.Column("failed", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.BigInteger, nullable=False),
        *(sa.Column(f"latency_{number:02}", sa.BigInteger, nullable=False) for number in range(12)),
        sqlite_with_rowid=False,
    )
