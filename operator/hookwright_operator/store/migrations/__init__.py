"""Schema migrations: a new database gets the tables of `schema`, and Alembic brings an older one up to date.

A change of the schema needs a new module in ``versions/``, the new definitions in `schema`, and `HEAD`. If operators of
the revision before cannot use the new schema, the migration sets ``compatibility.oldest`` to its own revision, and
`OLDEST` changes too.
"""

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Connection, Index, func, inspect, select, text
from sqlalchemy.schema import CreateIndex, CreateTable

from hookwright_operator.store.schema import compatibility, metadata
from hookwright_runtime.errors import StoreError

HEAD = "r0002"
"""The newest revision in ``versions/``. The ids of revisions rise in the order of the alphabet."""
OLDEST = "r0002"
"""The oldest revision whose operators can use a schema of `HEAD`."""

Admit = Callable[[Connection], None]
"""Raises a StoreError if this process may not use the database; it is called before the schema is changed."""


def upgrade(connection: Connection, admit: Admit | None = None) -> None:
    """Bring the schema up to date, inside the current transaction of the connection.

    A schema that a newer operator has changed does not change if it is compatible with this operator. So old and new
    replicas can start side by side.

    Args:
        connection: of the database.
        admit: may refuse the database; the schema does not change then.

    Raises:
        StoreError: this operator does not know the schema's revision, and the schema is not compatible with it.
    """
    if admit is not None:
        admit(connection)
    revision = _revision(connection)
    if revision == HEAD or _serves(connection):
        return
    # Imported only if there is a migration to run, because the import takes half of the start time.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    if revision is None:
        _create(connection)
        command.stamp(config, HEAD)
        return
    try:
        command.upgrade(config, HEAD)
    except CommandError as error:
        raise StoreError(
            f"the schema of database {_name(connection)} has revision {revision}, which this operator does"
            f" not know; it knows revisions up to {HEAD}. Use the version of the operator that wrote the database."
            " If that was a development version, recreate the database"
        ) from error


def _create(connection: Connection) -> None:
    for table in metadata.sorted_tables:
        connection.execute(CreateTable(table))
        for index in sorted(table.indexes, key=_rank):
            connection.execute(CreateIndex(index))
    connection.execute(compatibility.insert().values(oldest=OLDEST))


def _rank(index: Index) -> tuple[bool, str]:
    # Of two indexes that serve a query alike, SQLite uses the one that was created last. So the partial ones follow.
    return index.dialect_options["sqlite"]["where"] is not None, str(index.name)


def _serves(connection: Connection) -> bool:
    """Return whether the schema is newer than this operator and still compatible with it."""
    if (_revision(connection) or "") < HEAD:
        return False
    oldest: str | None = connection.scalar(text("SELECT oldest FROM compatibility"))
    return oldest is not None and oldest <= HEAD


def _name(connection: Connection) -> str:
    """Return the path of the file, or the name of the database on the server."""
    if connection.dialect.name == "sqlite":
        return str(connection.engine.url.database)
    return str(connection.scalar(select(func.current_database())))


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return revision
