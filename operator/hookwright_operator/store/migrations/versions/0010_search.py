"""The tables by which the delivery log is searched, and the request and response of an attempt.

An operator of an earlier revision can run beside newer ones. Its events are not found by the producer's ids, and its
attempts have no headers of the response.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Create the tables, and add the columns, which rewrites no row."""
    key = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.add_column("attempts", sa.Column("response_headers", sa.Text))
    op.add_column("attempts", sa.Column("request", sa.Text))
    op.create_table(
        "search_recent", sa.Column("id", number, primary_key=True), sa.Column("lines", sa.Text, nullable=False)
    )
    op.create_table(
        "search_blocks",
        sa.Column("id", number, primary_key=True, autoincrement=False),
        sa.Column("lines", sa.Text, nullable=False),
    )
    op.create_table(
        "search_segments",
        sa.Column("segment", number, primary_key=True, autoincrement=False),
        sa.Column("first_event_id", key, nullable=False),
        sa.Column("last_event_id", key, nullable=False),
    )
