"""Events that are stored without a subscriber.

An operator of an earlier revision stores no such event. It completes a replay of missed events without sending any.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

Key = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "kept_events",
        sa.Column("event_id", Key, primary_key=True),
        sa.Column("namespace", Key, nullable=False),
        sa.Column("project", Key, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("kept_events_of_project", "kept_events", ["namespace", "project", "event_id"])
