"""Attempts of one replica are bounded over all endpoints, and no endpoint takes more than its turn.

All endpoints here are in one namespace, so half of `in_flight` stays free for others.
"""

from integration.delivery.conftest import Start
from support.dispatcher import Busy, Plan, subscriber
from support.polling import until

from hookwright_dev.receiver import Receiver


async def test_no_more_attempts_are_under_way_than_the_bound(start: Start, receiver: Receiver) -> None:
    """All pending deliveries are then sent."""
    engine = await start(Plan(in_flight=10))
    receiver.answer = busy = Busy()
    for number in range(8):
        engine.registry.put(subscriber(f"endpoint-{number}", receiver.url, max_in_flight=1))
    await engine.post_many(10)
    await until(lambda: busy.now == 5)
    assert engine.dispatcher.in_flight == 5
    busy.open.set()
    for number in range(8):
        await engine.ended(f"endpoint-{number}", 10)
    assert busy.peak == 5
    assert engine.dispatcher.in_flight == 0


async def test_endpoints_that_wait_for_a_place_are_served_in_turn(start: Start, receiver: Receiver) -> None:
    """With one place for all, an endpoint waits for one attempt of each other endpoint, not for their backlog."""
    engine = await start(Plan(in_flight=1))
    receiver.answer = busy = Busy()
    for name in ("long", "short", "other"):
        engine.registry.put(subscriber(name, f"{receiver.url}{name}", events=frozenset({name}), max_in_flight=8))
    await engine.post_many(20, type_="long")
    await until(lambda: busy.now == 1)
    await engine.post_many(2, type_="short")
    await engine.post_many(2, type_="other")
    busy.open.set()
    await engine.ended("long", 20)
    order = [request.target.strip("/") for request in receiver.received]
    assert order[:7] == ["long", "short", "other", "long", "short", "other", "long"]
    assert busy.peak == 1
