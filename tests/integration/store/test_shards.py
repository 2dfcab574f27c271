"""Replicas share the endpoints: each shard has one owner, and changes it only after a release or the owner's death."""

import asyncio

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.polling import until
from support.store_factories import LEASE_MS, Clock, accept_one, claimed_ids, left, neighbour_of, opened

from hookwright_operator.store.shard_sharing import (
    CLOCKS_DIFFER_MS,
    SHARDS,
    SHARING,
    ShardOwnership,
    missing,
    shard_of,
    share_of,
)
from hookwright_operator.store.store import Store

ALL = frozenset(range(SHARDS))
HALF = SHARDS // 2


@given(st.integers(1, 300))
def test_shares_are_fair_and_make_up_the_whole(members: int) -> None:
    """Shares differ by one at most; if there are more members than shards, some members have none."""
    names = [f"member-{number}" for number in range(members)]
    shares = [share_of(name, names) for name in names]
    assert sum(shares) == SHARDS
    assert max(shares) - min(shares) <= 1


@given(
    living=st.dictionaries(st.sampled_from("abcde"), st.booleans()),
    owners=st.dictionaries(st.integers(0, SHARDS - 1), st.sampled_from("abcdefgh")),
)
def test_nobody_takes_what_a_living_one_has(living: dict[str, bool], owners: dict[int, str]) -> None:
    """A replica takes only free or dead replicas' shards, up to its share; a replica that is not living takes none."""
    missing_shards, free_shards = missing("a", living, owners)
    assert all(owners.get(shard) not in living for shard in free_shards)
    share = share_of("a", [name for name, delivers in living.items() if delivers])
    assert len(missing_shards.shards) + len(free_shards) <= max(share, len(missing_shards.shards))
    assert missing_shards.surplus == max(0, len(missing_shards.shards) - share)
    if "a" not in living:
        assert (missing_shards, free_shards) == (ShardOwnership(frozenset(), 0), [])


@given(st.uuids())
def test_an_endpoint_has_one_shard_for_ever(uid: object) -> None:
    """The shard of an endpoint is fixed in this test, because replicas of every version must agree."""
    assert 0 <= shard_of(str(uid)) < SHARDS
    assert shard_of("0b9f0bd6-93b1-4f4f-8f3c-d4ad5ba9ad3e") == 18
    assert SHARDS == 128


@pytest.mark.both_engines
async def test_who_is_alone_has_every_shard(store: Store) -> None:
    """A single replica has no surplus."""
    assert await store.sharing.balance() == ShardOwnership(ALL, 0)


@pytest.mark.both_engines
async def test_a_second_one_gets_its_half_once_it_is_freed(store: Store, url: str, clock: Clock) -> None:
    """The first replica has a surplus, and no shard changes its owner before its release."""
    await store.sharing.balance()
    neighbour = await neighbour_of(store, url, clock)
    assert await neighbour.sharing.balance() == ShardOwnership(frozenset(), 0)
    assert await store.sharing.balance() == ShardOwnership(ALL, HALF)

    await store.sharing.free(range(HALF))

    assert await neighbour.sharing.balance() == ShardOwnership(frozenset(range(HALF)), 0)
    assert await store.sharing.balance() == ShardOwnership(ALL - frozenset(range(HALF)), 0)
    await left(neighbour)


@pytest.mark.both_engines
async def test_a_dead_ones_shards_are_taken_when_no_clock_can_think_that_it_lives(
    store: Store, neighbour: Store, clock: Clock
) -> None:
    """The owner is dead by every clock that differs by less than a second."""
    await neighbour.sharing.balance()
    await store.sharing.balance()
    clock.advance(LEASE_MS + CLOCKS_DIFFER_MS - 1)
    await store.heartbeat()
    assert len((await store.sharing.balance()).shards) == HALF
    clock.advance(1)
    assert await store.sharing.balance() == ShardOwnership(ALL, 0)


@pytest.mark.both_engines
async def test_who_comes_back_after_its_lease_finds_that_others_have_its_shards(
    store: Store, neighbour: Store, clock: Clock
) -> None:
    """The replica has no shards then, and the other replicas have a surplus."""
    await neighbour.sharing.balance()
    clock.advance(LEASE_MS + CLOCKS_DIFFER_MS)
    assert (await neighbour.sharing.balance()).shards == frozenset()
    await store.heartbeat()
    await store.sharing.balance()

    await neighbour.heartbeat()

    assert await neighbour.sharing.balance() == ShardOwnership(frozenset(), 0)
    assert await store.sharing.balance() == ShardOwnership(ALL, HALF)


