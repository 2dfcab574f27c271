"""Shards of endpoints, and which replicas take shards.

An operator of an earlier revision can run beside newer ones. Its row says that it takes no shards, and no other replica
sends the deliveries that it claims. Until all replicas are new, the limit on an endpoint's concurrent attempts applies
to old and new replicas separately.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

Key = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
NEW = (
    sa.Column("name", Key, nullable=False, server_default=""),
    sa.Column("delivers", sa.Boolean, nullable=False, server_default=sa.false()),
)


def upgrade() -> None:
    """Create the table of shards, and the columns by which replicas share them."""
    op.create_table(
        "shards",
        sa.Column("shard", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("owner", Key, nullable=False),
        sqlite_with_rowid=False,
    )
    if op.get_bind().dialect.name == "sqlite":
        # All replicas with a row are dead, because only the process that migrates can have the file open.
        op.drop_table("instances")
        op.create_table(
            "instances",
            sa.Column("id", Key, primary_key=True),
            sa.Column("lease_until_ms", sa.BigInteger, nullable=False),
            sa.Column("slot", sa.Integer, nullable=False),
            *NEW,
        )
    else:
        for column in NEW:
            op.add_column("instances", column)
