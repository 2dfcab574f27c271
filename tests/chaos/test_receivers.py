"""Attempts to receivers that misbehave are recorded and retried, and end with a readable error."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiohttp import web
from support import receivers
from support.dispatcher import Engine, Plan, subscriber
from support.polling import until
from support.receivers import answers, serve

from hookwright_dev.receiver import Receiver
from hookwright_operator.store.records import DeliveryRecord, State

TIMEOUT = 1.0
"""Timeout in seconds for receivers that never answer: long enough to connect and to write on a busy machine."""
OK = b"HTTP/1.1 200 OK\r\n"

FAULTS = {
    "resets": (receivers.resets, 0, "connection reset while waiting for the answer"),
    "resets-in-the-body": (receivers.resets_within_the_body, 200, "the body is malformed or cut short"),
    "half-closes": (receivers.half_closes, 0, "connection closed while waiting for the answer"),
    "hangs": (receivers.hangs, 0, "timed out after 1 s while waiting for the answer"),
    "drips": (receivers.drips, 200, "timed out after 1 s while reading the answer"),
    "drips-headers": (receivers.drips_headers, 0, "timed out after 1 s while waiting for the answer"),
    "headers-without-end": (receivers.sends_headers_without_end, 0, "invalid HTTP answer"),
    "no-http": (answers(b"SSH-2.0-OpenSSH_9.9\r\n"), 0, "invalid HTTP answer"),
    "bad-chunks": (answers(OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"), 0, "invalid HTTP answer"),
    "cut-short": (answers(OK + b"Content-Length: 10\r\n\r\nshort"), 200, "the body is malformed or cut short"),
    "redirects": (
        answers(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"),
        302,
        "HTTP 302",
    ),
    "server-error": (answers(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"), 500, "HTTP 500 Internal Server Error"),
}


@pytest.fixture
async def engine(database: Path) -> AsyncIterator[Engine]:
    """Return an engine that retries twice."""
    engine = await Engine.start(database, Plan(schedule="50ms,50ms"))
    yield engine
    await engine.stop()


def check_failed(record: DeliveryRecord, status: int, words: str) -> None:
    """Wait until a delivery has failed after three recorded attempts with their errors."""
    assert record.state is State.FAILED
    assert [attempt.number for attempt in record.attempts] == [1, 2, 3]
    assert {attempt.status_code for attempt in record.attempts} == {status}
    assert all(words in attempt.error for attempt in record.attempts), record.attempts


async def test_every_fault_is_recorded_with_each_attempt_and_ends_as_failed(engine: Engine, receiver: Receiver) -> None:
    """All faults at once do not affect a healthy receiver in the same project."""
    async with AsyncExitStack() as stack:
        servers = {
            name: await stack.enter_async_context(serve(behaviour)) for name, (behaviour, _, _) in FAULTS.items()
        }
        for name, server in servers.items():
            timeout = TIMEOUT if "timed out" in FAULTS[name][2] else 20
            engine.registry.put(subscriber(name, server.url, timeout=timeout))
        engine.registry.put(subscriber("well", receiver.url))
        await engine.post(body=b"1")
        for name in FAULTS:
            await engine.ended(name, 1)
        for name, (_, status, words) in FAULTS.items():
            [record] = await engine.log(name)
            check_failed(record, status, words)
            assert servers[name].connections == 3, f"{name} saw an attempt that is not recorded, or one fewer"
    assert (await engine.counts("well")).delivered == 1


async def test_an_address_that_the_guard_refuses_is_recorded_with_its_reason_and_retried(engine: Engine) -> None:
    """A refusal by the guard is a failure like others and is retried, because the address may change."""
    engine.registry.put(subscriber("metadata", "http://169.254.169.254/latest"))
    await engine.post()
    await engine.ended("metadata", 1)
    [record] = await engine.log("metadata")
    check_failed(record, 0, "address refused")


async def test_a_receiver_that_comes_back_gets_everything_once(engine: Engine, receiver: Receiver) -> None:
    """A receiver may stop and start again on its port between the first attempt and the last retry."""
    engine.registry.put(subscriber("orders", receiver.url))
    await engine.post()
    await engine.ended("orders", 1)
    await receiver.stop()
    await engine.post_many(5)
    await until(lambda: len(engine.watcher.settled) >= 6)
    await receiver.start()
    await engine.ended("orders", 6)
    assert (await engine.counts("orders")).delivered == 6
    assert len({request.id for request in receiver.received}) == len(receiver.received) == 6


async def test_a_429_with_retry_after_is_left_alone_for_that_long(database: Path, receiver: Receiver) -> None:
    """Retry-After is obeyed up to the next step of the schedule."""
    engine = await Engine.start(database, Plan(schedule="50ms,1500ms,50ms"))
    busy = web.Response(status=429, headers={"Retry-After": "1"})
    receiver.answer = lambda received: busy if received.attempt == 1 else 200
    engine.registry.put(subscriber("orders", receiver.url))
    await engine.post()
    await engine.ended("orders", 1)
    [record] = await engine.log("orders")
    assert [attempt.status_code for attempt in record.attempts] == [429, 200]
    first, second = record.attempts
    ended_ms = first.started_ms + first.duration_ms
    assert engine.watcher.settled[0].due_ms == ended_ms + 1000
    assert second.started_ms >= ended_ms + 1000
    await engine.stop()
