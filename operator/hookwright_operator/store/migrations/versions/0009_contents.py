"""The digest of an event's content, and the attributes of CloudEvents.

An operator of an earlier revision writes neither. Its events are sent without attributes, and their content is not
compared with that of a repetition.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the columns, which rewrites no row."""
    op.add_column("event_ids", sa.Column("digest", sa.BigInteger))
    op.add_column("events", sa.Column("attributes", sa.Text))
