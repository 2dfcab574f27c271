"""The installation that the database belongs to, and since when endpoints with pending deliveries are unknown.

Earlier operators do not use these tables and can run beside newer ones.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

Key = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables; the first operator that starts records its installation."""
    op.create_table(
        "database_owner",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("cluster_uid", sa.Text, nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("since_ms", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "orphans",
        sa.Column("endpoint_uid", Key, primary_key=True),
        sa.Column("since_ms", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
