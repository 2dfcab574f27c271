"""Who delivers what: the shards of endpoints, and which instances take some.

An operator of an earlier revision serves beside newer ones: its row says that it takes no shards, and what it claims
nobody else sends. Only the bound on an endpoint's attempts then holds for the old ones apart from the new ones.
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
    """Create the table of shards, and the columns by which instances share them."""
    op.create_table(
        "shards",
        sa.Column("shard", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("owner", Key, nullable=False),
        sqlite_with_rowid=False,
    )
    if op.get_bind().dialect.name == "sqlite":
        # Nobody lives who has a row: the file is migrated by the one process that may have it open.
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
