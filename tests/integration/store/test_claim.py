"""A due delivery is claimed by one replica at a time."""

import asyncio

import pytest
from support.polling import until
from support.store_factories import LEASE_MS, Clock, accept_one, claimed_ids, event, ids, rows_of, settlement

from hookwright_operator.store.records import State
from hookwright_operator.store.sql.claim import groups
from hookwright_operator.store.store import Store

pytestmark = pytest.mark.both_engines


async def test_a_claim_brings_all_that_an_attempt_needs(store: Store, clock: Clock) -> None:
    """A claimed delivery includes the event's id, type and body."""
    new = event("orders", body=b'{"type":"delivered"}')
    await store.accept([new])
    accepted_ms = clock.now
    clock.advance(5)

    [delivery] = await store.claim([("orders", 1)])

    assert (delivery.id, delivery.endpoint_uid) == (new.deliveries[0].id, "orders")
    assert (delivery.event_id, delivery.event_type, delivery.body) == (new.id, "delivered", new.body)
    assert (delivery.attempts, delivery.accepted_ms) == (0, accepted_ms)


async def test_the_oldest_due_comes_first_and_no_more_than_wanted(store: Store, clock: Clock) -> None:
    """A backlog is claimed in the order of age, up to the endpoint's limit per claim."""
    old = [await accept_one(store) for _ in range(2)]
    clock.advance(1)
    young = [await accept_one(store) for _ in range(3)]
    expected = [delivery.id for delivery in (*old, *young)]

    assert await claimed_ids(store, limit=3) == expected[:3]
    assert await claimed_ids(store, limit=3) == expected[3:]


async def test_one_claim_serves_several_endpoints(store: Store) -> None:
    """Each endpoint gets deliveries up to its own limit, and other endpoints get none."""
    new = event("orders", "orders", "audit", "audit", "other")
    await store.accept([new])

    claims = await store.claim([("orders", 1), ("audit", 5), ("unknown", 5)])

    assert sorted(delivery.endpoint_uid for delivery in claims) == ["audit", "audit", "orders"]


async def test_concurrent_claims_never_share_a_delivery(store: Store, neighbour: Store) -> None:
    """Each delivery is claimed once, however many claims run concurrently."""
    new = event(*["orders"] * 20)
    await store.accept([new])

    claims = await asyncio.gather(*[replica.claim([("orders", 3)]) for replica in (store, neighbour) * 5])

    assert sorted(delivery.id for claim in claims for delivery in claim) == sorted(ids([new]))


async def test_what_is_not_due_yet_is_not_claimed(store: Store, clock: Clock) -> None:
    """A retry is not claimed before its due time, and next_due returns this time."""
    delivery = await accept_one(store, claimed=True)
    await store.settle([settlement(delivery, State.PENDING, status=500, due_ms=clock.now + 30_000)])

    clock.advance(29_999)
    assert await claimed_ids(store) == []
    assert await store.next_due() == {"orders": clock.now + 1}
    clock.advance(1)
    [claimed] = await store.claim([("orders", 1)])
    assert claimed.attempts == 1


async def test_what_is_due_too_late_is_due_now(store: Store, neighbour: Store, clock: Clock) -> None:
    """The bound of each endpoint is its own; neither a claimed delivery nor one of another endpoint changes."""
    for uid in ("orders", "audit", "other"):
        delivery = await accept_one(store, uid=uid, claimed=True)
        await store.settle([settlement(delivery, State.PENDING, status=500, due_ms=clock.now + 30_000)])
    await accept_one(neighbour, claimed=True)
    clock.advance(-1)

    assert await store.hasten([("orders", 30_000), ("audit", 30_001)], limit=10) == ["orders"]

    later = clock.now + 30_001
    assert await store.next_due() == {"orders": clock.now, "audit": later, "other": later}


async def test_an_expired_lease_frees_what_was_claimed(store: Store, neighbour: Store, clock: Clock) -> None:
    """After a replica's heartbeats end, other replicas claim its deliveries with their normal query."""
    delivery = await accept_one(neighbour, claimed=True)
    clock.advance(LEASE_MS - 1)
    assert await claimed_ids(store) == []
    clock.advance(1)

    assert await store.next_due() == {"orders": clock.now - LEASE_MS}
    assert await claimed_ids(store) == [delivery.id]


async def test_a_heartbeat_keeps_what_was_claimed(store: Store, neighbour: Store, clock: Clock) -> None:
    """A claim lease that is renewed in time does not expire, and the result says when it expires."""
    await accept_one(neighbour, claimed=True)
    clock.advance(LEASE_MS - 1)

    assert await neighbour.heartbeat() == clock.now + LEASE_MS

    clock.advance(LEASE_MS - 1)
    assert await claimed_ids(store) == []


