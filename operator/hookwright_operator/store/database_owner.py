"""The installation that a database belongs to.

An installation discards pending deliveries of endpoints that its cluster does not have. So two installations on one
database would discard each other's deliveries. The database belongs to the installation that used it first. An
administrator can transfer it to another installation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from sqlalchemy import Connection, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import SQLAlchemyError

from hookwright_operator.errors import StoreError
from hookwright_operator.store.engine import Database, open_database
from hookwright_operator.store.faults import translated
from hookwright_operator.store.schema import database_owner, instances

_ONE: Final = 1
"""Id of the only row of ``database_owner``."""


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation of Hookwright.

    Attributes:
        cluster_uid: uid of the cluster's namespace kube-system.
        namespace: the installation's own namespace.
    """

    cluster_uid: str
    namespace: str

    @classmethod
    def parse(cls, written: str) -> Self:
        """Parse ``<uid of kube-system>/<namespace>``.

        Raises:
            ValueError: the text has another form.
        """
        cluster_uid, separator, namespace = written.partition("/")
        if not (cluster_uid and separator and namespace) or "/" in namespace:
            raise ValueError(f"{written!r} is not an installation; expected <uid of namespace kube-system>/<namespace>")
        return cls(cluster_uid, namespace)

    def __str__(self) -> str:
        """Return the form that `parse` reads."""
        return f"{self.cluster_uid}/{self.namespace}"


async def claim_database(url: str, installation: Installation, *, clock: Callable[[], int]) -> None:
    """Record an installation as the owner of a database that has no owner yet.

    Args:
        url: the URL that `Store.open` takes.
        installation: the installation that wants to use the database.
        clock: returns milliseconds since the epoch.

    Raises:
        StoreError: the database belongs to another installation, or cannot be opened.
        StoreUnavailable: the database cannot be used right now.
    """
    owner = await _write(url, lambda connection, _: _enter(connection, installation, now=clock()))
    if owner != installation:
        raise StoreError(
            f"the database belongs to another installation: namespace {owner.namespace} of the cluster whose "
            f"kube-system has uid {owner.cluster_uid}. This installation is namespace {installation.namespace} of the "
            f"cluster whose kube-system has uid {installation.cluster_uid}. Give each installation its own "
            f"database, or stop the other one and transfer its database: "
            f"hookwright-adopt --from {owner} --to {installation}"
        )


async def hand_over(url: str, previous: Installation, following: Installation, *, clock: Callable[[], int]) -> None:
    """Make another installation the owner of a database.

    Args:
        url: the URL that `Store.open` takes.
        previous: the installation that the database belongs to.
        following: the installation that it belongs to afterwards.
        clock: returns milliseconds since the epoch.

    Raises:
        StoreError: the database belongs to a third installation, or operators still use it.
        StoreUnavailable: the database cannot be used right now.
    """

    def change(connection: Connection, database: Database) -> Installation:
        owner = _enter(connection, following, now=clock())
        if owner == following:
            return owner
        if owner != previous:
            raise StoreError(f"the database belongs to {owner} and not to {previous}; nothing was changed")
        if not database.exclusive:
            _check_unused(connection, now=clock())
        values = {"cluster_uid": following.cluster_uid, "namespace": following.namespace, "since_ms": clock()}
        connection.execute(update(database_owner).values(values))
        return following

    await _write(url, change)


async def _write(url: str, work: Callable[[Connection, Database], Installation]) -> Installation:
    database = await open_database(url)
    try:
        return await database.write(lambda connection: work(connection, database))
    except (SQLAlchemyError, OSError) as error:
        raise translated(error) from None
    finally:
        await database.close()


def _enter(connection: Connection, installation: Installation, *, now: int) -> Installation:
    """Insert the owner if there is none, and return the owner."""
    row = {
        "id": _ONE,
        "cluster_uid": installation.cluster_uid,
        "namespace": installation.namespace,
        "since_ms": now,
    }
    connection.execute(insert(database_owner).values(row).on_conflict_do_nothing())
    found = connection.execute(select(database_owner.c.cluster_uid, database_owner.c.namespace)).one()
    return Installation(found.cluster_uid, found.namespace)


def _check_unused(connection: Connection, *, now: int) -> None:
    living = select(func.count(), func.max(instances.c.lease_until_ms)).where(instances.c.lease_until_ms > now)
    processes, until_ms = connection.execute(living).one()
    if processes:
        raise StoreError(
            f"{processes} operator processes use the database; stop them first. A process that has ended counts "
            f"until its claim lease expires, in {max(1, (until_ms - now) // 1000)} s at most. Nothing was changed"
        )
