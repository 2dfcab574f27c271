"""Slow and failing names of hostile tenants beside healthy endpoints of others.

A look-up that hangs is one whose name server never answers: it blocks its thread until the test ends, as getaddrinfo
blocks until the C library gives up.
"""

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from support.attempts import endpoint, loopback, send
from support.dispatcher import Engine, Plan, subscriber
from support.polling import until
from support.receivers import answers, serve

from hookwright_dev.receiver import Receiver
from hookwright_operator.delivery.http import name_cache, resolver
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.registry import Endpoint
from hookwright_operator.services.events import IncomingEvent
from hookwright_operator.store.records import State
from hookwright_runtime.bounds import LOOKUPS

EVENT = IncomingEvent(None, "delivered", "m-1", b"{}")
CLOSES = answers(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


@dataclass
class Names:
    """A resolver whose names that begin with "slow" do not answer until `done`.

    Attributes:
        found: addresses by name, 127.0.0.1 for all others.
        errors: by name.
        asked: look-ups that began, by name.
    """

    done: threading.Event = field(default_factory=threading.Event)
    found: dict[str, list[str]] = field(default_factory=dict)
    errors: dict[str, OSError] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)

    def __call__(self, host: str, _port: int) -> list[str]:
        """Look a name up, in a thread of the resolver."""
        self.asked[host] += 1
        if host.startswith("slow"):
            self.done.wait(150)
        if host in self.errors:
            raise self.errors[host]
        return self.found.get(host, ["127.0.0.1"])

    @property
    def hanging(self) -> int:
        """Return how many look-ups hang."""
        return sum(count for host, count in self.asked.items() if host.startswith("slow"))


@contextmanager
def names() -> Iterator[Names]:
    """Yield names; at the end none hangs any more."""
    them = Names()
    try:
        yield them
    finally:
        them.done.set()


def at(host: str, port: int, *, namespace: str = "acme", timeout: float = 5.0) -> Endpoint:
    """Return an endpoint at a name; ``timeout`` in seconds."""
    return replace(endpoint(f"http://{host}:{port}/", timeout=timeout), namespace=namespace)


@asynccontextmanager
async def attempts_of(sender: Sender, endpoints: list[Endpoint]) -> AsyncIterator[None]:
    """Make one attempt at each endpoint, again and again, meanwhile."""

    async def again_and_again(to: Endpoint) -> None:
        while True:
            await send(sender, to)
            await asyncio.sleep(0.5)

    tasks = [asyncio.create_task(again_and_again(to)) for to in endpoints]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(("tenants", "slow"), [(8, 40), (60, 10)])
