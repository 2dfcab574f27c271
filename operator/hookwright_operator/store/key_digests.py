"""Owners of API key digests: the ApiKey that declared a digest first, even after that ApiKey is deleted.

A digest belongs to one namespace and one name. Another ApiKey never gets it, so another tenant cannot declare a revoked
key again. The same tenant can apply its own ApiKey again.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from sqlalchemy import Connection, Text, bindparam, delete, func, select

from hookwright_operator.store.schema import key_digests
from hookwright_operator.store.sql.dialect import insert
from hookwright_operator.store.sql.rows import packed, rows
from hookwright_operator.store.transactions import Transactions

MOST_DIGESTS: Final = 10_000
"""Digests that are kept for one namespace. Beyond this number, the oldest digests without an ApiKey are removed."""

_FORGET_WEIGHT: Final = 256
"""Weight of the removal in a transaction: it reads all digests of the namespace."""

_digest = bindparam("digest", type_=Text)
_namespace = bindparam("namespace", type_=Text)

_OWNER = select(key_digests.c.namespace, key_digests.c.name).where(key_digests.c.digest == _digest)
_CLAIM = insert(key_digests).on_conflict_do_nothing(index_elements=[key_digests.c.digest])
_COUNT = select(func.count()).select_from(key_digests).where(key_digests.c.namespace == _namespace)
_OLDEST = (
    select(key_digests.c.digest)
    .where(key_digests.c.namespace == _namespace)
    .order_by(key_digests.c.seen_ms, key_digests.c.digest)
)
_digests = rows(digest=Text)
_FORGET = delete(key_digests).where(key_digests.c.digest.in_(select(_digests.c.digest)))


class Owner(NamedTuple):
    """The ApiKey that a digest belongs to, by namespace and name; it may be deleted."""

    namespace: str
    name: str


def _owner_of(connection: Connection, digest: str) -> Owner | None:
    row = connection.execute(_OWNER, {"digest": digest}).one_or_none()
    return Owner(row.namespace, row.name) if row is not None else None


def _claim(connection: Connection, digest: str, owner: Owner, *, now: int) -> tuple[Owner, int]:
    """Record the owner of a digest unless it has one; return its owner, and how many digests the namespace has."""
    connection.execute(_CLAIM, {"digest": digest, "namespace": owner.namespace, "name": owner.name, "seen_ms": now})
    digest_owner = _owner_of(connection, digest)
    assert digest_owner is not None, "the row was inserted or existed"
    return digest_owner, connection.scalar(_COUNT, {"namespace": owner.namespace}) or 0


def _forget(connection: Connection, namespace: str, living: Collection[str]) -> None:
    """Remove the oldest digests of a namespace beyond its limit, so that a tenant can remove only its own digests."""
    oldest = connection.scalars(_OLDEST, {"namespace": namespace}).all()
    excess = [(digest,) for digest in oldest if digest not in living][: max(0, len(oldest) - MOST_DIGESTS)]
    connection.execute(_FORGET, {"rows": packed(excess)})


@dataclass(frozen=True, slots=True)
class KeyDigests:
    """Reads and records owners of digests; every call may raise StoreUnavailable."""

    transactions: Transactions

    async def owner_of(self, digest: str) -> Owner | None:
        """Return the owner of a digest, or None if no ApiKey has declared it."""
        return await self.transactions.read("key_digests", lambda connection: _owner_of(connection, digest))

    async def claim(self, digest: str, owner: Owner, living: Callable[[], Collection[str]]) -> Owner:
        """Record the owner of a digest unless it has one, and return the digest's owner.

        Args:
            digest: the digest of a key.
            owner: the ApiKey that declares it.
            living: returns the digests of the namespace's existing ApiKeys, on the event loop.
        """
        digest_owner, number = await self.transactions.write_now(
            "key_digests", partial(_claim, digest=digest, owner=owner), tenant=owner.namespace
        )
        if number > MOST_DIGESTS:
            digests = living()
            await self.transactions.write(
                "key_digests",
                lambda connection: _forget(connection, owner.namespace, digests),
                weight=_FORGET_WEIGHT,
                tenant=owner.namespace,
            )
        return digest_owner
