"""The log on SQLite without an index of all deliveries by endpoint; PostgreSQL keeps it, for replicas of two versions.

An operator of an earlier revision would not enter what it delivers, so it refuses the file.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

# In the order of the index, and so of the table's own tree: grouping would take room for all of them at once.
FILL = """
    INSERT INTO log_slices (endpoint_uid, slice, until_ms)
    SELECT endpoint_uid, substr(id, 1, 12), ended_ms FROM deliveries INDEXED BY deliveries_log
    WHERE state = 'delivered' ORDER BY endpoint_uid, id
    ON CONFLICT DO UPDATE SET until_ms = max(until_ms, excluded.until_ms)
"""


def upgrade() -> None:
    """Create the table of slices, and enter what is delivered."""
    if op.get_bind().dialect.name != "sqlite":
        return
    op.create_table(
        "log_slices",
        sa.Column("endpoint_uid", sa.Text, primary_key=True),
        sa.Column("slice", sa.Text, primary_key=True),
        sa.Column("until_ms", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.execute(FILL)
    op.create_index("log_slices_by_age", "log_slices", ["until_ms"])
    op.drop_index("deliveries_log", "deliveries")
    for state in ("pending", "discarded"):
        where = sa.text(f"state = '{state}'")
        op.create_index(f"deliveries_{state}_log", "deliveries", ["endpoint_uid", "id"], sqlite_where=where)
    op.execute("UPDATE compatibility SET oldest = '0005'")
