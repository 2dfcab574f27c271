"""Transactions of one replica: writing calls share commits, reading calls run beside them."""

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import Connection

from hookwright_operator.store.database import Database
from hookwright_operator.store.database_errors import DATABASE_ERRORS, translated
from hookwright_operator.store.group_commit import GroupCommit, Observe, Operation, counted
from hookwright_runtime.errors import StoreUnavailable

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class Transactions:
    """Runs functions in transactions of a database; every call may raise StoreUnavailable.

    Args:
        database: it is closed with this object.
        clock: returns the time in milliseconds since the epoch, in any thread.
        observe: receives the name of each operation and its seconds.

    Attributes:
        settlements: the group commit of settlements. Where several connections write, it has its own, so that a
            settlement does not wait for the round trips of an accept.
        slot: the slot of this replica's counters; it is known when the replica is registered.
    """

    def __init__(self, database: Database, clock: Callable[[], int], observe: Observe) -> None:
        self.database, self.clock, self._observe = database, clock, observe
        self.notifications = database.notifications
        self.group_commit = GroupCommit(database.write, observe)
        self.settlements = GroupCommit(database.write, observe) if database.is_shared else self.group_commit
        self.slot = 0
        self._closed = False

    @property
    def settling_slot(self) -> int:
        """The slot of the counters that settlements change: an accept locks the rows of its own until it commits."""
        return ~self.slot if self.database.is_shared else self.slot

    def write_now(self, name: str, step: Callable[..., T], *, weight: int = 1, tenant: str = "") -> "asyncio.Future[T]":
        """Submit a function that takes the time at which its transaction runs as ``now``; see `write`."""
        return self.write(name, lambda connection: step(connection, now=self.clock()), weight=weight, tenant=tenant)

    def write(
        self, name: str, work: Callable[[Connection], T], *, weight: int = 1, tenant: str = ""
    ) -> "asyncio.Future[T]":
        """Submit a function that shares no work with other calls of its kind; see `GroupCommit.submit`."""
        operation: Operation[None, T] = Operation(name, lambda connection, _: [work(connection)])
        return self.group_commit.submit(operation, None, weight=weight, tenant=tenant)

    async def read(self, name: str, work: Callable[[Connection], T], *, of_log: bool = False) -> T:
        """Run a function that only reads; see `Database.read`."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        start = perf_counter()
        try:
            return await self.database.read(work, of_log=of_log)
        except DATABASE_ERRORS as error:
            raise counted(translated(error)) from error
        finally:
            self._observe(name, perf_counter() - start)

    async def close(self) -> None:
        """Commit all calls made so far, then refuse new calls and close the database."""
        if not self._closed:
            self._closed = True
            await self.group_commit.close()
            await self.settlements.close()
            await self.database.close()
