"""A process without file descriptors: no receiver is charged, nothing is lost, and no loop spins.

The tests reduce the soft limit of the test process and take all descriptors that are left.
"""

import asyncio
import os
import socket
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from support.attacks import no_descriptors
from support.attempts import endpoint, loopback, send
from support.dispatcher import Engine, Plan, subscriber
from support.polling import until
from support.receivers import keeps_answering, serve

from hookwright_dev.receiver import Receiver
from hookwright_operator import metrics
from hookwright_operator.delivery.http.client import KEEPALIVE, IdleConnections
from hookwright_operator.delivery.http.error_messages import own_fault
from hookwright_operator.delivery.http.resolver import system_lookup
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import State

EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def own_faults(reason: str) -> float:
    """Return what the metric counts."""
    return float(metrics.OWN_FAULTS.labels(reason)._value.get())


def at(port: int, host: str = "127.0.0.1", *, namespace: str = "acme") -> Endpoint:
    """Return an endpoint at a host."""
    return replace(endpoint(f"http://{host}:{port}/"), namespace=namespace)


@pytest.mark.parametrize("host", [pytest.param("127.0.0.1", marks=pytest.mark.slow), "localhost"])
async def test_receivers_are_not_charged_and_deliveries_arrive_when_descriptors_are_free(
    database: Path, host: str
) -> None:
    """Ten deliveries of two endpoints wait without an attempt, and each is delivered by its first one."""
    async with Receiver() as receiver:
        engine = await Engine.start(database, Plan())
        try:
            before = own_faults("descriptors")
            for uid in ("one", "two"):
                engine.registry.put(subscriber(uid, f"http://{host}:{receiver.port}/{uid}"))
                # The store opens its connection for the log with the first read.
                assert await engine.log(uid) == []
            with no_descriptors():
                await engine.post_many(10)
                queues = engine.dispatcher.queues.by_uid
                await until(lambda: min(queues[uid].postponed for uid in ("one", "two")) >= 2)
                for uid in ("one", "two"):
                    records = await engine.log(uid)
                    assert [(record.state, record.attempts) for record in records] == [(State.PENDING, ())] * 10
                assert engine.watcher.settled == []
                assert own_faults("descriptors") > before
            for uid in ("one", "two"):
                await engine.ended(uid, 10, within=30)
                records = await engine.log(uid)
                assert [(record.state, len(record.attempts)) for record in records] == [(State.DELIVERED, 1)] * 10
            assert len(receiver.received) == 20
        finally:
            await engine.stop(grace=1)


@pytest.mark.parametrize("lacking", ["from the beginning", "during the look-up"])
def test_a_descriptor_that_is_free_afterwards_does_not_make_a_lack_the_names_failure(
    lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The C library says that the name does not exist, and another thread closes a file before it is asked why."""
    closing = [os.open(os.devnull, os.O_RDONLY)]
    with ExitStack() as end:

        def look_up(*_: object, **__: object) -> list[object]:
            if lacking == "during the look-up":
                end.enter_context(no_descriptors())
            os.close(closing.pop())
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        if lacking == "from the beginning":
            end.enter_context(no_descriptors())
        with pytest.raises(OSError) as error:  # noqa: PT011 - its errno is compared
            system_lookup("localhost", 80)
        assert own_fault(error.value) == "descriptors"
    for descriptor in closing:
        os.close(descriptor)


async def test_the_process_does_not_spin_meanwhile(database: Path) -> None:
    """An endpoint with 64 places makes at most seven rounds of attempts in eight seconds."""
    async with Receiver() as receiver:
        engine = await Engine.start(database, Plan())
        try:
            engine.registry.put(subscriber("orders", receiver.url, max_in_flight=64))
            before = own_faults("descriptors")
            loop = asyncio.get_running_loop()
            with no_descriptors():
                began = loop.time()
                await engine.post_many(64)
                await until(lambda: engine.dispatcher.queues.by_uid["orders"].postponed >= 4)
                rounds = engine.dispatcher.queues.by_uid["orders"].postponed
                assert own_faults("descriptors") - before <= 64 * rounds
                assert loop.time() - began >= 0.25 + 0.5 + 1
            await engine.ended("orders", 64, within=30)
        finally:
            await engine.stop(grace=1)


async def test_what_waits_is_released_at_the_end(database: Path) -> None:
    """A process that stops while it lacks descriptors leaves its deliveries to the next one, not attempted."""
    async with Receiver() as receiver:
        engine = await Engine.start(database, Plan())
        engine.registry.put(subscriber("orders", receiver.url))
        with no_descriptors():
            await engine.post_many(10)
            await until(lambda: engine.dispatcher.queues.by_uid["orders"].postponed >= 1)
            await engine.dispatcher.drain(5)
            assert await engine.store.claim([("orders", 64)])
        assert engine.dispatcher.queues.memory.used == 0
        await engine.stop(grace=1)


async def test_idle_connections_are_closed_before_an_attempt_fails() -> None:
    """Kept connections of other endpoints give their descriptors to an attempt that needs one."""
    async with serve(keeps_answering(EMPTY)) as old, serve(keeps_answering(EMPTY)) as new, loopback() as sender:
        ports = [int(server.url.rpartition(":")[2].partition("/")[0]) for server in (old, new)]
        outcomes = await asyncio.gather(*(send(sender, at(ports[0])) for _ in range(12)))
        assert all(outcome.delivered for outcome in outcomes)
        assert len(pool(sender)) > 4
        with no_descriptors():
            assert (await send(sender, at(ports[1]))).error == ""


async def test_a_tenant_with_thousands_of_receivers_holds_a_bounded_number_of_connections() -> None:
    """2,000 origins of one tenant leave at most 64 idle connections, among them those of another tenant."""
    async with (
        serve(keeps_answering(EMPTY)) as many,
        serve(keeps_answering(EMPTY)) as healthy,
        loopback(lookup=lambda _host, _port: ["127.0.0.1"], idle=64) as sender,
    ):
        ports = [int(server.url.rpartition(":")[2].partition("/")[0]) for server in (many, healthy)]
        loop = asyncio.get_running_loop()
        assert (await send(sender, at(ports[1], namespace="healthy"))).delivered
        expired_scene, used = 0, loop.time()
        for start in range(0, 2000, 50):
            hosts = [f"host-{start + number}.example.com" for number in range(50)]
            outcomes = await asyncio.gather(*(send(sender, at(ports[0], host, namespace="hostile")) for host in hosts))
            assert all(outcome.delivered for outcome in outcomes)
            assert len(pool(sender)) <= 64
            assert (await send(sender, at(ports[1], namespace="healthy"))).delivered
            expired_scene, used = expired_scene + (loop.time() - used > KEEPALIVE), loop.time()
        await until(lambda: len(sender._client._open) <= 64)  # type: ignore[union-attr]
        assert many.connections == 2000
        assert healthy.connections <= 1 + expired_scene, "only a slow machine may let the connection expire"


def pool(sender: Sender) -> IdleConnections:
    """Return the idle connections of a sender."""
    assert sender._client is not None
    return sender._client._idle
