"""Shards of endpoints, by which replicas that share a database divide the work.

Each endpoint belongs to one of a fixed number of shards, and each shard to one living replica. Members, the living
replicas that deliver, have equal shares. A member with too few shards takes shards that are free or belonged to a dead
replica. A member with too many shards releases some. A shard changes its owner only after the owner has released it, or
is dead.

Sync functions on a connection. If a function writes, the caller begins and ends the transaction.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final
from zlib import crc32

from sqlalchemy import BigInteger, Connection, Integer, Text, bindparam, delete, func, select, true, update

# The PostgreSQL construct compiles on SQLite too: both dialects spell ON CONFLICT alike.
from sqlalchemy.dialects.postgresql import insert

from hookwright_operator.store.records import Holding
from hookwright_operator.store.schema import instances, shards
from hookwright_operator.store.sql.rows import packed, rows
from hookwright_operator.store.sql.statements import has_company

SHARDS: Final = 128
"""The number of shards. It is part of the schema: all replicas must use the same number."""

CLOCKS_DIFFER_MS: Final = 1000
"""An owner counts as dead this long after its claim lease expired: clocks of two machines may differ by that."""

CHANGED: Final = "shards"
"""The word of a notice when shards are free, or when members joined or left; it replaces an endpoint's uid."""

# The key of the advisory lock under which shards are taken, by one replica at a time.
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


def shard_of(endpoint_uid: str) -> int:
    """Return the shard of an endpoint; it never changes."""
    return crc32(endpoint_uid.encode()) % SHARDS


def share_of(member: str, members: Collection[str]) -> int:
    """Return a member's number of shards; the members' numbers differ by one at most, and their sum is `SHARDS`."""
    if member not in members:
        return 0
    each, left = divmod(SHARDS, len(members))
    return each + (sorted(members).index(member) < left)


def missing(me: str, living: Mapping[str, bool], owners: Mapping[int, str]) -> tuple[Holding, list[int]]:
    """Return the shards of a replica, and the free shards that it should take.

    Args:
        me: the replica.
        living: every living replica, and whether it delivers.
        owners: the owner of each shard; owners may be dead.
    """
    if me not in living:
        return Holding(frozenset(), 0), []
    owned = frozenset([shard for shard, owner in owners.items() if owner == me])
    share = share_of(me, [instance for instance, delivers in living.items() if delivers])
    free = [shard for shard in range(SHARDS) if owners.get(shard) not in living]
    return Holding(owned, max(0, len(owned) - share)), free[: max(0, share - len(owned))]


def look(connection: Connection, *, me: str, now: int) -> tuple[Holding, list[int]]:
    """Return the shards of a replica, and the free shards that it should take.

    Args:
        connection: in a transaction or not.
        me: the replica.
        now: the time.
    """
    living = {row.id: row.delivers for row in connection.execute(_LIVING, {"now": now - CLOCKS_DIFFER_MS})}
    owners = {row.shard: row.owner for row in connection.execute(_OWNERS)}
    return missing(me, living, owners)


def take(connection: Connection, *, me: str, now: int) -> Holding:
    """Take free shards up to the replica's share, and return the shards that it has afterwards.

    Args:
        connection: in a transaction, which keeps other replicas from taking shards until its end.
        me: the replica.
        now: the time.
    """
    if has_company(connection):
        connection.execute(select(func.pg_advisory_xact_lock(SHARING)))
    held, lacked = look(connection, me=me, now=now)
    if lacked:
        connection.execute(_TAKE, {"rows": packed([(shard,) for shard in lacked]), "me": me})
    return Holding(held.owned.union(lacked), held.surplus)


def free(connection: Connection, numbers: Iterable[int], *, me: str) -> None:
    """Release shards of this replica; shards of other replicas do not change."""
    connection.execute(_FREE, {"rows": packed([(shard,) for shard in sorted(numbers)]), "me": me})


def withdraw(connection: Connection, *, me: str) -> None:
    """Record that this replica takes no more shards; it keeps its shards, and the other replicas' shares grow."""
    connection.execute(_WITHDRAW, {"me": me})
