"""Whether the segments of a group are merged.

An operator of an earlier revision merges none. It reads merged segments like all others, and the segments that it adds
are not merged.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add the column, which rewrites no row."""
    op.add_column("search_segments", sa.Column("merged", sa.Boolean, nullable=False, server_default=sa.false()))
