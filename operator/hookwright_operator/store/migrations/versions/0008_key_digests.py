"""The owners of API key digests. An operator of an earlier revision does not use the table."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

Key = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table; operators record the digests of existing ApiKeys when they start."""
    op.create_table(
        "key_digests",
        sa.Column("digest", Key, primary_key=True),
        sa.Column("namespace", Key, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("seen_ms", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("key_digests_by_namespace", "key_digests", ["namespace", "seen_ms"])
