"""``hookwright store``: back up and restore the SQLite store of an installation, and adopt a database."""

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.commands.asking import confirm
from hookwright_cli.deadline import DEADLINE
from hookwright_cli.parameters import Yes, argument
from hookwright_cli.verbs import Invocation
from hookwright_cli.way_choice import option

if TYPE_CHECKING:
    from hookwright_cli.ways.store_copy import StoreCopy


def back_up(
    invocation: Invocation,
    file: Annotated[str, argument("FILE")] = "hookwright-backup.db",
    force: Annotated[bool, option("--force", None, "Replace the file if it exists.")] = False,
) -> None:
    """Copy the SQLite store to a file while the operator runs, and check the copy. Back up PostgreSQL with pg_dump."""
    path = Path(file)
    if path.exists() and not force:
        raise CommandError(f"{path} exists; replace it with --force", ExitCode.CONFLICT)
    copy = _store(invocation, "store backup")
    draft = path.with_name(f"{path.name}.part")
    try:
        with copy.copied() as (size, read):
            with invocation.screen.progress("copying (bytes)", size) as report, new_private_file(draft) as target:
                read(target, report)
            if (copy_size := draft.stat().st_size) != size:
                raise CommandError(f"the copy has {copy_size} of {size} bytes; try again", ExitCode.UNAVAILABLE)
            counts = _counts(draft)
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    states = ", ".join(f"{number} {state}" for state, number in counts.items()) or "no"
    invocation.screen.one(
        {"file": str(path), "bytes": size, "deliveries": counts},
        f"{path}: {size} bytes, integrity ok, {states} deliveries",
        name=str(path),
    )


def new_private_file(path: Path) -> BinaryIO:
    """Open a new file that only its owner can read. A link of this name is removed, because another user may own it."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _counts(path: Path) -> dict[str, int]:
    """Return the number of deliveries by state, after the check of the file."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as store:
            if (fault := store.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
                raise CommandError(f"{path} is damaged: {fault}")
            return dict(store.execute("SELECT state, count(*) FROM deliveries GROUP BY state ORDER BY state"))
    except sqlite3.Error as error:
        raise CommandError(f"{path} is not a store of Hookwright: {error}", ExitCode.INVALID) from None


def restore(invocation: Invocation, file: Annotated[str, argument("FILE")], yes: Yes = False) -> None:
    """Replace the SQLite store by a copy. The operator is stopped meanwhile; producers send again later."""
    path = Path(file)
    _counts(path)
    copy = _store(invocation, "store restore")
    confirm(f"Stop the operator and replace its store by {path}?", yes=yes)
    start = time.monotonic()
    invocation.screen.note("stopping the operator")
    with copy.operator_stopped(invocation.screen.note):
        size = path.stat().st_size
        with invocation.screen.progress("copying (bytes)", size) as report, path.open("rb") as source:
            copy.write(source, size, report)
    document = {"file": str(path), "bytes": size, "seconds": round(time.monotonic() - start, 1)}
    invocation.screen.one(document, f"the store is that of {path}; the operator starts", name=str(path))


def adopt(
    invocation: Invocation,
    previous: Annotated[str, option("--from", "CLUSTER/NAMESPACE", "The present owner.")],
    yes: Yes = False,
) -> None:
    """Transfer the database of another installation, such as a restored copy, to this one.

    The log of a refused operator names the present owner. The operator is stopped meanwhile. SQLite and PostgreSQL.
    """
    copy = _store(invocation, "store adopt", only_sqlite=False)
    confirm(f"Stop the operator and take the database from {previous}?", yes=yes)
    with copy.operator_stopped(invocation.screen.note):
        owner = copy.adopt(previous)
    invocation.screen.one({"owner": owner}, f"the database belongs to {owner}; the operator starts", name=owner)


def _store(invocation: Invocation, verb: str, *, only_sqlite: bool = True) -> "StoreCopy":
    """Return the store for a command that runs until its work ends."""
    from hookwright_cli.ways.store_copy import StoreCopy

    way = invocation.cluster_way(verb)
    DEADLINE.lift()
    return StoreCopy(way, only_sqlite=only_sqlite)