async def test_an_instance_never_takes_its_own_claims_again(store: Store, clock: Clock) -> None:
    """A replica with a late heartbeat does not claim its own deliveries in flight again."""
    await accept_one(store, claimed=True)
    clock.advance(2 * LEASE_MS)

    assert await claimed_ids(store) == []
    assert await store.next_due() == {}


async def test_an_instance_that_is_long_dead_is_forgotten(store: Store, neighbour: Store, clock: Clock) -> None:
    """The row of a dead replica is removed, and other replicas can claim its deliveries."""
    delivery = await accept_one(neighbour, claimed=True)
    clock.advance(100 * LEASE_MS)

    await store.heartbeat()

    assert await rows_of(store, "instances") == 1
    assert await claimed_ids(store) == [delivery.id]


async def test_released_deliveries_can_be_claimed_by_others(store: Store, neighbour: Store) -> None:
    """Released deliveries are due as before."""
    delivery = await accept_one(store, claimed=True)

    await store.release([delivery.id])

    assert await claimed_ids(neighbour) == [delivery.id]


async def test_only_the_owner_can_release(store: Store, neighbour: Store) -> None:
    """Releasing deliveries that another replica has claimed since changes nothing."""
    delivery = await accept_one(neighbour, claimed=True)

    await store.release([delivery.id])

    assert await claimed_ids(store) == []


async def test_next_due_tells_of_the_endpoints_one_asks_for(store: Store, clock: Clock) -> None:
    """next_due returns only the requested endpoints, without endpoints that have nothing to claim."""
    await store.accept([event("orders", "audit")])
    await accept_one(store, claimed=True, uid="busy")

    assert await store.next_due(["orders", "busy", "unknown"]) == {"orders": clock.now}


async def test_a_cancelled_claim_gives_back_what_it_took(store: Store) -> None:
    """A cancelled claim releases its deliveries, because no caller can send them."""
    delivery = await accept_one(store)
    claim = asyncio.create_task(store.claim([("orders", 1)]))
    await asyncio.sleep(0)
    claim.cancel()
    await asyncio.wait([claim])

    assert claim.cancelled()

    async def is_back() -> bool:
        return await claimed_ids(store) == [delivery.id]

    await until(is_back)


async def test_a_cancelled_accept_gives_back_what_it_wrote_as_claimed(store: Store) -> None:
    """The deliveries of a cancelled accept can be claimed, because the event may have been committed."""
    new = event("orders", claimed=True)
    accept = asyncio.create_task(store.accept([new]))
    await asyncio.sleep(0)
    accept.cancel()
    await asyncio.wait([accept])

    assert accept.cancelled()

    async def is_back() -> bool:
        return await claimed_ids(store) == ids([new])

    await until(is_back)


@pytest.mark.parametrize("size", [1000, 10_000], ids=["small bodies", "large bodies"])
async def test_a_claim_stops_at_its_room_and_gives_each_endpoint_one_delivery_at_least(store: Store, size: int) -> None:
    """Endpoints share the room equally; each endpoint always gets its oldest delivery, so all make progress."""
    new = [event("orders", "audit", body=b"%d" % number * size) for number in range(5)]
    await store.accept(new)
    wants = [("orders", 5), ("audit", 5)]

    first = await store.claim(wants, room=0)
    second = await store.claim(wants, room=2 * (2 * size + 1))

    for uid, place in (("orders", 0), ("audit", 1)):
        due = [one.deliveries[place].id for one in new]
        assert [one.id for one in first if one.endpoint_uid == uid] == due[:1]
        assert [one.id for one in second if one.endpoint_uid == uid] == due[1:3]
    bodies = {one.id: one.body for one in new}
    assert all(one.body == bodies[one.event_id] for one in (*first, *second))


@pytest.mark.parametrize("size", [1000, 10_000], ids=["small body", "large body"])
async def test_deliveries_of_one_event_share_a_body_in_memory(store: Store, size: int) -> None:
    """A claim of one event's deliveries for many endpoints reads and keeps the body once."""
    await store.accept([event("orders", "audit", "billing", body=b"x" * size)])

    claims = await store.claim([(uid, 1) for uid in ("orders", "audit", "billing")])

    assert len(claims) == 3
    assert len({id(delivery.body) for delivery in claims}) == 1


def test_large_bodies_are_read_in_groups_of_a_bounded_size() -> None:
    """A body above the limit is read alone; each body is in one group."""
    assert [*groups({"a": 3, "b": 4, "c": 9, "d": 1, "e": 7}, 8)] == [["a", "b"], ["c"], ["d", "e"]]
    assert [*groups({}, 8)] == []
