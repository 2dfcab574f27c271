"""Shards of endpoints, by which replicas that share a database divide the work.

Each endpoint belongs to one of a fixed number of shards, and each shard to one living replica. Members, the living
replicas that deliver, have equal shares. A member with too few shards takes shards that are free or belonged to a dead
replica. A member with too many shards releases some. A shard changes its owner only after the owner has released it, or
is dead.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final
from zlib import crc32

from sqlalchemy import BigInteger, Connection, Integer, Text, bindparam, delete, select, true, update

from hookwright_operator.store.records import Replica
from hookwright_operator.store.schema import instances, shards
from hookwright_operator.store.sql.dialect import insert, lock
from hookwright_operator.store.sql.rows import packed_column, rows
from hookwright_operator.store.transactions import Transactions

SHARDS: Final = 128
"""The number of shards. It is part of the schema: all replicas must use the same number."""

CLOCKS_DIFFER_MS: Final = 1000
"""An owner counts as dead this long after its claim lease expired: clocks of two machines may differ by that."""

NOTICE: Final = "shards"
"""The text of a notification when shards are free, or when members joined or left; it replaces an endpoint's uid."""

# The key of the lock under which shards are taken, by one replica at a time.
SHARING: Final = 4_716_552_003

_me = bindparam("me", type_=Text)
_numbers = rows(shard=Integer)

_LIVING = select(instances.c.id, instances.c.delivers).where(
    instances.c.lease_until_ms > bindparam("now", type_=BigInteger)
)
_OWNERS = select(shards.c.shard, shards.c.owner)
_take = insert(shards).from_select(["shard", "owner"], select(_numbers.c.shard, _me).where(true()))
_TAKE = _take.on_conflict_do_update(index_elements=list(shards.primary_key), set_={"owner": _take.excluded.owner})
_FREE = delete(shards).where(shards.c.owner == _me, shards.c.shard.in_(select(_numbers.c.shard)))
_WITHDRAW = update(instances).where(instances.c.id == _me).values(delivers=False)


@dataclass(frozen=True, slots=True)
class ShardOwnership:
    """The shards of endpoints that a replica owns.

    Attributes:
        shards: its shards; no other replica takes them before its claim lease expires.
        surplus: how many of them it should release for other replicas.
    """

    shards: frozenset[int]
    surplus: int


def shard_of(endpoint_uid: str) -> int:
    """Return the shard of an endpoint; it never changes."""
    return crc32(endpoint_uid.encode()) % SHARDS


def share_of(member: str, members: Collection[str]) -> int:
    """Return a member's number of shards; the members' numbers differ by one at most, and their sum is `SHARDS`."""
    if member not in members:
        return 0
    share, remainder = divmod(SHARDS, len(members))
    return share + (sorted(members).index(member) < remainder)


def missing(me: str, living: Mapping[str, bool], owners: Mapping[int, str]) -> tuple[ShardOwnership, list[int]]:
    """Return the shards of a replica, and the free shards that it should take.

    Args:
        me: the replica.
        living: every living replica, and whether it delivers.
        owners: the owner of each shard; owners may be dead.
    """
    if me not in living:
        return ShardOwnership(frozenset(), 0), []
    numbers = frozenset([shard for shard, owner in owners.items() if owner == me])
    share = share_of(me, [instance for instance, delivers in living.items() if delivers])
    free = [shard for shard in range(SHARDS) if owners.get(shard) not in living]
    return ShardOwnership(numbers, max(0, len(numbers) - share)), free[: max(0, share - len(numbers))]


@dataclass(slots=True)
class ShardSharing:
    """Takes and releases shards of endpoints; every call may raise StoreUnavailable.

    Attributes:
        member: this replica, as other replicas see it.
    """

    transactions: Transactions
    member: Replica

    async def balance(self, *, after_lapse: bool = False) -> ShardOwnership:
        """Take free shards up to this replica's share, and return its shards afterwards.

        Args:
            after_lapse: whether the claim lease had expired since the last answer. A replica that saw it expired may be
                taking the shards, so this call waits for it.
        """
        # Most of the time there is nothing to take, and a read locks nothing.
        ownership, numbers = await self.transactions.read("balance", self._look)
        return await self.transactions.write("balance", self._take) if numbers or after_lapse else ownership

    def _look(self, connection: Connection) -> tuple[ShardOwnership, list[int]]:
        now = self.transactions.clock() - CLOCKS_DIFFER_MS
        living = {row.id: row.delivers for row in connection.execute(_LIVING, {"now": now})}
        owners = {row.shard: row.owner for row in connection.execute(_OWNERS)}
        return missing(self.member.id, living, owners)

    def _take(self, connection: Connection) -> ShardOwnership:
        lock(connection, SHARING)
        ownership, numbers = self._look(connection)
        if numbers:
            connection.execute(_TAKE, {"rows": packed_column(numbers), "me": self.member.id})
        return ShardOwnership(ownership.shards.union(numbers), ownership.surplus)

    async def free(self, numbers: Iterable[int]) -> None:
        """Release shards for other replicas; no delivery of their endpoints may be in flight here any more.

        Shards of other replicas do not change.
        """
        parameters = {"rows": packed_column(sorted(numbers)), "me": self.member.id}
        await self.transactions.write("free", lambda connection: connection.execute(_FREE, parameters).rowcount)
        self.changed()

    async def withdraw(self) -> None:
        """Take no shards from now on: all shards of this replica become surplus."""
        self.member = replace(self.member, delivers=False)
        me = {"me": self.member.id}
        await self.transactions.write("withdraw", lambda connection: connection.execute(_WITHDRAW, me).rowcount)
        self.changed()

    def changed(self) -> None:
        """Notify the other replicas that they should take or release shards now."""
        self.transactions.notifications.send([NOTICE])
