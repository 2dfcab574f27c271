"""Slices, by which SQLite finds delivered deliveries instead of indexes.

PostgreSQL keeps the indexes, because replicas of two versions may use it. An operator of an earlier revision would not
record slices, so it refuses the file.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

# Sorted in the order of an index, and so of the table's own tree. Grouping would need space for all rows at once.
FILL = (
    """
    INSERT INTO log_slices (endpoint_uid, slice)
    SELECT endpoint_uid, substr(id, 1, 12) FROM deliveries INDEXED BY deliveries_log
    WHERE state = 'delivered' ORDER BY endpoint_uid, id
    ON CONFLICT DO NOTHING
    """,
    """
    INSERT INTO ended_slices (ended_s, slice)
    SELECT ended_ms / 1000, substr(id, 1, 12) FROM deliveries INDEXED BY deliveries_done_by_age
    WHERE state IN ('delivered', 'discarded') AND state = 'delivered' ORDER BY ended_ms
    ON CONFLICT DO NOTHING
    """,
)


def upgrade() -> None:
    """Create the tables of slices, and record the delivered deliveries in them."""
    if op.get_bind().dialect.name != "sqlite":
        return
    op.create_table(
        "log_slices",
        sa.Column("endpoint_uid", sa.Text, primary_key=True),
        sa.Column("slice", sa.Text, primary_key=True),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "ended_slices",
        sa.Column("ended_s", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("slice", sa.Text, primary_key=True),
        sqlite_with_rowid=False,
    )
    for fill in FILL:
        op.execute(fill)
    for name in ("deliveries_log", "deliveries_done_by_age"):
        op.drop_index(name, "deliveries")
    pending, discarded = sa.text("state = 'pending'"), sa.text("state = 'discarded'")
    op.create_index("deliveries_pending_log", "deliveries", ["endpoint_uid", "id"], sqlite_where=pending)
    op.create_index("deliveries_discarded_log", "deliveries", ["endpoint_uid", "id"], sqlite_where=discarded)
    op.create_index("deliveries_discarded_by_age", "deliveries", ["ended_ms"], sqlite_where=discarded)
    op.execute("UPDATE compatibility SET oldest = '0005'")
