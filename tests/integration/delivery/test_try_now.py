"""The retry of a pending delivery by hand: it is tried now, and its retry schedule goes on."""

import asyncio

from integration.delivery.conftest import Start
from support.dispatcher import Busy, Engine, Plan, subscriber
from support.polling import until

from hookwright_dev.receiver import Received, Receiver
from hookwright_operator.services.delivery_log import DeliveryLog
from hookwright_operator.store.records import DeliveryRecord, State


async def failing(_: Received) -> int:
    """Answer each request with 500."""
    return 500


async def only(engine: Engine) -> DeliveryRecord:
    """Return the only delivery."""
    [record] = await engine.log("orders")
    return record


async def attempted(engine: Engine, times: int) -> DeliveryRecord:
    """Wait until so many attempts are stored, and return the delivery."""

    async def enough() -> bool:
        return len((await only(engine)).attempts) == times

    await until(enough)
    return await only(engine)


async def test_a_delivery_that_waits_for_its_retry_is_tried_now(start: Start, receiver: Receiver) -> None:
    """The attempt does not reset the schedule: after the second attempt of two the delivery has failed."""
    engine = await start(Plan(schedule="1h"))
    receiver.answer = failing
    engine.registry.put(subscriber("orders", receiver.url))
    await engine.post()
    waiting = await attempted(engine, 1)
    assert waiting.state is State.PENDING

    assert await DeliveryLog(engine.store, engine.dispatcher, engine.sender).retry(waiting)

    record = await attempted(engine, 2)
    assert [attempt.number for attempt in record.attempts] == [1, 2]
    assert record.state is State.FAILED


async def test_a_pause_after_timeouts_does_not_delay_the_attempt(start: Start, receiver: Receiver) -> None:
    """A person who asks for an attempt sees one."""
    engine = await start(Plan(schedule="1h,1h"))
    receiver.answer = failing
    engine.registry.put(subscriber("orders", receiver.url))
    await engine.post()
    waiting = await attempted(engine, 1)
    receiver.answer = lambda _: 200
    engine.dispatcher.queues.by_uid["orders"].timeout_pause_until = asyncio.get_running_loop().time() + 3600

    assert await DeliveryLog(engine.store, engine.dispatcher, engine.sender).retry(waiting)

    assert (await attempted(engine, 2)).state is State.DELIVERED


async def test_an_attempt_under_way_gets_no_second_one(start: Start, receiver: Receiver) -> None:
    """The receiver gets one request, although the retry is accepted twice."""
    engine = await start()
    receiver.answer = busy = Busy()
    engine.registry.put(subscriber("orders", receiver.url))
    await engine.post()
    await until(lambda: busy.now == 1)
    log = DeliveryLog(engine.store, engine.dispatcher, engine.sender)

    assert await log.retry(await only(engine))
    assert await log.retry(await only(engine))
    await engine.post()
    await until(lambda: busy.now == 2)
    busy.open.set()
    await engine.ended("orders", 2)

    assert busy.peak == 2
    assert [len(record.attempts) for record in await engine.log("orders")] == [1, 1]
