"""Orphans: endpoints that have pending deliveries and are not in the cluster.

The database stores since when an endpoint is an orphan. So a restart neither shortens nor extends its grace time.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, Text, bindparam, delete, select

from hookwright_operator.store.schema import orphans
from hookwright_operator.store.sql.dialect import insert
from hookwright_operator.store.sql.rows import packed_column, rows
from hookwright_operator.store.transactions import Transactions

_uids = rows(uid=Text)
_ADD = (
    insert(orphans)
    .values(endpoint_uid=bindparam("endpoint", type_=Text), since_ms=bindparam("now", type_=orphans.c.since_ms.type))
    .on_conflict_do_nothing()
)
_DROP = delete(orphans).where(orphans.c.endpoint_uid.in_(select(_uids.c.uid)))


@dataclass(frozen=True, slots=True)
class OrphanPlan:
    """The changes to the recorded orphans.

    Attributes:
        new: endpoints that became orphans.
        former: endpoints that exist again, or whose deliveries have ended.
        expired: orphans whose grace time is over.
    """

    new: frozenset[str]
    former: frozenset[str]
    expired: frozenset[str]


def plan_orphans(uids: Collection[str], since: Mapping[str, int], *, now_ms: int, grace_ms: int) -> OrphanPlan:
    """Compare the orphans that were found with those that are recorded.

    Args:
        uids: uids of endpoints that have pending deliveries and are not in the cluster.
        since: by uid, since when each recorded endpoint is an orphan.
        now_ms: the current time.
        grace_ms: time that passes before an orphan's deliveries are discarded.
    """
    return OrphanPlan(
        new=frozenset(uid for uid in uids if uid not in since),
        former=frozenset(uid for uid in since if uid not in uids),
        expired=frozenset(uid for uid in uids if now_ms - since.get(uid, now_ms) >= grace_ms),
    )


@dataclass(frozen=True, slots=True)
class Orphans:
    """The recorded orphans; every call may raise StoreUnavailable."""

    transactions: Transactions

    async def since(self) -> dict[str, int]:
        """Return by uid since when each endpoint is an orphan, in milliseconds since the epoch."""
        query = select(orphans.c.endpoint_uid, orphans.c.since_ms)
        return await self.transactions.read(
            "orphans", lambda connection: {row[0]: row[1] for row in connection.execute(query)}
        )

    async def record(self, *, new: Collection[str], former: Collection[str], now_ms: int) -> None:
        """Add new orphans, and remove endpoints that are not orphans any more."""
        if new or former:
            await self.transactions.write("orphans", lambda connection: _record(connection, new, former, now_ms))


def _record(connection: Connection, new: Collection[str], former: Collection[str], now_ms: int) -> None:
    for uid in new:
        connection.execute(_ADD, {"endpoint": uid, "now": now_ms})
    if former:
        connection.execute(_DROP, {"rows": packed_column(former)})
