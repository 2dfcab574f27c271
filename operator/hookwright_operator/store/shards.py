"""Who delivers for which endpoints, where several instances share a database.

Each endpoint belongs to one of a fixed number of shards, each shard to one living instance. Members, the living
instances that deliver, have equal shares. Who has less takes what is free or was a dead instance's, who has more lets
go. A shard changes hands only when its owner has freed it, or is dead.

Sync functions on a connection; what writes is inside a transaction that the caller begins and ends.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final
from zlib import crc32

from sqlalchemy import BigInteger, Connection, Integer, Text, bindparam, delete, func, select, true, update

# Of the two engines' identical spellings the one that both compile.
from sqlalchemy.dialects.postgresql import insert

from hookwright_operator.store.engine import has_company
from hookwright_operator.store.model import Holding
from hookwright_operator.store.rows import packed, rows
from hookwright_operator.store.schema import instances, shards

SHARDS: Final = 128
"""How many there are. It is part of the schema: instances must agree on it."""

CLOCKS_DIFFER_MS: Final = 1000
"""An owner counts as dead this long after its lease has ended, for clocks of two machines may differ by that."""

CHANGED: Final = "shards"
"""What a notice has in place of an endpoint's uid when shards are free, or when members have come or gone."""

# The key of the lock under which shards are taken, by one instance at a time.
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
    """Return the shard that an endpoint belongs to for ever."""
    return crc32(endpoint_uid.encode()) % SHARDS


def share_of(member: str, members: Collection[str]) -> int:
    """Return how many shards a member is to have: members' shares differ by one at most, and make up the whole."""
    if member not in members:
        return 0
    each, left = divmod(SHARDS, len(members))
    return each + (sorted(members).index(member) < left)


def missing(me: str, living: Mapping[str, bool], owners: Mapping[int, str]) -> tuple[Holding, list[int]]:
    """Return what an instance has, and which shards it lacks and can take.

    Args:
        me: the instance.
        living: every living instance, and whether it delivers.
        owners: by shard, dead ones among them.
    """
    if me not in living:
        return Holding(frozenset(), 0), []
    owned = frozenset([shard for shard, owner in owners.items() if owner == me])
    share = share_of(me, [instance for instance, delivers in living.items() if delivers])
    free = [shard for shard in range(SHARDS) if owners.get(shard) not in living]
    return Holding(owned, max(0, len(owned) - share)), free[: max(0, share - len(owned))]


def look(connection: Connection, *, me: str, now: int) -> tuple[Holding, list[int]]:
    """Return what an instance has, and which shards it lacks and can take.

    Args:
        connection: in a transaction or not.
        me: the instance.
        now: the time.
    """
    living = {row.id: row.delivers for row in connection.execute(_LIVING, {"now": now - CLOCKS_DIFFER_MS})}
    owners = {row.shard: row.owner for row in connection.execute(_OWNERS)}
    return missing(me, living, owners)


def take(connection: Connection, *, me: str, now: int) -> Holding:
    """Take what the instance lacks and can have, and return what it has then.

    Args:
        connection: in a transaction, which keeps others from taking shards until its end.
        me: the instance.
        now: the time.
    """
    if has_company(connection):
        connection.execute(select(func.pg_advisory_xact_lock(SHARING)))
    held, lacked = look(connection, me=me, now=now)
    if lacked:
        connection.execute(_TAKE, {"rows": packed([(shard,) for shard in lacked]), "me": me})
    return Holding(held.owned.union(lacked), held.surplus)


def free(connection: Connection, numbers: Iterable[int], *, me: str) -> None:
    """Let go of shards; those that are not the instance's stay whose they are."""
    connection.execute(_FREE, {"rows": packed([(shard,) for shard in sorted(numbers)]), "me": me})


def withdraw(connection: Connection, *, me: str) -> None:
    """Take no more shards, and let the others' shares grow; those that the instance has it still has."""
    connection.execute(_WITHDRAW, {"me": me})
