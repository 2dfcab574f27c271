"""The first schema: `migrations.upgrade` creates the tables of `schema` in a new database, so nothing is left to do.

The ids of revisions begin with ``r``. The revisions 0001 to 0014 and r0001 belong to development versions, whose
databases are refused as unknown.
"""

revision = "r0002"
down_revision = None


def upgrade() -> None:
    """Change nothing."""
