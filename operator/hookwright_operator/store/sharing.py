"""An instance's part in sharing endpoints with others on the same database."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from sqlalchemy import Connection

from hookwright_operator.store import shards
from hookwright_operator.store.model import Holding, Member

T = TypeVar("T")


class Transact(Protocol):
    """Runs a function on a connection, under the name by which it is observed."""

    def __call__(self, name: str, work: Callable[[Connection], T], /) -> Awaitable[T]:
        """Run the function, and return what it returns after the commit."""


@dataclass(slots=True)
class Sharing:
    """Takes shards of endpoints and frees them; every call may raise StoreUnavailable.

    Attributes:
        member: the instance, as others see it.
        announce: tells the others.
    """

    member: Member
    read: Transact
    write: Transact
    clock: Callable[[], int]
    announce: Callable[[Iterable[str]], None]

    async def balance(self) -> Holding:
        """Take free shards up to this instance's share, and return what it has then."""
        me, now = self.member.id, self.clock
        # Most of the time there is nothing to take, and a look locks nothing.
        held, lacked = await self.read("balance", lambda connection: shards.look(connection, me=me, now=now()))
        if not lacked:
            return held
        return await self.write("balance", lambda connection: shards.take(connection, me=me, now=now()))

    async def free(self, numbers: Iterable[int]) -> None:
        """Let others have shards, of whose endpoints nothing is under way here any more."""
        freed = frozenset(numbers)
        await self.write("free", lambda connection: shards.free(connection, freed, me=self.member.id))
        self.changed()

    async def withdraw(self) -> None:
        """Take no shards from now on: every one that this instance has is surplus."""
        self.member = replace(self.member, delivers=False)
        await self.write("withdraw", lambda connection: shards.withdraw(connection, me=self.member.id))
        self.changed()

    def changed(self) -> None:
        """Let the others look at once: there are shards to take or to let go."""
        self.announce([shards.CHANGED])
