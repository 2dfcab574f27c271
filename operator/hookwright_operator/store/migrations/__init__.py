"""Bringing a database's schema up to date, with Alembic, when it is opened."""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from hookwright_operator.errors import StoreError

HEAD = "0008"
"""The newest revision in ``versions/``."""


def upgrade(connection: Connection) -> None:
    """Bring the schema up to date, inside the transaction that the connection is in.

    A schema that a newer operator has changed is left as it is, where it says that it still serves this one: so old and
    new replicas can start side by side.

    Raises:
        StoreError: the schema is of a revision that this operator does not know, and does not serve it.
    """
    if _revision(connection) == HEAD or _serves(connection):
        return
    # Imported only where there is something to do, for it is half of what a start costs.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StoreError(
            f"the database's schema is of revision {_revision(connection)}, which this operator does not know;"
            f" it knows those up to {HEAD}"
        ) from error


def _serves(connection: Connection) -> bool:
    """Whether the schema is newer than this operator and can be used by it all the same."""
    if (_revision(connection) or "") < HEAD:
        return False
    oldest: str | None = connection.scalar(text("SELECT oldest FROM compatibility"))
    return oldest is not None and oldest <= HEAD


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return revision