async def test_slow_names_of_hostile_tenants_cost_other_tenants_no_attempt(tenants: int, slow: int) -> None:
    """Beside the slow names of hostile tenants, all attempts at 40 names of another tenant deliver.

    Each of these names is new, so each attempt needs a look-up.
    """
    with names() as looked_up:
        async with serve(CLOSES) as server, loopback(lookup=looked_up) as sender:
            port = int(server.url.rpartition(":")[2].partition("/")[0])
            hostile = [
                at(f"slow-{tenant}-{number}.example.com", port, namespace=f"hostile-{tenant}", timeout=2)
                for tenant in range(tenants)
                for number in range(slow)
            ]
            async with attempts_of(sender, hostile):
                await until(lambda: looked_up.hanging >= min(24 * tenants, LOOKUPS.at_once // 2), within=30)
                healthy = [
                    at(f"works-{number}.example.com", port, namespace="healthy", timeout=30) for number in range(40)
                ]
                outcomes = [await send(sender, to) for to in healthy]
                assert [outcome.error for outcome in outcomes] == [""] * 40
                assert looked_up.hanging < LOOKUPS.at_once


async def test_deliveries_of_another_tenant_arrive_at_their_first_attempt(tmp_path: Path) -> None:
    """The case of the review, through store and loops: 100 slow names of one tenant, 19 attempts of another one."""
    with names() as looked_up:
        async with Receiver() as receiver, loopback(lookup=looked_up) as sender:
            engine = await Engine.start(tmp_path / "deliveries.db", Plan(), sender=sender)
            try:
                for number in range(100):
                    slow = subscriber(f"slow-{number}", f"http://slow-{number}.example.com/", timeout=2)
                    engine.registry.put(replace(slow, namespace="hostile"))
                engine.registry.put_project("hostile", "billing")
                await engine.events.accept("hostile", "billing", [EVENT])
                await until(lambda: looked_up.hanging >= LOOKUPS.at_once_each)
                for number in range(19):
                    url = f"http://works-{number}.example.com:{receiver.port}/"
                    engine.registry.put(subscriber(f"works-{number}", url, timeout=5))
                await engine.events.accept("acme", "billing", [EVENT])
                for number in range(19):
                    await engine.ended(f"works-{number}", 1, within=30)
                    [delivery] = await engine.log(f"works-{number}")
                    assert (delivery.state, len(delivery.attempts)) == (State.DELIVERED, 1)
            finally:
                looked_up.done.set()
                await engine.stop(grace=1)


async def test_an_attempt_without_a_place_is_not_charged_and_made_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant whose look-ups all hang loses no attempt of its other endpoints: they are made when a place is free."""
    monkeypatch.setattr(resolver, "LONGEST_WAIT", 0.05)
    with names() as looked_up:
        async with Receiver() as receiver, loopback(lookup=looked_up) as sender:
            engine = await Engine.start(tmp_path / "deliveries.db", Plan(), sender=sender)
            slow = [
                asyncio.create_task(send(sender, at(f"slow-{number}.example.com", 80, timeout=60)))
                for number in range(LOOKUPS.at_once_each)
            ]
            try:
                await until(lambda: looked_up.hanging == LOOKUPS.at_once_each)
                engine.registry.put(subscriber("orders", f"http://works.example.com:{receiver.port}/"))
                await engine.post()
                queue = engine.dispatcher.queues.by_uid["orders"]
                await until(lambda: queue.postponed >= 2)
                [delivery] = await engine.log("orders")
                assert (delivery.state, delivery.attempts) == (State.PENDING, ())
                assert engine.watcher.settled == []
                looked_up.done.set()
                await engine.ended("orders", 1, within=30)
                [delivery] = await engine.log("orders")
                assert (delivery.state, len(delivery.attempts)) == (State.DELIVERED, 1)
            finally:
                looked_up.done.set()
                await asyncio.gather(*slow)
                await engine.stop(grace=1)


async def test_time_in_the_queue_for_a_look_up_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt that waited longer for a place than its endpoint's timeout still has its whole timeout afterwards."""
    monkeypatch.setattr(resolver, "LONGEST_WAIT", 60.0)
    with names() as looked_up:
        async with Receiver() as receiver, loopback(lookup=looked_up) as sender:
            slow = [
                asyncio.create_task(send(sender, at(f"slow-{number}.example.com", 80, timeout=60)))
                for number in range(LOOKUPS.at_once_each)
            ]
            await until(lambda: looked_up.hanging == LOOKUPS.at_once_each)
            loop = asyncio.get_running_loop()
            loop.call_later(1.5, looked_up.done.set)
            began = loop.time()
            outcome = await send(sender, at("works.example.com", receiver.port, timeout=1))
            assert outcome.error == ""
            assert loop.time() - began >= 1.5
            assert outcome.duration_ms < 1000
            await asyncio.gather(*slow)


async def test_a_failing_name_is_not_looked_up_at_every_attempt(receiver_port: int) -> None:
    """Failures are remembered longer each time; then the name is looked up again and delivers."""
    with names() as looked_up:
        looked_up.errors["fails.example.com"] = socket.gaierror(socket.EAI_AGAIN, "Temporary failure")
        async with loopback(lookup=looked_up) as sender:
            to = at("fails.example.com", receiver_port)
            errors = {(await send(sender, to)).error for _ in range(50)}
            assert errors == {"name lookup failed: fails.example.com"}
            assert looked_up.asked["fails.example.com"] <= 2
            del looked_up.errors["fails.example.com"]
            await until_delivered(sender, to)


async def test_a_failure_of_one_tenant_is_not_charged_to_another(receiver_port: int) -> None:
    """Each namespace remembers for itself, so a failure of one tenant stays with it."""
    with names() as looked_up:
        looked_up.errors["shared.example.com"] = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        async with loopback(lookup=looked_up) as sender:
            failure = await send(sender, at("shared.example.com", receiver_port, namespace="hostile"))
            assert failure.error == "name not found: shared.example.com"
            del looked_up.errors["shared.example.com"]
            assert (await send(sender, at("shared.example.com", receiver_port, namespace="healthy"))).error == ""
            assert looked_up.asked["shared.example.com"] == 2


async def test_a_known_answer_is_served_while_its_renewal_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that stops answering costs no attempt at a known name, and one look-up is under way for it."""
    monkeypatch.setattr(name_cache, "FRESH", 0.0)
    monkeypatch.setattr(name_cache, "_SLOW_FACTOR", 0.0)
    with names() as looked_up:
        block = threading.Event()

        def lookup(host: str, port: int) -> list[str]:
            if looked_up.asked[host]:
                block.wait(150)
            return looked_up(host, port)

        async with serve(CLOSES) as server, loopback(lookup=lookup) as sender:
            to = at("works.example.com", int(server.url.rpartition(":")[2].partition("/")[0]))
            try:
                assert [(await send(sender, to)).error for _ in range(20)] == [""] * 20
                assert looked_up.asked["works.example.com"] == 1
            finally:
                block.set()
            await until(lambda: looked_up.asked["works.example.com"] == 2)
            assert server.connections == 20


async def test_an_answer_that_turns_to_a_private_address_is_refused_as_soon_as_it_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DNS rebinding gains nothing from the memory of names: the guard judges each use, also of remembered answers."""
    monkeypatch.setattr(name_cache, "FRESH", 0.0)
    monkeypatch.setattr(name_cache, "_SLOW_FACTOR", 0.0)
    with names() as looked_up:
        async with serve(CLOSES) as server, loopback(lookup=looked_up) as sender:
            to = at("works.example.com", int(server.url.rpartition(":")[2].partition("/")[0]))
            assert (await send(sender, to)).delivered
            looked_up.found["works.example.com"] = ["10.0.0.1"]
            count = looked_up.asked["works.example.com"]
            await send(sender, to)
            assert sender._resolver is not None
            await until(lambda: looked_up.asked["works.example.com"] > count and not sender._resolver._pending)  # type: ignore[union-attr]
            connections = server.connections
            monkeypatch.setattr(name_cache, "FRESH", 60.0)
            for _ in range(3):
                outcome = await send(sender, to)
                assert outcome.error.startswith("address refused: 10.0.0.1 is a private address")
            assert server.connections == connections


async def test_an_attempt_tries_few_addresses_at_once() -> None:
    """A name with hundreds of addresses that do not answer takes no hundreds of descriptors."""
    with names() as looked_up:
        looked_up.found["many.example.com"] = [f"127.0.1.{number}" for number in range(250)]
        async with loopback(lookup=looked_up) as sender:
            assert sender._resolver is not None
            probe = {
                address for _ in range(16) for address in await sender._resolver.resolve("acme", "many.example.com", 80)
            }
            assert len(await sender._resolver.resolve("acme", "many.example.com", 80)) == 2
            assert len(probe) == 16


async def until_delivered(sender: Sender, to: Endpoint) -> None:
    """Make attempts until one delivers."""

    async def delivers() -> bool:
        return (await send(sender, to)).delivered

    await until(delivers, within=30)


@pytest.fixture
async def receiver_port() -> AsyncIterator[int]:
    """Yield the port of a receiver that answers 200."""
    async with Receiver() as receiver:
        yield receiver.port
