"""The interface between intake and delivery: acceptance, tests of endpoints, and metrics without names."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.attempts import guarded, send
from support.dispatcher import Engine, Plan, locked, open_store, subscriber
from support.receivers import answers, certificate, serve

from hookwright_dev.receiver import Receiver
from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.intake.parsing import parse_test
from hookwright_operator.services.endpoint_test import EndpointTester
from hookwright_operator.store.sql import read
from hookwright_operator.store.store import Store
from hookwright_runtime.errors import StoreUnavailable

SYNTHETIC = parse_test(b"", "test_1")


@pytest.fixture
async def store(database: Path) -> AsyncIterator[Store]:
    """Yield an open store."""
    open_replica = await open_store(database, Plan(), patience=0.2)
    yield open_replica
    await open_replica.close()


async def test_a_test_event_goes_through_the_same_guard_as_every_delivery(receiver: Receiver, store: Store) -> None:
    """A test event cannot reach addresses that the guard refuses."""
    async with guarded(Guard([])) as strict:
        tester = EndpointTester(strict, store, time.time)
        outcome, _ = await tester.test(subscriber("orders", receiver.url), SYNTHETIC)
    assert outcome.error.startswith("address refused")
    assert not receiver.received


async def test_a_test_of_a_cloudevents_endpoint_has_the_chosen_type(
    receiver: Receiver, sender: Sender, store: Store
) -> None:
    """The ce- headers are those of a delivery of the type."""
    endpoint = replace(subscriber("orders", receiver.url), format="cloudevents")
    await EndpointTester(sender, store, time.time).test(endpoint, parse_test(b'{"type": "wa_read"}', "test_1"))
    [request] = receiver.received
    assert request.headers["ce-type"] == "dev.hookwright.wa_read"


async def test_a_test_answers_while_the_store_cannot_write(
    receiver: Receiver, sender: Sender, store: Store, database: Path
) -> None:
    """The result comes without an id, and the log has no row."""
    async with locked(database):
        outcome, record = await EndpointTester(sender, store, time.time).test(
            subscriber("orders", receiver.url), SYNTHETIC
        )
    assert (outcome.status_code, record) == (200, None)
    assert await store.read_log(read.log, "orders") == ([], None)


async def test_one_tls_context_serves_all_attempts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Reading the trust store takes tens of milliseconds, so it is read once for all endpoints and attempts."""
    count = 0
    create = ssl.create_default_context

    def counted() -> ssl.SSLContext:
        nonlocal count
        count += 1
        return create()

    monkeypatch.setattr(ssl, "create_default_context", counted)
    async with (
        guarded(Guard(["127.0.0.0/8"])) as context,
        serve(answers(b"HTTP/1.1 200 OK\r\n\r\n"), tls=certificate(tmp_path)) as server,
    ):
        for number in range(3):
            endpoint = subscriber(f"endpoint-{number}", server.url)
            outcome = await send(context, endpoint)
            assert "TLS" in outcome.error
    assert count == 1


async def test_events_that_are_committed_are_told_so_even_if_a_deleted_endpoint_cannot_be_tidied(
    receiver: Receiver, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a 503 after the commit the producer would send delivered events again."""
    engine = await Engine.start(database)

    async def away(_uid: str, _reason: str) -> int:
        raise StoreUnavailable("database is locked")

    monkeypatch.setattr(engine.store, "discard", away)
    engine.registry.put(subscriber("orders", receiver.url))
    posting = asyncio.create_task(engine.post())
    await asyncio.sleep(0)
    engine.registry.remove("orders")
    assert (await posting).accepted == 1
    await engine.stop()
