"""Attempts begin only while the claim lease covers them, and other replicas claim the deliveries of a dead one."""

import asyncio

from integration.delivery.conftest import Start
from support.dispatcher import Busy, Plan, subscriber
from support.polling import until
from support.store_factories import Clock, left, neighbour_of

from hookwright_dev.receiver import Receiver


async def test_no_attempt_begins_that_could_outlive_the_lease(start: Start, receiver: Receiver) -> None:
    """If the claim lease does not cover a whole timeout any more, nothing starts before the next heartbeat."""
    clock = Clock()
    engine = await start(Plan(lease_ms=10_000, clock_ms=clock, heartbeats=False))
    engine.registry.put(subscriber("orders", receiver.url, timeout=4))
    clock.advance(6_000)
    await engine.post(body=b"1")
    await asyncio.sleep(0.1)  # long enough for an attempt to begin
    assert not receiver.received
    await engine.dispatcher.renew_lease()
    await engine.ended("orders", 1)


async def test_a_lapsed_lease_is_noticed_and_nothing_that_another_took_is_sent(
    start: Start, receiver: Receiver
) -> None:
    """After its claim lease expired, a replica releases its claims and does not touch those of other replicas."""
    clock = Clock()
    plan = Plan(lease_ms=10_000, clock_ms=clock, heartbeats=False, window=8)
    engine = await start(plan)
    engine.registry.put(subscriber("orders", receiver.url, timeout=4, max_in_flight=1))
    receiver.answer = busy = Busy()
    await engine.post_many(6)
    await until(lambda: busy.now == 1)
    neighbour = await neighbour_of(engine.store, "", clock)
    clock.advance(10_000)
    await neighbour.heartbeat()
    claims = await neighbour.claim([("orders", 3)])
    assert len(claims) == 3
    await engine.dispatcher.renew_lease()
    busy.open.set()
    await engine.ended("orders", 3)  # three of the six are the other replica's, and one of them was in flight here
    await left(neighbour)
    request = {received.id for received in receiver.received}
    assert len(receiver.received) == len(request)
    assert {delivery.event_id for delivery in claims} & request <= {receiver.received[0].id}
