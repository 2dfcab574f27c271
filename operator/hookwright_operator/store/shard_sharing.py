"""A replica's calls for sharing endpoints with other replicas on the same database."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from sqlalchemy import Connection

from hookwright_operator.store.records import Holding, Replica
from hookwright_operator.store.sql import shards

T = TypeVar("T")


class Transact(Protocol):
    """Runs a function on a connection; its duration is observed under a name."""

    def __call__(self, name: str, work: Callable[[Connection], T], /) -> Awaitable[T]:
        """Run the function, and return its result after the commit."""


@dataclass(slots=True)
class ShardSharing:
    """Takes and releases shards of endpoints; every call may raise StoreUnavailable.

    Attributes:
        member: this replica, as other replicas see it.
        announce: notifies the other replicas.
    """

    member: Replica
    read: Transact
    write: Transact
    clock: Callable[[], int]
    announce: Callable[[Iterable[str]], None]

    async def balance(self) -> Holding:
        """Take free shards up to this replica's share, and return its shards afterwards."""
        me, now = self.member.id, self.clock
        # Most of the time there is nothing to take, and a read locks nothing.
        held, lacked = await self.read("balance", lambda connection: shards.look(connection, me=me, now=now()))
        if not lacked:
            return held
        return await self.write("balance", lambda connection: shards.take(connection, me=me, now=now()))

    async def free(self, numbers: Iterable[int]) -> None:
        """Release shards for other replicas; no delivery of their endpoints may be in flight here any more."""
        freed = frozenset(numbers)
        await self.write("free", lambda connection: shards.free(connection, freed, me=self.member.id))
        self.changed()

    async def withdraw(self) -> None:
        """Take no shards from now on: all shards of this replica become surplus."""
        self.member = replace(self.member, delivers=False)
        await self.write("withdraw", lambda connection: shards.withdraw(connection, me=self.member.id))
        self.changed()

    def changed(self) -> None:
        """Notify the other replicas that they should take or release shards now."""
        self.announce([shards.CHANGED])
