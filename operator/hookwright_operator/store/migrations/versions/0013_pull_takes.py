"""Leases of messages that consumers took from endpoints with pull.

An operator of an earlier revision does not read this table. It understands no endpoint with pull, so it sends nothing
to one. A message that a consumer has taken stays pending, and its owner is the lease.
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

Key = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table of leases."""
    op.create_table(
        "pull_takes",
        sa.Column("id", Key, primary_key=True),
        sa.Column("endpoint_uid", Key, nullable=False),
        sa.Column("until_ms", sa.BigInteger, nullable=False),
        sa.Column("delivery_ids", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("pull_takes_by_end", "pull_takes", ["until_ms"])
