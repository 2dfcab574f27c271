"""The installation that a database belongs to.

An installation discards pending deliveries of endpoints that its cluster does not have. So two installations on one
database would discard each other's deliveries. The database belongs to the installation that used it first. An
administrator can transfer it to another installation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from sqlalchemy import Connection, func, inspect, select, update

from hookwright_operator.store.connect import open_database
from hookwright_operator.store.database_errors import DATABASE_ERRORS, translated
from hookwright_operator.store.schema import database_owner, instances
from hookwright_operator.store.sql.dialect import dialect_of, insert
from hookwright_runtime.errors import StoreError

_ROW_ID: Final = 1
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
    def parse(cls, text: str) -> Self:
        """Parse ``<uid of kube-system>/<namespace>``.

        Raises:
            ValueError: the text has another form.
        """
        cluster_uid, separator, namespace = text.partition("/")
        if not (cluster_uid and separator and namespace) or "/" in namespace:
            raise ValueError(f"{text!r} is not an installation; expected <uid of namespace kube-system>/<namespace>")
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
        StoreError: the database belongs to another installation, and was not changed; or it cannot be opened.
        StoreUnavailable: the database cannot be used right now.
    """

    def check(_: Connection, owner: Installation) -> None:
        if owner == installation:
            return
        raise StoreError(
            f"the database belongs to another installation: namespace {owner.namespace} of the cluster whose "
            f"kube-system has uid {owner.cluster_uid}. This installation is namespace {installation.namespace} of the "
            f"cluster whose kube-system has uid {installation.cluster_uid}. Give each installation its own "
            f"database, or stop the other one and transfer its database: "
            f"hookwright-adopt --from {owner} --to {installation}"
        )

    await _own(url, installation, check, clock=clock)


async def hand_over(url: str, previous: Installation, following: Installation, *, clock: Callable[[], int]) -> None:
    """Make another installation the owner of a database.

    Args:
        url: the URL that `Store.open` takes.
        previous: the installation that the database belongs to.
        following: the installation that it belongs to afterwards.
        clock: returns milliseconds since the epoch.

    Raises:
        StoreError: the database belongs to a third installation, or operators still use it; it was not changed.
        StoreUnavailable: the database cannot be used right now.
    """

    def check(connection: Connection, owner: Installation) -> None:
        if owner == following:
            return
        if owner != previous:
            raise StoreError(f"the database belongs to {owner} and not to {previous}; nothing was changed")
        if dialect_of(connection).is_shared:
            _check_unused(connection, now=clock())

    await _own(url, following, check, clock=clock)


async def _own(
    url: str, installation: Installation, check: Callable[[Connection, Installation], None], *, clock: Callable[[], int]
) -> None:
    """Make an installation the owner of a database.

    Args:
        url: as `Store.open` takes it.
        installation: the owner afterwards.
        check: raises a StoreError if the present owner must stay. It is called before the schema is changed, and again
            in the transaction that changes the owner, because another installation may have become it in between.
        clock: returns milliseconds since the epoch.
    """

    def admit(connection: Connection) -> None:
        if inspect(connection).has_table(database_owner.name) and (owner := _owner(connection)) is not None:
            check(connection, owner)

    def enter(connection: Connection) -> None:
        row = {"cluster_uid": installation.cluster_uid, "namespace": installation.namespace, "since_ms": clock()}
        connection.execute(insert(database_owner).values(id=_ROW_ID, **row).on_conflict_do_nothing())
        owner = _owner(connection)
        assert owner is not None
        check(connection, owner)
        if owner != installation:
            connection.execute(update(database_owner).values(row))

    database = await open_database(url, admit=admit)
    try:
        await database.write(enter)
    except DATABASE_ERRORS as error:
        raise translated(error) from None
    finally:
        await database.close()


def _owner(connection: Connection) -> Installation | None:
    row = connection.execute(select(database_owner.c.cluster_uid, database_owner.c.namespace)).one_or_none()
    return None if row is None else Installation(row.cluster_uid, row.namespace)


def _check_unused(connection: Connection, *, now: int) -> None:
    living = select(func.count(), func.max(instances.c.lease_until_ms)).where(instances.c.lease_until_ms > now)
    processes, until_ms = connection.execute(living).one()
    if processes:
        raise StoreError(
            f"{processes} operator processes use the database; stop them first. A process that has ended counts "
            f"until its claim lease expires, in {max(1, (until_ms - now) // 1000)} s at most. Nothing was changed"
        )
