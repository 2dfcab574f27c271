"""The trace that an event's attempts belong to; an operator of an earlier revision does not write it."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the column, which rewrites no row."""
    op.add_column("events", sa.Column("trace", sa.Text))
