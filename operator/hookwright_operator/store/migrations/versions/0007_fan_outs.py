"""Accepted events whose deliveries are written in slices.

An operator of an earlier revision can run beside newer ones. It does not write these deliveries; newer ones do.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Create the table."""
    key = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "fan_outs",
        sa.Column("id", key, primary_key=True),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("endpoint_uids", sa.Text, nullable=False),
        sa.Column("event_ids", sa.Text, nullable=False),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("written", sa.BigInteger, nullable=False),
    )