@pytest.mark.both_engines
async def test_who_withdraws_keeps_its_shards_until_it_frees_them(store: Store, neighbour: Store) -> None:
    """All its shards are surplus, a heartbeat does not change this, and the other replicas' shares are greater."""
    mine = (await store.sharing.balance()).shards
    assert len(mine) == HALF
    await store.sharing.withdraw()
    await store.heartbeat()
    assert await store.sharing.balance() == ShardOwnership(mine, HALF)
    assert await neighbour.sharing.balance() == ShardOwnership(ALL - mine, 0)

    await store.sharing.free(mine)

    assert await neighbour.sharing.balance() == ShardOwnership(ALL, 0)
    assert await store.sharing.balance() == ShardOwnership(frozenset(), 0)


@pytest.mark.both_engines
async def test_only_the_owner_can_free(store: Store, neighbour: Store) -> None:
    """Releasing a shard that another replica has taken over changes nothing."""
    mine = (await store.sharing.balance()).shards
    await neighbour.sharing.free(mine)
    assert (await neighbour.sharing.balance()).shards == ALL - mine
    assert (await store.sharing.balance()).shards == mine


# ------------------------------------------------------------------------------------------ PostgreSQL alone


async def test_several_that_start_at_once_share_everything(postgres_url: str, clock: Clock) -> None:
    """No shard has two owners and no shard is left over if replicas start concurrently."""
    stores = [await opened(postgres_url, clock) for _ in range(5)]

    holdings = await asyncio.gather(*[store.sharing.balance() for store in stores * 3])

    latest = holdings[-5:]
    assert sorted(shard for holding in latest for shard in holding.shards) == sorted(ALL)
    assert {len(holding.shards) for holding in latest} == {25, 26}
    for store in stores:
        await store.close()


async def test_who_does_not_deliver_takes_no_share(postgres_url: str, clock: Clock) -> None:
    """A replica that does not deliver leaves all shards to the others."""
    intake = await opened(postgres_url, clock, delivers=False)
    store = await opened(postgres_url, clock)
    assert await intake.sharing.balance() == ShardOwnership(frozenset(), 0)
    assert await store.sharing.balance() == ShardOwnership(ALL, 0)
    await intake.close()
    await store.close()


async def test_who_comes_under_a_dead_ones_name_takes_over_at_once(postgres_url: str, clock: Clock) -> None:
    """A restarted container of the same name waits for no claim lease; one of another name does."""
    victim = await opened(postgres_url, clock, name="pod-0")
    await victim.sharing.balance()
    delivery = await accept_one(victim, claimed=True)
    stranger = await opened(postgres_url, clock, name="pod-1")
    assert (await stranger.sharing.balance()).shards == frozenset()
    assert await claimed_ids(stranger) == []

    restart = await opened(postgres_url, clock, name="pod-0")

    assert len((await restart.sharing.balance()).shards) == HALF
    assert await claimed_ids(restart) == [delivery.id]
    assert (await victim.sharing.balance()).shards == frozenset()
    for store in (victim, stranger, restart):
        await store.close()


async def test_others_hear_when_there_are_shards_to_take_or_to_let_go(postgres_url: str, clock: Clock) -> None:
    """Released shards, and replicas that join or leave, cause a notice that names no endpoint."""
    store, second = await opened(postgres_url, clock), await opened(postgres_url, clock)
    looks: list[int] = []
    uids: list[str] = []
    second.listen(uids.append, lambda: looks.append(1))

    async def hears_of_a_member() -> bool:
        store.sharing.changed()
        return bool(looks)

    await until(hears_of_a_member)
    for change in (store.sharing.free([1]), store.sharing.withdraw()):
        looks.clear()
        await change
        await until(lambda: asyncio.sleep(0, bool(looks)))
    assert uids == []
    await store.close()
    await second.close()


async def test_after_a_lapse_the_answer_waits_for_a_replica_that_takes_shards(postgres_url: str, clock: Clock) -> None:
    """The other one has seen the claim lease expired; without the wait, both would send to the same endpoints."""
    store = await opened(postgres_url, clock)
    await store.sharing.balance()
    neighbour = await neighbour_of(store, postgres_url, clock)
    other = await asyncpg.connect(postgres_url)
    await other.execute("SELECT pg_advisory_lock($1)", SHARING)
    assert (await store.sharing.balance()).shards == ALL

    balancing = asyncio.ensure_future(store.sharing.balance(after_lapse=True))
    await asyncio.wait([balancing], timeout=0.2)
    assert not balancing.done()
    await other.execute("UPDATE shards SET owner = $1", neighbour.instance)
    await other.close()

    assert (await balancing).shards == frozenset()
    await left(neighbour)
    await store.close()
