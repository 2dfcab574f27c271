"""A digest belongs to the ApiKey that declared it first, until its namespace has too many digests."""

import asyncio
import random
import string

import pytest
from integration.store.conftest import Open
from support.store_factories import Clock, accept_one

from hookwright_operator.store import key_digests
from hookwright_operator.store.key_digests import KeyDigests, Owner
from hookwright_operator.store.records import NewDelivery
from hookwright_operator.store.store import Store
from hookwright_runtime.errors import StoreError

ACME, RIVAL = Owner("acme", "k1"), Owner("rival", "k1")


def digests_of(store: Store) -> KeyDigests:
    """Return the digest owners of a store."""
    return KeyDigests(store.transactions)


async def test_a_digest_belongs_to_the_first_that_declares_it_also_after_a_restart(open_store: Open) -> None:
    """A second claim changes nothing; the same ApiKey may claim again."""
    store = await open_store()
    digests = digests_of(store)
    assert await digests.owner_of("sha256:a") is None
    assert await digests.claim("sha256:a", ACME, list) == ACME
    assert await digests.claim("sha256:a", RIVAL, list) == ACME
    await store.close()
    digests = digests_of(await open_store())
    assert await digests.owner_of("sha256:a") == ACME
    assert await digests.claim("sha256:a", RIVAL, list) == ACME
    assert await digests.claim("sha256:a", ACME, list) == ACME


async def test_a_tenant_that_makes_many_keys_has_only_its_own_forgotten(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digests of a namespace are limited; other namespaces keep theirs, and existing ApiKeys keep their digests."""
    monkeypatch.setattr(key_digests, "MOST_DIGESTS", 5)
    digests = digests_of(store)
    await digests.claim("sha256:victim", ACME, list)
    for number in range(20):
        clock.now += 1
        owner = Owner("hostile", f"k{number}")
        await digests.claim(f"sha256:{number:02}", owner, lambda: ["sha256:00"])
    assert await digests.owner_of("sha256:victim") == ACME
    numbers = [number for number in range(20) if await digests.owner_of(f"sha256:{number:02}")]
    assert numbers == [0, 16, 17, 18, 19]


@pytest.mark.both_engines
async def test_a_digest_that_the_database_refuses_fails_no_other_call(store: Store) -> None:
    """PostgreSQL has no room for such a key in an index. Before, all calls of the transaction failed."""
    long = "".join(random.Random(1).choices(string.ascii_letters, k=8000))
    claims = [digests_of(store).claim(f"{long}{number}", RIVAL, list) for number in range(3)]
    first, *long_ones, last = await asyncio.gather(
        accept_one(store), *claims, digests_of(store).claim("sha256:a", ACME, list), return_exceptions=True
    )
    assert isinstance(first, NewDelivery)
    assert last == ACME
    # SQLite has no such limit.
    assert {type(long_one) for long_one in long_ones} in ({StoreError}, {Owner})
